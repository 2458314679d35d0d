// Package replay decides what becomes of a dead letter's replay requests. It is pure, like package plan: a [Snapshot] goes
// in, a [Plan] comes out.
//
// A request is a number in spec.replay, which only rises. It is answered once: one task is made, or none and the status says
// who refused it. Three things keep it at one task, each alone enough in its case: the task's name follows from the dead
// letter's UID and the number, so two controllers, or one that died before it wrote the status, cannot make two; the status
// remembers the highest number answered, so the same number makes none after the task is gone; and the CRD lets the number
// rise only after the last one was answered, so none gets lost on the way.
//
//	decide.go  the order of things
//	task.go    the task that a request makes
//	retention.go  what becomes of one that is settled: replayed, or discarded
//	status.go     records and conditions
package replay
