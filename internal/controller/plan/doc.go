// Package plan decides what happens to a task. It is pure: a [Snapshot] goes in, a [Plan] comes out; it has no client, no
// clock and no randomness, and the same snapshot gives the same plan.
//
// [Decide] walks an ordered list of rules; the first that applies decides, and its name travels with the plan into logs
// and tests. A plan names at most one revision of what a queue gives, one write to the Lease, one dead letter, one status, and what follows
// for Pods. The executor carries them out in that order, always, what is kept of a queue before all else: (1) Lease, (2) dead letter, (3) status, (4) Pods, (5) events and metrics. After a crash between any two of
// them the next pass finds, from the Lease and the status alone, where it was.
//
// Plans made from a cache may be wrong about the past. One that revokes, grants, creates or deletes says so
// ([Plan.NeedsLive]), and is decided again from a live read before it is carried out. Every write then names what it was
// decided on (resourceVersion, holder, claim, UID), so that a race costs a conflict and never a second owner.
//
// A task that names a queue is decided on with its effective spec ([Effective]): what the queue gives, under what the task says itself.
// No rule needs to know which of the two a field is from, but the one that says what is wrong.
//
// The legal changes of phase are one table, [Transitions]; docs/lifecycle.md and the CEL rule on the CRD's status say the
// same, and a test compares them.
package plan
