package plan

import (
	"fmt"
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
	p := s.write(s.status(), waiting{v1alpha1.WaitingAwaitingRelease, fmt.Sprintf("the process of attempt %d may still run", s.Task.Status.Attempt)})
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

// giveUp ends a task, dead letter first. While that cannot be written the task stays as it is, and says why.
func giveUp(s *Snapshot) (Plan, bool) {
	if !s.isOver(&s.Task.Status) {
		return Plan{}, false
	}
	status := s.status()
	if s.DeadLetterRefusal != "" {
		p := s.write(status, deadLetterPending(s.DeadLetterRefusal))
		p.Requeue = RefusedRetry
		return p, true
	}
	dead := deadLetter(s.Task)
	status.DeadLetterName = dead.Name
	s.finish(status, v1alpha1.PhaseDeadLettered)
	p := s.write(status, waiting{})
	p.DeadLetter = dead
	p.Counts = []Count{{CountFinished, string(v1alpha1.PhaseDeadLettered)}, {CountDeadLetter, knownReason(lastOf(status.History).Reason)}}
	p.Events = []Event{{Warning: true, Reason: "DeadLettered", Action: "GiveUp",
		Note: fmt.Sprintf("%s: %s; kept as DeadLetter %s", dead.Spec.Reason, dead.Spec.Message, dead.Name)}}
	return p, true
}

func deadLetterPending(message string) waiting {
	return waiting{v1alpha1.WaitingDeadLetterPending, "the task is over and its dead letter is not written yet: " + message}
}

func reassign(s *Snapshot) (Plan, bool) {
	status := s.status()
	status.Phase = v1alpha1.PhaseAvailable
	return s.write(status, backoffOf(status)), true
}
