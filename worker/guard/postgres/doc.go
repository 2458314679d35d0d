// Package postgres guards writes to PostgreSQL: the check of the token and the write are one transaction.
//
// Guarantee: once a transaction with token T on a resource has committed, no transaction with a lower token on that resource commits any
// more, at any isolation level. A refused transaction leaves nothing behind. The check locks the resource until the transaction ends, so
// nobody comes between check and write, and a worker that dies there releases it undone.
//
// No guarantee: for what the transaction causes outside the database; for rows that are written without the check; after a failover to a
// standby that had not received the commit (use synchronous replication), which loses data and mark alike; between two databases.
// Marks are restored with the database, so after a restore to an earlier moment they are too low until the next write.
//
// Rights: a worker's role needs EXECUTE on the function leasehold.fence, which runs with the rights of the role that migrated. So workers can
// raise marks and not lower them; [Mark] needs SELECT on the table.
//
// Cost: one more statement in the transaction, and no round trip with [Do] and [SendBatch]. The first write of an attempt writes one
// small row, later ones lock it. Writers of one resource wait for each other, as they would for the row itself. There is one row for each
// resource ever written. See docs/benchmarks.md.
//
// The rule itself is SQL, in migrations/0001_fencing.sql, and can be used from any language.
package postgres
