package plan

import (
	"fmt"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// onLostUnknown is the policy of such a queue; the API has no such value. An attempt may be the only chance, its end leaves a doubt, and
// nothing draws a consequence from that: see noProbe.
const onLostUnknown v1alpha1.LostAttemptPolicy = "Unknown"

// patient stands for what a queue gave a task while the revision that kept it is gone. Nothing is made of it, for nothing is granted
// then; it only must not end, or let go of, what the real one would have left alone. So it has the longest times and the largest
// budgets that there are: the revision may come back, with another task of its queue.
var patient = &v1alpha1.TaskQueueSpec{Defaults: v1alpha1.TaskDefaults{
	OnLostAttempt:    onLostUnknown,
	Reconcile:        v1alpha1.ReconcileSpec{SettleSeconds: new(int32(v1alpha1.MaxSettleSeconds))},
	Lease:            v1alpha1.LeaseSpec{DurationSeconds: v1alpha1.MaxLeaseDurationSeconds},
	Timeouts:         v1alpha1.TimeoutsSpec{StartSeconds: v1alpha1.MaxStartSeconds},
	Retry:            v1alpha1.RetrySpec{MaxAttempts: v1alpha1.MaxMaxAttempts, MaxDisruptions: new(int32(v1alpha1.MaxMaxDisruptions))},
	StopGraceSeconds: v1alpha1.MaxStopGraceSeconds,
}}

// LeastDuration is the shortest that the lease of the task's holder can be, whatever its Lease says: the agent lives by the duration of
// the spec, which is immutable. Where that is not known, the Lease has the word, and patience is for one that is gone, too.
func (s *Snapshot) LeastDuration() time.Duration {
	if s.Source.IsLost {
		return s.Source.Own.LeaseDuration()
	}
	return s.Task.Spec.LeaseDuration()
}

// noProbe draws the consequence of a doubt that no probe is to settle, now that it is known again what that is. A doubt is dropped from
// here alone: it is in Probing, and so the API server takes that.
func noProbe(s *Snapshot) (Plan, bool) {
	status := s.status()
	isUnwanted := s.Task.Spec.OnLost() == v1alpha1.LostAttemptRetry
	if !isUnwanted && !isHopeless(&s.Task.Spec, status) {
		return Plan{}, false
	}
	status.NextAttemptTime = nil
	if isUnwanted {
		status.Uncertain = v1alpha1.UncertainAttempt{}
		s.pause(status)
	}
	return s.settle(status), true
}

// budgetUsedUp draws the consequence of an end that came while nobody knew the budget: it was the queue's.
func budgetUsedUp(s *Snapshot) (Plan, bool) {
	if budgetUsed(&s.Task.Spec.Retry, &s.Task.Status) == "" {
		return Plan{}, false
	}
	return s.noneFollows(), true
}

// awaitsRevision is what a task waits for whose revision is gone.
func (s *Snapshot) awaitsRevision(status *v1alpha1.LeasedTaskStatus) waiting {
	message := LostRevision(s.Task)
	if isInDoubt(status) {
		message += fmt.Sprintf("; attempt %d may have had its effect, so look first", status.Uncertain.Attempt)
	}
	return waiting{v1alpha1.WaitingQueueRevision, message}
}

// LostRevision says, for people, that what the task was granted with is gone.
func LostRevision(task *v1alpha1.LeasedTask) string {
	return goneRevision(task) + ": cancel the task, and make it anew"
}

func goneRevision(task *v1alpha1.LeasedTask) string {
	return fmt.Sprintf("ControllerRevision %s, which kept what TaskQueue %s gave the task, is gone", task.Status.QueueRevision, task.Spec.QueueName)
}
