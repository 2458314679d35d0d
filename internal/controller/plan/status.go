package plan

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// waiting is a reason of the Waiting condition; the zero value: not waiting.
type waiting struct {
	reason  string
	message string
}

// write finishes a status: conditions are computed, and it is part of the plan only if it differs from what stands.
func (s *Snapshot) write(status *v1alpha1.LeasedTaskStatus, w waiting) Plan {
	s.fix(status)
	s.setConditions(status, w)
	if equality.Semantic.DeepEqual(*status, s.Task.Status) {
		return Plan{}
	}
	return Plan{Status: status}
}

// Granted is the status that records a grant on the Lease of the given UID, under the token that its write returned.
func Granted(s *Snapshot, grant *mailbox.Grant, leaseUID string, token fencing.Token) *v1alpha1.LeasedTaskStatus {
	status := s.status()
	probeFor := nextProbeFor(status)
	if probeFor == 0 {
		status.Phase = v1alpha1.PhaseClaimed
	}
	status.Attempt = grant.Attempt
	status.FencingToken = int64(token)
	status.Holder = v1alpha1.Holder{PodName: grant.Holder, ProbeFor: probeFor}
	status.LeaseName = mailbox.Name(string(s.Task.UID))
	status.LeaseUID = leaseUID
	status.NextAttemptTime = nil
	status.Progress = v1alpha1.Progress{}
	s.fix(status)
	s.setConditions(status, waiting{v1alpha1.WaitingPodStarting, termOf(status) + ": Pod " + grant.Holder + " is starting"})
	return status
}

// hasClaim reports whether a worker claimed the attempt, as far as Lease or status can tell.
func (s *Snapshot) hasClaim() bool {
	if s.isRecorded() {
		return s.Term.Claim != nil
	}
	return s.Task.Status.Holder.ClaimTime != nil
}

// recordClaim puts the claim of the recorded term into the status. The time of a claim is its first renewTime; where that
// was renewed before anybody looked, the kubelet's start of the worker container is closer.
func (s *Snapshot) recordClaim(status *v1alpha1.LeasedTaskStatus) {
	if status.Holder.ClaimTime != nil || s.Term == nil || s.Term.Claim == nil {
		return
	}
	claimed := s.Term.RenewTime
	if claimed.IsZero() { // somebody removed it; the record needs a time
		claimed = s.Now
	}
	if started := workerStarted(s.Task, s.holderPod()); !started.IsZero() && started.Before(claimed.Add(-time.Second)) {
		claimed = started
	}
	status.Holder.NodeName, status.Holder.PodUID = fencing.Truncate(s.Term.Claim.Node, 253), fencing.Truncate(s.Term.Claim.PodUID, 64)
	status.Holder.ClaimTime = new(metav1.NewTime(claimed.Truncate(time.Second)))
	if status.StartTime == nil {
		status.StartTime = status.Holder.ClaimTime
	}
}

