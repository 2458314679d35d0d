// Package controller carries plans out. It gathers a snapshot, lets package plan decide, and does what the plan says, in
// one order, always, after what a queue gives was kept: (1) compare-and-swap on the Lease, (2) the dead letter, (3) compare-and-swap on the task's status,
// (4) Pods, (5) events and metrics. Nothing here decides who may run; read package plan for that, and package fencing for why.
//
//	add.go         what an operator is made of
//	reconciler.go  one pass: get, gather, plan, execute
//	gather.go      snapshots, from the cache or live
//	execute.go     carrying a plan out, and what follows; steps.go has its writes, one by one
//	grant.go       the one step whose status depends on its own answer: the token
//	pods.go        creating, deleting and limiting Pods; what a refusal means
//	revisions.go   what a queue gives its tasks: read, and kept with the first grant
//	deadletter.go  making dead letters
//	replay.go      a second, small controller: it answers the replay requests of dead letters; see package replay
//	turns.go       the queues in memory: who waits, who holds capacity; with turnline.go, and turnseed.go for a new leader
//	queuekeeper.go a controller of TaskQueues: their status, metrics and events
//	observer.go    since when this process has seen a term unchanged, and when to look again
//	sight.go       whether this process can see at all
//	epoch.go       the epoch, read live at each grant
//	access.go      the worker role's binding, one per namespace
//	setup.go       watches, and which events are worth a pass
package controller
