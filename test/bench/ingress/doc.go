// Package ingress offers a queue ten times the tasks that its admission takes, and records what becomes of them.
//
// Tasks are offered in an open loop: each at its time, whatever became of the ones before, as many producers would that know
// nothing of each other. What is refused is not repeated. The client has no limit of its own, and repeats nothing by itself.
//
//	offer.go   the producers
//	record.go  what was offered, accepted and refused, and how long the answers took
//	memory.go  what the operator's replicas take meanwhile
//
// The command in run/ measures on a cluster and draws the figures; the end-to-end test of scenario 1 uses the same code.
package ingress
