package plan

import (
	"cmp"

	"k8s.io/apimachinery/pkg/api/equality"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// Effective is a task's spec with what its queue gives where the task says nothing. What the task says always counts, also where that is
// zero. Single fields come one by one, lists as a whole, and as one what means something only together: a template and its worker
// container, onLostAttempt and reconcile, and a ttlSecondsAfterFinished is about every outcome. The result shares memory with both.
func Effective(own v1alpha1.LeasedTaskSpec, queue *v1alpha1.TaskQueueSpec) v1alpha1.LeasedTaskSpec {
	if queue == nil || isWhole(&own) {
		return own
	}
	spec, d := own, &queue.Defaults
	if own.Template == nil {
		spec.Template, spec.WorkerContainer = queue.Template, cmp.Or(own.WorkerContainer, queue.WorkerContainer)
	}
	spec.Lease = v1alpha1.LeaseSpec{
		DurationSeconds:  cmp.Or(own.Lease.DurationSeconds, d.Lease.DurationSeconds),
		Heartbeat:        cmp.Or(own.Lease.Heartbeat, d.Lease.Heartbeat),
		OnRenewalFailure: cmp.Or(own.Lease.OnRenewalFailure, d.Lease.OnRenewalFailure),
	}
	spec.Timeouts = v1alpha1.TimeoutsSpec{
		StartSeconds:   cmp.Or(own.Timeouts.StartSeconds, d.Timeouts.StartSeconds),
		AttemptSeconds: cmp.Or(own.Timeouts.AttemptSeconds, d.Timeouts.AttemptSeconds),
		TotalSeconds:   cmp.Or(own.Timeouts.TotalSeconds, d.Timeouts.TotalSeconds),
	}
	spec.Retry = retryOf(&own.Retry, &d.Retry)
	if own.OnLostAttempt == "" {
		spec.OnLostAttempt, spec.Reconcile = d.OnLostAttempt, d.Reconcile
	}
	spec.StopGraceSeconds = cmp.Or(own.StopGraceSeconds, d.StopGraceSeconds)
	if own.TTLSecondsAfterFinished == nil {
		spec.TTLSecondsAfterFinished = d.TTLSecondsAfterFinished
		spec.TTL = v1alpha1.TTLSpec{
			CompletedSeconds:    cmp.Or(own.TTL.CompletedSeconds, d.TTL.CompletedSeconds),
			CancelledSeconds:    cmp.Or(own.TTL.CancelledSeconds, d.TTL.CancelledSeconds),
			DeadLetteredSeconds: cmp.Or(own.TTL.DeadLetteredSeconds, d.TTL.DeadLetteredSeconds),
		}
	}
	return spec
}

// isWhole reports whether a task takes nothing from its queue: a replay has all that its ancestor had.
func isWhole(own *v1alpha1.LeasedTaskSpec) bool {
	return own.Template != nil && own.ReplayOf != (v1alpha1.ReplayOf{})
}

func retryOf(own, d *v1alpha1.RetrySpec) v1alpha1.RetrySpec {
	retry := v1alpha1.RetrySpec{
		MaxAttempts:    cmp.Or(own.MaxAttempts, d.MaxAttempts),
		MaxDisruptions: cmp.Or(own.MaxDisruptions, d.MaxDisruptions),
		Backoff: v1alpha1.BackoffSpec{
			InitialSeconds: cmp.Or(own.Backoff.InitialSeconds, d.Backoff.InitialSeconds),
			MaxSeconds:     cmp.Or(own.Backoff.MaxSeconds, d.Backoff.MaxSeconds),
			Factor:         cmp.Or(own.Backoff.Factor, d.Backoff.Factor),
			Jitter:         cmp.Or(own.Backoff.Jitter, d.Backoff.Jitter),
		},
		Rules: own.Rules,
	}
	if len(own.Rules) == 0 {
		retry.Rules = d.Rules
	}
	return retry
}

// GivenBy is what a queue gives to its tasks, without the rest of its spec; nil: nothing.
func GivenBy(queue *v1alpha1.TaskQueueSpec) *v1alpha1.TaskQueueSpec {
	given := &v1alpha1.TaskQueueSpec{Template: queue.Template, WorkerContainer: queue.WorkerContainer, Defaults: queue.Defaults}
	if equality.Semantic.DeepEqual(*given, v1alpha1.TaskQueueSpec{}) {
		return nil
	}
	return given
}
