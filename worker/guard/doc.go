// Package guard holds what all guards share: the fencing token, and the two answers of a guard that a worker must tell apart.
//
// A guard stands before a store and keeps one number per resource, the mark: the highest token that has written there. It lets a write
// pass if its token is not below the mark, raises the mark to it, and refuses the write otherwise. Check and write are one step of the
// store: no pause of the worker, however long and at whatever instruction, comes between them.
//
// A token comes with each attempt of a task ([FromEnv]), is never reused, and rises with every grant in the cluster. Equal tokens pass,
// because a worker that lost an answer must be able to repeat its write.
//
// The answers:
//
//   - nil: the write is in the store, and no lower token writes to the resource any more.
//   - [StaleError]: nothing was written, somebody newer was here. There is nothing to repair and nothing to retry: end.
//   - [UncertainError]: the store did not answer, so the write is there or is not. Repeat it with the same token, or read.
//   - any other error: nothing was written.
//
// What a guard does not do: it does not make two attempts into one (a new attempt may redo what the old one did: that is what the
// idempotency key is for), it does not order writes under one token, and it knows only the resources that all writers name alike.
// A writer that goes around the guard is not stopped by it.
//
// The guards: postgres, redis, s3, http, and, in a module of its own, kubernetes. Package conformance is the test that all of them
// pass, and that a guard of your own should.
package guard
