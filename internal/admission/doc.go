// Package admission answers the API server's question whether a new task may be made: the validating webhook on CREATE of LeasedTask.
// It runs on every replica, and asks nobody while it answers: what it knows comes from the replica's cache.
//
//	gate         decides; pure. Read it first
//	ledger.go    a gate for each queue
//	feed.go      what the watch shows, entered into the ledger
//	handler.go   the question and the answer, on the wire
//	add.go       all of it, added to a manager
//	certificate  the serving certificate, made and renewed by the replicas themselves
//
// It guards capacity, not correctness: a task that slips past it, because no replica can be reached, is still validated by the API server
// against the schema, and still waits for its turn in the queue.
package admission
