// Package postgres is the transactional outbox in PostgreSQL: [Enqueue] writes an event in the transaction of the business
// rows that it tells about, and a [Relay] takes it to a sink afterwards. Package outbox says what is promised.
//
// # One event, in order
//
//	enqueue   one INSERT; a trigger makes the writers of one key wait for each other (see "Order")
//	commit    the event exists from here on; NOTIFY wakes the relays
//	claim     a relay locks the first event of some keys, FOR UPDATE SKIP LOCKED, and reads those that follow them
//	note      it writes down what it will deliver, on another connection, and commits that
//	deliver   each key in its order, several keys at a time, within the open transaction
//	settle    delivered events are deleted, failed ones given a time for the next try or parked, the note deleted; commit
//
// A relay that dies loses its connection, and with it its locks: another one claims the same events at once. What the first
// had delivered of that one batch is delivered again. The note tells the other one which events these are, and it offers them one by one:
// one that kills relays is found, and each further death over it is counted as a failed delivery, up to [Config.MaxAttempts].
//
// # Order
//
// Two things break the order of a key in the usual outbox, and this one closes both.
//
// A sequence is not the order of commits: the transaction that drew 7 can commit after the one that drew 8, when 8 is
// delivered already. So the trigger takes an advisory lock on the key, held until the transaction ends, and draws the number
// after that. The price: transactions that enqueue on one key come one after another from their Enqueue to their commit.
// Enqueue last, after the business rows, and keep what follows short.
//
// FOR UPDATE SKIP LOCKED alone lets a second relay skip the locked 7 and deliver 8 of the same key. So what is claimed is never
// just any row: it is the first row of a key, and whoever holds it holds the key. Nobody waits for a lock here, so relays
// cannot deadlock.
//
// A relay that is frozen between claim and delivery loses its transaction after [Config.BatchTimeout] and some
// ([idle_in_transaction_session_timeout]); when it wakes it may repeat what others delivered since. It can repeat, not overtake:
// it goes on from an event that it delivered, or whose predecessors were settled.
//
// # Cost
//
// An event is one row, one index entry, and one deleted row later. No row is updated on the way unless a delivery fails. A batch is one
// further row, written without a wait for the disk and deleted. The relay vacuums the tables after every [Config.VacuumEvery]
// events, if it owns them. Dead rows cannot be removed while a transaction older than they are is open anywhere in the database: a
// forgotten one lets the tables grow.
//
// [idle_in_transaction_session_timeout]: https://www.postgresql.org/docs/current/runtime-config-client.html
package postgres
