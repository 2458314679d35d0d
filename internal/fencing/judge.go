package fencing

import (
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing/bug"
)

// Verdict is the controller's judgement of a term. It is closed: a switch on it lists every value.
type Verdict string

const (
	// VerdictUnclaimed: granted, nobody has claimed; no lease runs yet.
	VerdictUnclaimed Verdict = "Unclaimed"
	// VerdictHeld: claimed, and seen alive less than one duration ago.
	VerdictHeld Verdict = "Held"
	// VerdictExpired: claimed, and seen unchanged for one duration. Dangerous: it allows a revoke, after a live read.
	VerdictExpired Verdict = "Expired"
	// VerdictSubmitted: the agent has ended the term.
	VerdictSubmitted Verdict = "Submitted"
	// VerdictRevoked: the controller has ended the term.
	VerdictRevoked Verdict = "Revoked"
)

// Judge says where a term stands for a process that has seen its record unchanged (see [Term.Mark]) since the given
// time, on its own clock. For VerdictHeld, the duration says when to look again.
func Judge(t *Term, since, now time.Time) (Verdict, time.Duration) {
	switch t.State() {
	case Submitted:
		return VerdictSubmitted, 0
	case Revoked:
		return VerdictRevoked, 0
	case Granted:
		return VerdictUnclaimed, 0
	case Claimed:
		if left := remaining(t, since, now); left > 0 {
			return VerdictHeld, left
		}
		return VerdictExpired, 0
	}
	panic("unknown state " + string(t.State())) // unreachable: State is closed
}

// Release is the ground on which a term that has ended lets the next attempt start. It is closed.
type Release string

const (
	// NotReleased: the old process may still run.
	NotReleased Release = "NotReleased"
	// ReleasedSubmitted: its agent submitted, which it does only once its process tree is dead.
	ReleasedSubmitted Release = "Submitted"
	// ReleasedUnclaimed: nothing ever ran.
	ReleasedUnclaimed Release = "Unclaimed"
	// ReleasedTerminated: the kubelet reports the worker container of the claiming Pod as terminated.
	ReleasedTerminated Release = "Terminated"
	// ReleasedElapsed: one duration has passed since its last observed renewal: it has fenced itself.
	ReleasedElapsed Release = "Elapsed"
)

// Released says whether, and why, the next attempt may start after t. terminated is true if the Pod whose UID is in the
// claim reports its worker container terminated, by the kubelet's own account (see the planner's workerTerminated): never
// by the Pod's phase alone, and never by its absence, because garbage collection and forced deletion lie about a
// partitioned node. For NotReleased, the duration says when to look again; 0 for an open term, which has no such time.
func Released(t *Term, terminated bool, since, now time.Time) (Release, time.Duration) {
	switch t.State() {
	case Submitted:
		return ReleasedSubmitted, 0
	case Granted, Claimed:
		return NotReleased, 0
	case Revoked:
	}
	switch left := remaining(t, since, now); {
	case t.Claim == nil:
		return ReleasedUnclaimed, 0
	case terminated:
		return ReleasedTerminated, 0
	case left <= 0:
		return ReleasedElapsed, 0
	default:
		return NotReleased, left
	}
}

// remaining is what is left of one duration since the record was first seen as it is.
func remaining(t *Term, since, now time.Time) time.Duration {
	if bug.Is(bug.WorkerClockExpiry) {
		since = t.RenewTime
	}
	return TimingFor(t.Duration).Duration - now.Sub(since)
}
