// Package outbox is the part of the transactional outbox that knows no database: what an event is, what a sink does with
// it, how a failed delivery is understood, and how long to wait for the next one. Package outbox/postgres keeps events in
// PostgreSQL and relays them.
//
// # What is promised
//
// An event that was enqueued in a transaction is delivered if, and only if, that transaction commits: at least once, with
// the same id each time, so that the receiver can recognise repeats. Nobody can promise exactly one delivery to a system
// outside the database, and this package does not.
//
// # What order means
//
// Order exists within one key. If the transaction that enqueued A committed before B of the same key was enqueued, then A
// comes first; within one transaction the order is that of the calls. Precisely: the first delivery of an event comes
// after the first delivery of each earlier event of its key. A repeat of an earlier event may come later (a relay was
// killed, or was frozen and woke), so a receiver that must not go back remembers the ids, or for each key the highest
// [Event.Sequence], and skips the rest. Events of different keys have no order. A parked event is overtaken by the later
// ones of its key, visibly.
//
// # How failures are told apart
//
// A sink wraps its errors with [Rejected] or [Unavailable]; any other error is a plain failure. What follows is decided by
// [Judge], which does no I/O:
//
//	Rejected      the event can never be taken                  parked at once
//	plain         the sink failed on this event                 counted and tried again, parked when the tries are used up
//	Unavailable   the sink takes nothing now, or does not answer   if it took other events in the same round as plain;
//	                                                            if not it is an outage: nothing is counted, the relay waits
//
// So an outage of any length parks nothing, and an event on which the receiver dies does not stop the others for ever.
package outbox
