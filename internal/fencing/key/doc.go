// Package key is the protocol of key Leases: the part of Leasehold that decides which of several tasks may run, where they name
// the same key. It is pure, as package fencing is: callers pass what they saw and what time it is, and get back a verdict, or a
// Lease to write.
//
// # The key Lease
//
// A key is a text under one of two kinds: [Idempotency] (work that is done once, and whose result is kept) and [Concurrency]
// (work that is not done at the same time). The two never meet: the kind is part of the hash that names the Lease ([Name]).
// For each key in use there is one Lease in the namespace, without an owner: a key outlives the tasks that use it. Every change
// is one compare-and-swap on that Lease, so that every race has one arbiter: the API server, at one object.
//
//	state      holder     answer   blocked-by        who moved it here
//	Free       no Lease                              controller, Delete
//	Held       task UID   absent   any               controller, Take, before the task's first grant
//	Answered   any        set      any               controller, Record, before the holder's status says Completed
//	Blocked    empty      absent   dead letters      controller, Block, after the holder's end
//
// # The claimants
//
// A task that is about to be granted its next term judges the Lease of each of its keys ([Judge]): idempotency first, then
// concurrency, always in this order, so that no two tasks wait for each other. It takes what is free ([Take]), and holds it to
// its final phase: between attempts, through back-off and suspension. It waits for what is held or blocked. On an idempotency
// key it attaches to the answer, if the answer is to the same payload, and is in conflict if not; with a holder of another
// payload it is in conflict at once, because nothing that the holder may do would make it right.
//
// A claimant never judges a holder. Whatever ends a key's hold, one other process does.
//
// # The keeper
//
// It ends what has no ground left ([Keep]), and nothing else does:
//
//	an answer        after its retention
//	a hold           when the holder's task has reached its final phase: whoever finishes has no process any more
//	                 when the holder's task is gone: D after task and term were both seen gone, because until then the
//	                 holder's process may live: its last renewal was before its term was gone, so by then it has fenced itself
//	                 (a term that outlives its task is ended first, once it was seen unchanged for D)
//	a block          when each of the dead letters that it names is gone or discarded
//
// The end is a deletion that names the Lease's UID and version, or, for a holder whose dead letter is to block the key, an
// update that does. Deletion and not an emptied Lease, so that no key leaves anything behind.
//
// # Blocks
//
// A task with onDeadLetter: BlockKey says so on the Lease when it takes the key, so that its word outlives it. When it has ended,
// and its dead letter is there, the dead letter takes its place. Only a replay of that dead letter may take the key then; the
// Lease keeps the dead letter's name meanwhile, and if the replay ends without a success, the key is blocked again. A success
// ends the block.
//
// # What is assumed
//
// That the process of a holder has ended by its final phase is the term protocol's promise. That it has ended D after its task
// and its term were gone is that of the agent, and is void with onRenewalFailure: Continue. The retention of an answer is
// measured with the wall clocks of operators. Whoever deletes a key Lease by hand forgets the answer, or lets the next task in.
package key
