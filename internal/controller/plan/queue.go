package plan

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/queue"
)

// QueueSnapshot is all that a decision about a TaskQueue's status rests on.
type QueueSnapshot struct {
	Now    time.Time
	Queue  *v1alpha1.TaskQueue
	Counts queue.Counts
}

// QueuePlan is what to do about a TaskQueue.
type QueuePlan struct {
	// Status is written if it differs from what stands; nil: it does not.
	Status *v1alpha1.TaskQueueStatus
	// Events follow once it is written.
	Events []Event
}

// DecideQueue says what the status of a TaskQueue is to be.
func DecideQueue(s *QueueSnapshot) QueuePlan {
	status := &v1alpha1.TaskQueueStatus{
		ObservedGeneration: new(s.Queue.Generation),
		Pending:            new(int32(s.Counts.Pending)),
		Running:            new(int32(s.Counts.Running)),
		Conditions:         s.Queue.Status.DeepCopy().Conditions,
	}
	if !s.Counts.Oldest.IsZero() {
		status.OldestPendingTime = new(metav1.NewTime(s.Counts.Oldest.Truncate(time.Second)))
	}
	for _, t := range s.Counts.Tenants {
		status.Tenants = append(status.Tenants, v1alpha1.TenantStatus{Name: t.Name, Pending: new(int32(t.Pending)), Running: new(int32(t.Running))})
	}
	s.setConditions(status)
	if equality.Semantic.DeepEqual(*status, s.Queue.Status) {
		return QueuePlan{}
	}
	return QueuePlan{Status: status, Events: s.news(status)}
}

// setConditions computes all conditions. A paused queue is what its owner wants, and Ready; while it is drained, what runs has still
// to end.
func (s *QueueSnapshot) setConditions(status *v1alpha1.TaskQueueStatus) {
	set := func(kind string, value bool, reason, message string) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: kind, Status: asStatus(value), Reason: reason, Message: message,
			ObservedGeneration: s.Queue.Generation, LastTransitionTime: metav1.NewTime(s.Now)})
	}
	reason, message := v1alpha1.ReasonServing, ""
	isStopping := false
	switch spec := &s.Queue.Spec; {
	case spec.Paused == v1alpha1.PauseDrain && s.Counts.Running > 0:
		isStopping, reason = true, v1alpha1.ReasonDraining
		message = "spec.paused is Drain: nothing starts, and what runs is told to stop"
	case spec.Paused == v1alpha1.PauseDrain:
		reason, message = v1alpha1.ReasonDrained, "spec.paused is Drain: nothing starts, and nothing runs"
	case spec.Paused == v1alpha1.PauseHold:
		reason, message = v1alpha1.ReasonHeldBack, "spec.paused is Hold: nothing starts"
	}
	set(v1alpha1.ConditionReady, !isStopping, reason, message)
	set(v1alpha1.ConditionReconciling, isStopping, reason, message)
	set(v1alpha1.ConditionStalled, false, v1alpha1.ReasonNotStalled, "")
	set(v1alpha1.ConditionPaused, s.Queue.Spec.IsPaused(), reason, message)
}

// news is what a new status tells that the one before did not.
func (s *QueueSnapshot) news(status *v1alpha1.TaskQueueStatus) (events []Event) {
	was, is := meta.FindStatusCondition(s.Queue.Status.Conditions, v1alpha1.ConditionPaused), meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPaused)
	switch {
	case was != nil && was.Reason == is.Reason:
	case is.Status == metav1.ConditionTrue:
		events = append(events, Event{Reason: is.Reason, Action: "Pause", Note: is.Message})
	case was != nil:
		events = append(events, Event{Reason: "Resumed", Action: "Resume", Note: fmt.Sprintf("%d tasks wait for their turn", s.Counts.Pending)})
	}
	return events
}