// setConditions computes all conditions from the status and what it waits for. It reads no condition that was written before,
// except to keep lastTransitionTime where nothing changed.
func (s *Snapshot) setConditions(status *v1alpha1.LeasedTaskStatus, w waiting) {
	set := func(kind string, value metav1.ConditionStatus, reason, message string) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: fencing.Truncate(message, 1024),
			ObservedGeneration: *status.ObservedGeneration, LastTransitionTime: metav1.NewTime(s.Now),
		})
	}
	reason, message := s.summary(status, w)
	finished, succeeded := status.Phase.IsFinished(), metav1.ConditionUnknown
	if finished {
		succeeded = asStatus(status.Phase == v1alpha1.PhaseCompleted)
	}
	// The message is told where somebody looks for it, and not by those that say no more than that it is not so: `kubectl describe`
	// prints them all.
	news, end := message, ""
	if finished {
		news, end = "", message
	}
	set(v1alpha1.ConditionFinished, asStatus(finished), reason, end)
	set(v1alpha1.ConditionSucceeded, succeeded, reason, end)
	if w.reason != "" {
		set(v1alpha1.ConditionWaiting, metav1.ConditionTrue, w.reason, w.message)
	} else {
		set(v1alpha1.ConditionWaiting, metav1.ConditionFalse, v1alpha1.ReasonNotWaiting, "")
	}
	if isHeld(status) {
		set(v1alpha1.ConditionLeaseHeld, metav1.ConditionTrue, v1alpha1.ReasonHeld, "Pod "+status.Holder.PodName+" holds the term")
	} else {
		set(v1alpha1.ConditionLeaseHeld, metav1.ConditionFalse, v1alpha1.ReasonNotHeld, "")
	}
	asked, askedReason, askedMessage := s.cancelRequest(status)
	set(v1alpha1.ConditionCancelRequested, asked, askedReason, askedMessage)
	set(v1alpha1.ConditionReady, asStatus(finished && status.Phase != v1alpha1.PhaseDeadLettered), reason, message)
	// Nothing goes on about a task that waits for somebody to repair it.
	isStalled := status.Phase == v1alpha1.PhaseDeadLettered || w.reason == v1alpha1.WaitingSpecInvalid
	set(v1alpha1.ConditionReconciling, asStatus(!finished && !isStalled), reason, news)
	if isStalled {
		set(v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
	} else {
		set(v1alpha1.ConditionStalled, metav1.ConditionFalse, v1alpha1.ReasonNotStalled, "")
	}
}

// summary is the reason and message that most conditions share.
func (s *Snapshot) summary(status *v1alpha1.LeasedTaskStatus, w waiting) (reason, message string) {
	switch status.Phase {
	case v1alpha1.PhaseCompleted:
		if endedByKey(status) == ReasonAttached { // first: its last term may have been a probe's
			return v1alpha1.ReasonAttached, lastOf(status.History).Message
		}
		if status.Holder.ProbeFor > 0 {
			return v1alpha1.ReasonCompleted, fmt.Sprintf("%s found its effect", termOf(status))
		}
		return v1alpha1.ReasonCompleted, fmt.Sprintf("attempt %d succeeded", status.Attempt)
	case v1alpha1.PhaseDeadLettered:
		if was := s.causeOnRecord(); was != nil {
			return was.Reason, was.Message
		}
		return s.deadLetterCause(status)
	case v1alpha1.PhaseCancelled:
		reason, message = v1alpha1.ReasonCancelled, s.Task.Spec.Cancel.Reason
		if !s.Task.Spec.IsCancelled() && isSuperseded(status) {
			reason, message = v1alpha1.ReasonSuperseded, lastOf(status.History).Message
		}
		if isInDoubt(status) {
			message += fmt.Sprintf(" (attempt %d may have had its effect)", status.Uncertain.Attempt)
		}
		return reason, message
	case v1alpha1.PhaseRunning, v1alpha1.PhaseProbing:
		if !isHeld(status) {
			break
		}
		if stop := s.wantedStop(); stop != nil || s.Term != nil && s.Term.Stop != nil {
			return v1alpha1.ReasonStopping, fmt.Sprintf("%s on node %s is told to stop", termOf(status), status.Holder.NodeName)
		}
		if status.Phase == v1alpha1.PhaseProbing {
			return v1alpha1.ReasonProbing, fmt.Sprintf("%s runs on node %s", termOf(status), status.Holder.NodeName)
		}
		return v1alpha1.ReasonRunning, fmt.Sprintf("attempt %d runs on node %s", status.Attempt, status.Holder.NodeName)
	case v1alpha1.PhaseAvailable, v1alpha1.PhaseClaimed, v1alpha1.PhaseExpired:
	}
	if w.reason != "" {
		return w.reason, w.message
	}
	return v1alpha1.ReasonPending, "waiting for the next attempt"
}

