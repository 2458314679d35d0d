package v1alpha1

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Defaults of fields that are unset. The fields' comments state the same numbers.
const (
	DefaultLeaseDurationSeconds  = 30
	DefaultStartSeconds          = 3600
	DefaultStopGraceSeconds      = 30
	DefaultMaxAttempts           = 5
	DefaultMaxDisruptions        = 10
	DefaultBackoffInitialSeconds = 1
	DefaultBackoffMaxSeconds     = 300
	DefaultBackoffFactor         = 2

	DefaultIdempotencyRetentionSeconds = 86400

	DefaultBreakerMinSamples  = 10
	DefaultBreakerOpenSeconds = 60
)

// Limits of fields that are about how patient somebody is. The fields' validation has the same numbers.
const (
	MaxLeaseDurationSeconds = 3600
	MaxStartSeconds         = 604800
	MaxStopGraceSeconds     = 3600
	MaxMaxAttempts          = 100
	MaxMaxDisruptions       = 1000
	MaxSettleSeconds        = 86400
)

// MaxHistory is the largest number of entries in status.history.
const MaxHistory = 20

// LeaseDuration is D.
func (s *LeasedTaskSpec) LeaseDuration() time.Duration {
	return seconds(s.Lease.DurationSeconds, DefaultLeaseDurationSeconds)
}

// OnRenewalFailure is what a worker does that cannot renew.
func (s *LeasedTaskSpec) OnRenewalFailure() RenewalFailurePolicy {
	return cmp.Or(s.Lease.OnRenewalFailure, RenewalFailureFence)
}

// Heartbeat is what keeps the lease renewed.
func (s *LeasedTaskSpec) Heartbeat() HeartbeatSource {
	return cmp.Or(s.Lease.Heartbeat, HeartbeatProcess)
}

// StartTimeout bounds the time from grant to claim.
func (s *LeasedTaskSpec) StartTimeout() time.Duration {
	return seconds(s.Timeouts.StartSeconds, DefaultStartSeconds)
}

// AttemptLimit bounds the time from claim to end; 0: it is not bounded.
func (s *LeasedTaskSpec) AttemptLimit() time.Duration {
	return time.Duration(s.Timeouts.AttemptSeconds) * time.Second
}

// TotalLimit bounds the task over all attempts; 0: it is not bounded.
func (s *LeasedTaskSpec) TotalLimit() time.Duration {
	return time.Duration(s.Timeouts.TotalSeconds) * time.Second
}

// StopGrace is the time from SIGTERM to SIGKILL when a Pod is told to stop.
func (s *LeasedTaskSpec) StopGrace() time.Duration {
	return seconds(s.StopGraceSeconds, DefaultStopGraceSeconds)
}

// IsCancelled reports whether somebody wants the task to end.
func (s *LeasedTaskSpec) IsCancelled() bool { return s.Cancel != CancelSpec{} }

// IsSuspended reports whether no attempt may run.
func (s *LeasedTaskSpec) IsSuspended() bool { return s.Suspend != nil && *s.Suspend }

// HasPayloadSource reports whether the payload is kept in a ConfigMap or a Secret.
func (s *LeasedTaskSpec) HasPayloadSource() bool { return s.PayloadFrom != PayloadSource{} }

// workerOf is the container of a template that does the work, the one of the given name if there is one; nil if there is none.
func workerOf(template *corev1.PodTemplateSpec, name string) *corev1.Container {
	if template == nil { // the API server does not let that through
		return nil
	}
	for i := range template.Spec.Containers {
		if c := &template.Spec.Containers[i]; name == "" || c.Name == name {
			return c
		}
	}
	return nil
}

// IdempotencyKey is the same for every attempt, and for every replay.
func (t *LeasedTask) IdempotencyKey() string {
	return cmp.Or(t.Spec.SharedIdempotencyKey(), string(t.UID))
}

// SharedIdempotencyKey is the key, if other tasks may have the same; empty: none may. A replay's is its ancestor's.
func (s *LeasedTaskSpec) SharedIdempotencyKey() string {
	return cmp.Or(s.ReplayOf.IdempotencyKey, s.IdempotencyKey)
}

// IdempotencyRetention is for how long a success answers later tasks with the same key, in seconds.
func (s *LeasedTaskSpec) IdempotencyRetention() int32 {
	return cmp.Or(s.IdempotencyRetentionSeconds, DefaultIdempotencyRetentionSeconds)
}

// Attempts is the budget of failures.
func (r *RetrySpec) Attempts() int32 { return cmp.Or(r.MaxAttempts, DefaultMaxAttempts) }

// ForgivenDisruptions is the budget of disruptions.
func (r *RetrySpec) ForgivenDisruptions() int32 {
	if r.MaxDisruptions == nil { // 0 has a meaning
		return DefaultMaxDisruptions
	}
	return *r.MaxDisruptions
}

// Initial is the bound of the first pause.
func (b *BackoffSpec) Initial() time.Duration {
	return seconds(b.InitialSeconds, DefaultBackoffInitialSeconds)
}

// Max is the largest bound of a pause.
func (b *BackoffSpec) Max() time.Duration { return seconds(b.MaxSeconds, DefaultBackoffMaxSeconds) }

// Multiplier is the factor between two bounds.
func (b *BackoffSpec) Multiplier() int32 { return cmp.Or(b.Factor, DefaultBackoffFactor) }

// TenantName is on whose behalf the task runs.
func (t *LeasedTask) TenantName() string { return cmp.Or(t.Spec.Tenant, t.Namespace) }

// PriorityValue orders the tasks of a queue.
func (s *LeasedTaskSpec) PriorityValue() int32 {
	if s.Priority == nil {
		return 0
	}
	return *s.Priority
}

// OpenFor is how long the breaker is open before a few attempts may try.
func (b *BreakerSpec) OpenFor() time.Duration {
	return seconds(b.OpenSeconds, DefaultBreakerOpenSeconds)
}

// IsFinished reports whether the phase is final.
func (p Phase) IsFinished() bool {
	return p == PhaseCompleted || p == PhaseCancelled || p == PhaseDeadLettered
}

func seconds(v, otherwise int32) time.Duration {
	return time.Duration(cmp.Or(v, otherwise)) * time.Second
}

// IsPaused reports whether nothing of the queue may start.
func (s *TaskQueueSpec) IsPaused() bool { return s.Paused == PauseHold || s.Paused == PauseDrain }
