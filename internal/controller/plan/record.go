package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// record appends the ended attempt or probe to the history, and draws the consequences that are on record: an attempt is charged to
// its budget, as the task's rules want it, and may leave a doubt; a probe may settle that.
func (s *Snapshot) record(status *v1alpha1.LeasedTaskStatus, e end) {
	probeFor := s.Task.Status.Holder.ProbeFor
	var action v1alpha1.RetryAction
	if probeFor > 0 {
		e.heard(probeFor)
	} else {
		action = actionFor(s.Task.Spec.Retry.Rules, &e, s.holderPod())
	}
	switch action {
	case v1alpha1.RetryActionRetry, v1alpha1.RetryActionDeadLetter:
		e.outcome = v1alpha1.AttemptFailed
	case v1alpha1.RetryActionIgnore:
		e.outcome = v1alpha1.AttemptDisrupted
	}
	entry := v1alpha1.AttemptRecord{
		Attempt:      status.Attempt,
		FencingToken: status.FencingToken,
		PodName:      s.Task.Status.Holder.PodName,
		EndTime:      new(metav1.NewTime(s.Now)),
		Outcome:      e.outcome,
		Reason:       recordedReason(&e),
		Message:      fencing.Truncate(e.message, maxMessage),
		ExitCode:     e.exitCode,
		Evidence:     e.evidence,
		Action:       action,
		ProbeFor:     probeFor,
		FailureClass: e.said.class,

		RetryAfterSeconds: e.said.retryAfter,
	}
	s.recordNotes(status)
	if e.effect == fencing.EffectNone { // it may say anything; this alone means something
		entry.Effect = v1alpha1.EffectNone
	}
	if s.hasClaim() {
		s.recordClaim(status)
		entry.NodeName, entry.StartTime = status.Holder.NodeName, status.Holder.ClaimTime
	}
	status.History = trimmed(append(status.History, entry), status.Uncertain.Attempt)
	if probeFor > 0 {
		settleDoubt(status, &entry)
		return
	}
	if s.isUncertain(&e) {
		doubt(status)
	}
	switch e.outcome {
	case v1alpha1.AttemptFailed:
		status.Failures++
	case v1alpha1.AttemptDisrupted:
		status.Disruptions++
	case v1alpha1.AttemptSucceeded, v1alpha1.AttemptStopped:
	}
}
