package plan

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// settle says what becomes of a task whose last attempt, if there was one, is on record, did not count, and can no longer run.
func (s *Snapshot) settle(status *v1alpha1.LeasedTaskStatus) Plan {
	lost := s.lostKey()
	switch {
	case s.Task.Spec.IsCancelled():
		return s.finish(status, v1alpha1.PhaseCancelled)
	case lost != nil:
		return s.yield(status, lost)
	case s.isOver(status):
		status.Phase, status.DeadLetterName = v1alpha1.PhaseExpired, deadLetterName(s.Task)
		return s.write(status, deadLetterPending("it will be written next"))
	case isInDoubt(status):
		return s.awaitProbe(status)
	}
	status.Phase = v1alpha1.PhaseAvailable
	return s.write(status, s.pauseOf(status))
}

// finish writes a final phase. A success is on the task's key first; while the API server does not take that, the task stays
// what it is.
func (s *Snapshot) finish(status *v1alpha1.LeasedTaskStatus, phase v1alpha1.Phase) Plan {
	if phase == v1alpha1.PhaseCompleted && s.KeyRefusal != "" {
		return s.awaitKeyLease()
	}
	status.Phase = phase
	status.CompletionTime = new(metav1.NewTime(s.Now))
	status.NextAttemptTime = nil
	p := s.write(status, waiting{})
	p.Counts = []Count{{CountFinished, string(phase)}}
	p.Events = []Event{s.finishedAs(status)}
	if phase == v1alpha1.PhaseCompleted {
		p.Answer, p.MustLook = s.answer(status), !s.isAnswered()
	}
	return p
}

func (s *Snapshot) finishedAs(status *v1alpha1.LeasedTaskStatus) Event {
	reason, message := s.summary(status, waiting{})
	switch status.Phase {
	case v1alpha1.PhaseCompleted:
		if endedByKey(status) == ReasonAttached {
			return Event{Reason: "Attached", Action: "Attach", Note: message}
		}
		return Event{Reason: "Completed", Action: "Verify", Note: fmt.Sprintf("%s under token %d", sentence(message), status.FencingToken)}
	case v1alpha1.PhaseCancelled:
		if reason == v1alpha1.ReasonSuperseded {
			return Event{Reason: reason, Action: "Replace", Note: message}
		}
		return Event{Reason: "Cancelled", Action: "Cancel", Note: message}
	default:
		return Event{Warning: true, Reason: "DeadLettered", Action: "GiveUp", Note: fmt.Sprintf("%s: %s; kept as DeadLetter %s", reason, message, status.DeadLetterName)}
	}
}
