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

// QueueState is what a TaskQueue does at one time.
type QueueState struct {
	Counts queue.Counts
	// Breaker is what its breaker is at; nil: it has none.
	Breaker *queue.BreakerRecord
}

// IsBroken reports whether a breaker keeps tasks from starting.
func (is *QueueState) IsBroken() bool { return is.Breaker != nil && is.Breaker.State != queue.Closed }

// QueuePlan is what to do about a TaskQueue.
type QueuePlan struct {
	// Status is written if it differs from what stands; nil: it does not.
	Status *v1alpha1.TaskQueueStatus
	// IsUrgent: it bears what another operator has to go on from.
	IsUrgent bool
	// Events follow once it is written.
	Events []Event
}

// DecideQueue says what the status of a TaskQueue is to be.
func DecideQueue(tq *v1alpha1.TaskQueue, is *QueueState, now time.Time) QueuePlan {
	status := &v1alpha1.TaskQueueStatus{
		ObservedGeneration: new(tq.Generation),
		Pending:            new(int32(is.Counts.Pending)),
		Running:            new(int32(is.Counts.Running)),
		Breaker:            breakerStatus(is.Breaker),
		Conditions:         tq.Status.DeepCopy().Conditions,
	}
	if !is.Counts.Oldest.IsZero() {
		status.OldestPendingTime = new(metav1.NewTime(is.Counts.Oldest.Truncate(time.Second)))
	}
	for _, t := range is.Counts.Tenants {
		status.Tenants = append(status.Tenants, v1alpha1.TenantStatus{Name: t.Name, Pending: new(int32(t.Pending)), Running: new(int32(t.Running))})
	}
	setQueueConditions(status, tq, is, now)
	if equality.Semantic.DeepEqual(*status, tq.Status) {
		return QueuePlan{}
	}
	p := QueuePlan{Status: status, IsUrgent: status.Breaker.State != tq.Status.Breaker.State}
	p.announce(&tq.Status, v1alpha1.ConditionPaused, Event{Action: "Pause"}, Event{Reason: "Resumed", Action: "Resume"})
	p.announce(&tq.Status, v1alpha1.ConditionBreakerOpen, Event{Warning: true, Action: "OpenBreaker"}, Event{Reason: "BreakerClosed", Action: "CloseBreaker"})
	return p
}

// setQueueConditions computes all conditions. A paused queue is what its owner wants, and Ready; one that is drained still has to end
// what runs.
func setQueueConditions(status *v1alpha1.TaskQueueStatus, tq *v1alpha1.TaskQueue, is *QueueState, now time.Time) {
	set := func(kind string, value bool, reason, message string) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: kind, Status: asStatus(value), Reason: reason, Message: message,
			ObservedGeneration: tq.Generation, LastTransitionTime: metav1.NewTime(now)})
	}
	reason, message := v1alpha1.ReasonServing, ""
	switch isIdle := is.Counts.Running == 0; {
	case tq.Spec.Paused == v1alpha1.PauseDrain && !isIdle:
		reason, message = v1alpha1.ReasonDraining, "spec.paused is Drain: nothing starts, and what runs is told to stop"
	case tq.Spec.Paused == v1alpha1.PauseDrain:
		reason, message = v1alpha1.ReasonDrained, "spec.paused is Drain: nothing starts, and nothing runs"
	case tq.Spec.Paused == v1alpha1.PauseHold:
		reason, message = v1alpha1.ReasonHeldBack, "spec.paused is Hold: nothing starts"
	}
	set(v1alpha1.ConditionPaused, tq.Spec.IsPaused(), reason, message)
	isStopping := reason == v1alpha1.ReasonDraining
	set(v1alpha1.ConditionReconciling, isStopping, reason, message)
	set(v1alpha1.ConditionStalled, false, v1alpha1.ReasonNotStalled, "")
	if is.Breaker == nil {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionBreakerOpen)
	} else {
		why, what := breakerSays(is.Breaker)
		set(v1alpha1.ConditionBreakerOpen, is.IsBroken(), why, what)
		if is.IsBroken() && !tq.Spec.IsPaused() {
			reason, message = v1alpha1.ConditionBreakerOpen, what
		}
	}
	set(v1alpha1.ConditionReady, !isStopping && !is.IsBroken(), reason, message)
}

// breakerSays is the reason and message of the condition BreakerOpen.
func breakerSays(r *queue.BreakerRecord) (reason, message string) {
	cause := map[queue.Cause]string{
		queue.CauseFailurePercent: "too many attempts have failed",
		queue.CauseSameFailures:   "too many attempts have failed in the same way, fingerprint " + r.Fingerprint,
		queue.CauseProbeFailed:    "an attempt that tried has failed, fingerprint " + r.Fingerprint,
		queue.CauseOverride:       "spec.breaker.override says so, or did",
	}[r.Cause]
	switch r.State {
	case queue.Open:
		return string(r.Cause), "nothing starts: " + cause
	case queue.HalfOpen:
		return v1alpha1.ReasonBreakerHalfOpen, "a few attempts try; it was opened because " + cause
	case queue.Closed:
	}
	return v1alpha1.ReasonBreakerClosed, ""
}

// announce tells of a condition that is True for another reason than before, or no longer.
func (p *QueuePlan) announce(before *v1alpha1.TaskQueueStatus, kind string, on, off Event) {
	was, is := meta.FindStatusCondition(before.Conditions, kind), meta.FindStatusCondition(p.Status.Conditions, kind)
	wasOn, isOn := was != nil && was.Status == metav1.ConditionTrue, is != nil && is.Status == metav1.ConditionTrue
	switch {
	case isOn && (!wasOn || was.Reason != is.Reason):
		on.Reason, on.Note = is.Reason, is.Message
		if kind == v1alpha1.ConditionBreakerOpen {
			on.Reason = "Breaker" + on.Reason
		}
		p.Events = append(p.Events, on)
	case wasOn && !isOn:
		off.Note = fmt.Sprintf("%d tasks wait for their turn", *p.Status.Pending)
		p.Events = append(p.Events, off)
	}
}

// breakerStatus is what of a breaker is kept.
func breakerStatus(r *queue.BreakerRecord) (status v1alpha1.BreakerStatus) {
	if r == nil {
		return status
	}
	status.State, status.Cause, status.Fingerprint = string(r.State), string(r.Cause), r.Fingerprint
	if !r.Since.IsZero() {
		status.Since = new(metav1.NewTime(r.Since))
	}
	if r.Successes > 0 {
		status.Successes = new(int32(r.Successes))
	}
	return status
}

// BreakerRecord is what was kept of a breaker.
func BreakerRecord(status *v1alpha1.BreakerStatus) (r queue.BreakerRecord) {
	r.State, r.Cause, r.Fingerprint = queue.BreakerState(status.State), queue.Cause(status.Cause), status.Fingerprint
	if status.Since != nil {
		r.Since = status.Since.Time
	}
	if status.Successes != nil {
		r.Successes = int(*status.Successes)
	}
	return r
}