// cancelRequest says what has become of spec.cancel.
func (s *Snapshot) cancelRequest(status *v1alpha1.LeasedTaskStatus) (asked metav1.ConditionStatus, reason, message string) {
	why := s.Task.Spec.Cancel.Reason
	switch {
	case !s.Task.Spec.IsCancelled():
		return metav1.ConditionFalse, v1alpha1.ReasonNotRequested, ""
	case status.Phase == v1alpha1.PhaseCancelled:
		return metav1.ConditionTrue, v1alpha1.ReasonCancelled, why
	case status.Phase.IsFinished():
		return metav1.ConditionTrue, v1alpha1.ReasonTooLate, fmt.Sprintf("too late, the task is %s: %s", status.Phase, why)
	}
	return metav1.ConditionTrue, v1alpha1.ReasonRequested, why
}

// causeOnRecord is what a task ended with whose revision is gone since: what it was judged by is not known any more.
func (s *Snapshot) causeOnRecord() *metav1.Condition {
	if !s.Source.IsLost || !s.Task.Status.Phase.IsFinished() {
		return nil
	}
	return meta.FindStatusCondition(s.Task.Status.Conditions, v1alpha1.ConditionFinished)
}

// deadLetterCause says why a task was given up: the last attempt's end, and the budget or the reason that forbids another. It
// reads the record, and no clock: that time was up is what is left where nothing else forbids one.
func (s *Snapshot) deadLetterCause(status *v1alpha1.LeasedTaskStatus) (reason, message string) {
	spec := &s.Task.Spec
	if isInDoubt(status) {
		return doubtCause(spec, status)
	}
	last := decisive(status)
	detail := fmt.Sprintf("attempt %d: %s: %s", last.Attempt, last.Reason, last.Message)
	if probe := lastOf(status.History); probe.ProbeFor > 0 {
		detail += fmt.Sprintf("; probe %d found that it had no effect", probe.Attempt)
	}
	used := budgetUsed(&spec.Retry, status)
	switch {
	case last.Action == v1alpha1.RetryActionDeadLetter:
		return v1alpha1.ReasonRetryRule, "a rule of spec.retry.rules ends the task; " + detail
	case endedByKey(status) == ReasonIdempotencyConflict:
		return v1alpha1.ReasonIdempotencyConflict, last.Message
	case endedByKey(status) == ReasonKeyRejected:
		return v1alpha1.ReasonKeyRejected, last.Message
	case isPermanent(&last):
		return v1alpha1.ReasonNotRetryable, "the worker says that another attempt cannot succeed; " + detail
	case isFatal(&last) && last.Reason == ReasonStartTimeout:
		return v1alpha1.ReasonStartTimeout, detail
	case isFatal(&last):
		return v1alpha1.ReasonCannotStart, detail
	case used == "" && status.Deadline != nil && last.Attempt == 0:
		return v1alpha1.ReasonDeadlineExceeded, timeUpMessage(spec) + "; no attempt was made"
	case used == "" && s.Source.IsLost && (status.Deadline == nil || !isAvailable(s)): // its attempt's end was the end, and nothing tells for which of the two
		return v1alpha1.ReasonBudgetExceeded, "what its queue allowed, or its total time, is used up; " + detail
	case used == "" && status.Deadline != nil:
		return v1alpha1.ReasonDeadlineExceeded, timeUpMessage(spec) + "; " + detail
	}
	return v1alpha1.ReasonBudgetExceeded, used + "; " + detail
}

// isHeld reports whether a worker holds the term, as far as the status knows.
func isHeld(status *v1alpha1.LeasedTaskStatus) bool {
	return status.Phase == v1alpha1.PhaseRunning || isProbing(status) && status.Holder.ClaimTime != nil
}

// lastOf is the latest entry of a history; empty if there is none.
func lastOf(history []v1alpha1.AttemptRecord) (last v1alpha1.AttemptRecord) {
	if n := len(history); n > 0 {
		last = history[n-1]
	}
	return last
}

func asStatus(b bool) metav1.ConditionStatus {
	if b {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}
