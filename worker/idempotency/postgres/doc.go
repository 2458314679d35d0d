// Package postgres remembers the answer of a call under a key that the caller chose, in the transaction that the call itself is
// made of. The same call again, after a lost answer or by another attempt of a task, gets the stored answer and changes nothing.
//
// # What is promised
//
// Of all transactions that use [Do] with one scope and key, at most one that commits has executed the work, until the retention
// time is over. The answer and the rows that the work wrote are there together or not at all: a crash between them cannot happen.
// So a caller that does not know how its call ended calls again with the same key and payload.
//
// # What is not promised
//
// Only what the work does in the given transaction is undone when it fails. A mail that it sent, or a charge at another company's
// API, is not, and may happen again: pass the key on to that API, or enqueue an event (package outbox/postgres) and let its
// receiver be the one that remembers. After the retention time the same key is executed again. And a key names one call only
// if the caller makes it so: $LEASEHOLD_IDEMPOTENCY_KEY is one for each task, so a task that makes two calls puts a name behind it.
//
// # At the same time
//
// Calls with the same key come one after another: the second waits until the transaction of the first ends, and then gets its
// answer, or executes the work itself if the first was rolled back. With [Request.NoWait] it gets [ErrInProgress] instead. The
// wait is an advisory lock, so a server or client that dies frees it. Take the same care as with row locks: a transaction that
// uses several keys uses them in one order, or PostgreSQL ends one with error 40P01.
//
// In a transaction of the isolation level READ COMMITTED a repeat finds the answer at once. In REPEATABLE READ and SERIALIZABLE its
// snapshot may be older than the answer; it then executes the work and fails when it stores the answer, with an error that is
// [ErrSuperseded]: everything is undone, and a new transaction finds the answer.
//
// # Cost
//
// Two statements before the work (one round trip) and one after it, one row of the answer's size until it is cleaned up. No row is
// updated.
package postgres
