package plan

import (
	"fmt"
	"math"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// Backoff is the pause before the attempt that follows n ended ones (n >= 1): bound = min(max, initial * factor^(n-1)),
// then jitter with u uniform in [0, 1). Full: u * bound. Equal: bound/2 + u * bound/2. The result is in [0, max] for every
// n; the power is taken in floating point, where it saturates and does not wrap.
//
// Source of the formulas: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
func Backoff(spec *v1alpha1.BackoffSpec, n int32, u float64) time.Duration {
	bound := math.Min(float64(spec.Max()), float64(spec.Initial())*math.Pow(float64(spec.Multiplier()), float64(max(n, 1)-1)))
	switch spec.Jitter {
	case v1alpha1.JitterNone:
		return time.Duration(bound)
	case v1alpha1.JitterEqual:
		return time.Duration(bound/2 + u*bound/2)
	case v1alpha1.JitterFull: // and unset
	}
	return time.Duration(u * bound)
}

// budgetUsed says which budget is used up, empty if none.
func budgetUsed(spec *v1alpha1.RetrySpec, status *v1alpha1.LeasedTaskStatus) string {
	switch {
	case status.Failures >= spec.Attempts():
		return fmt.Sprintf("%d of %d attempts failed", status.Failures, spec.Attempts())
	case status.Disruptions > spec.ForgivenDisruptions():
		return fmt.Sprintf("%d disruptions, %d are forgiven", status.Disruptions, spec.ForgivenDisruptions())
	}
	return ""
}

// isOver reports whether there will be no further attempt after those on record.
func (s *Snapshot) isOver(status *v1alpha1.LeasedTaskStatus) bool {
	if isInDoubt(status) { // first what happened, then what follows
		return isHopeless(&s.Task.Spec, status) || s.isTimeUp()
	}
	last := lastAttemptOf(status.History)
	return isFatal(&last) || budgetUsed(&s.Task.Spec.Retry, status) != "" || s.isTimeUp()
}

// isFatal reports whether an attempt ends the task whatever budget is left: a rule says so, or none says otherwise and its worker
// says that another cannot succeed, or it could not start, which what cannot start the first time never will. A worker that did
// start may submit any reason, these too; it means nothing.
func isFatal(entry *v1alpha1.AttemptRecord) bool {
	if entry.Action != "" {
		return entry.Action == v1alpha1.RetryActionDeadLetter
	}
	if isPermanent(entry) {
		return true
	}
	switch entry.Reason {
	case ReasonStartTimeout, ReasonPodInvalid, ReasonInvalidImageName:
		return entry.StartTime == nil
	case ReasonIdempotencyConflict, ReasonKeyRejected:
		return entry.Evidence == v1alpha1.EvidenceKey
	default:
		return false
	}
}

// pauseOf is what an available task waits for.
func (s *Snapshot) pauseOf(status *v1alpha1.LeasedTaskStatus) waiting {
	if s.Source.IsLost { // what the next pass would say, here and below
		return s.awaitsRevision(status)
	}
	if s.Task.Spec.IsSuspended() {
		return waiting{v1alpha1.WaitingSuspended, "spec.suspend is true"}
	}
	if s.isDraining() && status.NextAttemptTime == nil {
		return waiting{v1alpha1.WaitingQueuePaused, s.pausedQueue()}
	}
	return backoffOf(status)
}

// backoffOf is what a task waits for between two attempts or probes.
func backoffOf(status *v1alpha1.LeasedTaskStatus) waiting {
	if status.NextAttemptTime == nil { // a budget that was raised since: no pause was set
		return waiting{v1alpha1.WaitingBackoff, nextTerm(status) + " starts now"}
	}
	reason := v1alpha1.WaitingBackoff
	if isFirstProbeDue(status) {
		reason = v1alpha1.WaitingSettling
	}
	return waiting{reason, fmt.Sprintf("%s starts after %s", nextTerm(status), status.NextAttemptTime.UTC().Format(time.RFC3339))}
}
