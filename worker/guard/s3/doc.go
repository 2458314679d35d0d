// Package s3 guards objects in an S3 store by conditional writes: the token is inside the object, and the object is replaced
// only if it is still the one whose token was checked (If-Match), or still does not exist (If-None-Match).
//
// Guarantee: once [Guard.Put] or [Guard.Update] with token T on a key has succeeded, no write of this package with a lower token on
// that key succeeds any more. It needs a store that makes the check of these conditions and the write one step, and that never answers a
// read with an old object: Amazon S3 does, some others ignore the headers, and [Guard.Verify] asks.
//
// No guarantee: against writers that go around this package; across two keys; after a deletion, with which the mark is gone. Where
// an old version is restored, its old mark is too.
//
// The object begins with one line, "leasehold-fence/1 <token> <random>", then come the bytes as they were given; a reader without this package
// skips the first line. The random text is needed: an S3 store names an object's version by the hash of its content, so an object that
// was replaced by an equal one under a higher token would look unchanged to a stale writer.
//
// Rights: s3:GetObject and s3:PutObject. To a role without s3:ListBucket S3 does not say that an object is not there, it forbids to read it.
// [Guard.Put] and [Guard.Update] then write it on the condition that it is not there; if it is, the error says that it may not be read.
//
// Cost: a read before each write, and both again when another writer came between. For large data, upload it under a name of its own,
// which nobody else uses, and put that name into a guarded object (see the example of [Guard.Put]).
package s3
