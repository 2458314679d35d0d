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
//	state      holder     answer   blocked-by     newest   who moved it here
//	Free       no Lease                                    controller, Delete
//	Held       task UID   absent   any            any      controller, Take, before the task's first grant
//	Answered   any        set      any            absent   controller, Record, before the holder's status says Completed
//	Blocked    empty      absent   dead letters   any      controller, Block, after the holder's end
//	Promised   empty      absent   absent         a task   controller, Promise, after the holder's end
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
// # Policies
//
// Of a concurrency key, a claimant may do other than wait ([Policy]). With [PolicyReject] it is rejected by what is held, promised
// or blocked. With [PolicyReplace] it asks for the key ([Ask]): the Lease names it as the newest, in place of an older one. What
// is newer is a matter of creation, and not of arrival: of the times at which two tasks were made, then of their names.
//
// Whatever is older than the newest is superseded ([Lock.Supersedes]): the holder is told to stop, as by a cancel, and who waits
// ends without having run. The word stands, also if the newest ends before the holder does: nothing takes it back but the end of
// the hold, so nobody is told to stop and to go on in turns. A holder that is newer than the newest stays.
//
// When the hold is over, the keeper promises the key to the newest, if that is unfinished, and does not free it: else an older task
// that has not heard of it yet could be quicker. Of a promised key, nobody but the newest may take it, or one that is newer and
// replaces that in turn.
//
// A replay waits, whatever its policy: somebody decided that work of the past is to be done after all, and that is no reason to
// stop newer work, nor to give it up again. One of a dead letter that blocks the key is not superseded: nothing else ends the
// block.
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
//	a promise        when the task that it was made to has finished, or is gone: it had no process
//
// The end is a deletion that names the Lease's UID and version, or, for a holder whose dead letter is to block the key, or after
// whom the key is promised, an update that does. Deletion and not an emptied Lease, so that no key leaves anything behind.
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
// measured with the wall clocks of operators, and which of two tasks is newer with those of API servers. Whoever deletes a key Lease by hand forgets the answer, or lets the next task in.
package key
