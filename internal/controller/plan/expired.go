package plan

import (
	"cmp"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/bug"
)

func awaitRelease(s *Snapshot) (Plan, bool) {
	left := s.untilReleased()
	if left <= 0 {
		return Plan{}, false
	}
	p := s.write(s.status(), waiting{v1alpha1.WaitingAwaitingRelease, "the process of " + termOf(&s.Task.Status) + " may still run"})
	p.Requeue = left
	return p, true
}

// untilReleased is how long the recorded attempt's process may still run. A Lease that is gone, or bears another term, is a
// revoked term whose last renewal nobody knows: one full duration from when this process first saw that.
func (s *Snapshot) untilReleased() time.Duration {
	terminated := s.hasWorkerTerminated()
	if s.isRecorded() {
		release, left := fencing.Released(s.Term, terminated, s.Since, s.Now)
		switch {
		case release != fencing.NotReleased, bug.Is(bug.GrantOverHeld):
			return 0
		case s.Term.IsOpen(): // it must end first, by an earlier rule; this one never lets it go
			return s.Task.Spec.LeaseDuration()
		}
		return left
	}
	if terminated && s.hasClaim() {
		return 0
	}
	return s.Task.Spec.LeaseDuration() - s.Now.Sub(s.Since)
}

// giveUp ends a task, dead letter first. While that cannot be written the task stays as it is, and says why. That there will be
// one was put on record before, by name: whatever is asked of the task after that, it has one.
func giveUp(s *Snapshot) (Plan, bool) {
	if s.Task.Status.DeadLetterName == "" {
		return Plan{}, false
	}
	status := s.status()
	if s.DeadLetterRefusal != "" {
		p := s.write(status, deadLetterPending(s.DeadLetterRefusal))
		p.Requeue = RefusedRetry
		return p, true
	}
	dead := s.deadLetter()
	p := s.finish(status, v1alpha1.PhaseDeadLettered)
	p.DeadLetter = dead
	p.Counts = append(p.Counts, Count{CountDeadLetter, knownReason(cmp.Or(decisive(status).Reason, dead.Spec.Reason))})
	return p, true
}

func deadLetterPending(message string) waiting {
	return waiting{v1alpha1.WaitingDeadLetterPending, "the task is over and its dead letter is not written yet: " + message}
}

// lastAttempt puts on record that the attempt that has just been released was the last.
func lastAttempt(s *Snapshot) (Plan, bool) { return s.settle(s.status()), s.isOver(&s.Task.Status) }

func reassign(s *Snapshot) (Plan, bool) { return s.settle(s.status()), true }
