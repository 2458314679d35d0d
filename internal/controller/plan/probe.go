package plan

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/bug"
)

// exitNoEffect is the exit code by which a probe says that there was no effect, and will be none.
const exitNoEffect = 1

// Answer is what a probe says. It is closed.
type Answer string

const (
	// AnswerEffect: the attempt had its effect. It completes the task.
	AnswerEffect Answer = "Effect"
	// AnswerNoEffect: it had none. Dangerous: it allows another attempt.
	AnswerNoEffect Answer = "NoEffect"
	// AnswerNone: nobody knows. Another probe is to say.
	AnswerNone Answer = "None"
)

// answerOf reads the end of a probe. Only a submission answers, by the exit code of a probe that ended by itself: one that was told
// to stop, ran out of memory, or gave a reason of its own says nothing, whatever its code.
func answerOf(e *end) Answer {
	switch {
	case e.evidence != v1alpha1.EvidenceSubmission:
		return AnswerNone
	case e.outcome == v1alpha1.AttemptSucceeded:
		return AnswerEffect
	case e.outcome == v1alpha1.AttemptFailed && e.reason == fencing.ReasonNonZeroExit && e.exitCode != nil && *e.exitCode == exitNoEffect:
		return AnswerNoEffect
	}
	return AnswerNone
}

// mayHaveRun reports whether a worker may have claimed the attempt that ends. It cannot have only where the Lease on record says so:
// of one that is gone, nobody knows what it said last.
func (s *Snapshot) mayHaveRun() bool { return !s.isRecorded() || s.Term.Claim != nil }

// isUncertain reports whether the attempt that ends so may have had its effect, and somebody wants to know.
func (s *Snapshot) isUncertain(e *end) bool {
	return s.Task.Spec.OnLost() != v1alpha1.LostAttemptRetry && s.mayHaveRun() &&
		e.outcome != v1alpha1.AttemptSucceeded && e.effect != fencing.EffectNone && !bug.Is(bug.RetryUncertain)
}

// doubt puts on record that nobody knows whether the attempt that has just ended had its effect.
func doubt(status *v1alpha1.LeasedTaskStatus) {
	status.Uncertain = v1alpha1.UncertainAttempt{Attempt: status.Attempt, FencingToken: status.FencingToken}
}

// heard turns the end of a probe into its entry in the history.
func (e *end) heard(about int32) {
	switch answerOf(e) {
	case AnswerEffect:
		e.reason, e.message = ReasonEffectFound, fmt.Sprintf("attempt %d had its effect", about)
	case AnswerNoEffect:
		e.outcome, e.reason, e.message = v1alpha1.AttemptSucceeded, ReasonNoEffect, fmt.Sprintf("attempt %d had no effect", about)
	case AnswerNone:
	}
}

// settleDoubt draws the consequence of the probe's entry: whoever answered has ended the doubt, whoever did not is counted.
func settleDoubt(status *v1alpha1.LeasedTaskStatus, probe *v1alpha1.AttemptRecord) {
	switch probe.Outcome {
	case v1alpha1.AttemptSucceeded:
		status.Uncertain = v1alpha1.UncertainAttempt{}
	case v1alpha1.AttemptFailed, v1alpha1.AttemptDisrupted:
		status.Uncertain.Probes++
	case v1alpha1.AttemptStopped:
	}
}

// isInDoubt reports whether nobody knows whether the last attempt had its effect.
func isInDoubt(status *v1alpha1.LeasedTaskStatus) bool { return status.Uncertain.Attempt > 0 }

// isHopeless reports whether a doubt will not be settled: nobody is to find out, or nobody could. With Retry nobody need, and of a policy
// that is lost nobody can say: neither ends the task.
func isHopeless(spec *v1alpha1.LeasedTaskSpec, status *v1alpha1.LeasedTaskStatus) bool {
	switch spec.OnLost() {
	case v1alpha1.LostAttemptDeadLetter:
		return true
	case v1alpha1.LostAttemptReconcile:
		return status.Uncertain.Probes >= spec.Reconcile.Probes()
	case v1alpha1.LostAttemptRetry, onLostUnknown:
	}
	return false
}

// awaitProbe is the status of a task whose next term is a probe's. The first one for an attempt leaves what was asked the time to
// show.
func (s *Snapshot) awaitProbe(status *v1alpha1.LeasedTaskStatus) Plan {
	status.Phase = v1alpha1.PhaseProbing
	if settle := s.Task.Spec.Reconcile.Settle(); settle > 0 && isFirstProbeDue(status) {
		status.NextAttemptTime = s.in(settle)
	}
	return s.write(status, s.pauseOf(status))
}

// isFirstProbeDue reports whether nothing ended since the attempt that is to be probed for.
func isFirstProbeDue(status *v1alpha1.LeasedTaskStatus) bool {
	return status.Phase == v1alpha1.PhaseProbing && lastOf(status.History).ProbeFor == 0
}

func (s *Snapshot) in(d time.Duration) *metav1.MicroTime {
	return new(metav1.NewMicroTime(s.Now.Add(d).Truncate(time.Microsecond)))
}

// settling is the wait before the first probe. After somebody has set the clock back nobody knows how much of it has passed: then it
// begins anew.
func settling(s *Snapshot) (Plan, bool) {
	next := s.Task.Status.NextAttemptTime
	if !isFirstProbeDue(&s.Task.Status) || next == nil || !s.Now.Before(next.Time) {
		return Plan{}, false
	}
	status := s.status()
	if settle := s.Task.Spec.Reconcile.Settle(); next.Sub(s.Now) > settle {
		status.NextAttemptTime = s.in(settle)
	}
	p := s.write(status, s.pauseOf(status))
	p.Requeue = status.NextAttemptTime.Sub(s.Now)
	return p, true
}

// probeNext has a probe find out what became of an attempt whose process has just been found to be over.
func probeNext(s *Snapshot) (Plan, bool) { return s.settle(s.status()), isInDoubt(&s.Task.Status) }

// isProbing reports whether a probe's term is open, as far as the status knows: it has no entry in the history yet.
func isProbing(status *v1alpha1.LeasedTaskStatus) bool {
	return status.Phase == v1alpha1.PhaseProbing && lastOf(status.History).Attempt != status.Attempt
}

// isProbeDue reports whether the next term is a probe's, and none is open.
func isProbeDue(s *Snapshot) bool {
	return s.Task.Status.Phase == v1alpha1.PhaseProbing && !isProbing(&s.Task.Status)
}

// isProbePod reports whether a Pod was made for a probe.
func isProbePod(pod *corev1.Pod) bool { return pod.Annotations[v1alpha1.ProbeForAnnotation] != "" }

// workerIn is the container of one of the task's Pods that does the work; nil if there is none.
func workerIn(task *v1alpha1.LeasedTask, pod *corev1.Pod) *corev1.Container {
	return task.Spec.HolderWorker(isProbePod(pod))
}

// termOf names a term for people.
func termOf(status *v1alpha1.LeasedTaskStatus) string {
	return termName(status.Attempt, status.Holder.ProbeFor)
}

func termName(number, probeFor int32) string {
	if probeFor > 0 {
		return fmt.Sprintf("probe %d for attempt %d", number, probeFor)
	}
	return fmt.Sprintf("attempt %d", number)
}

// sentence begins a sentence with it.
func sentence(what string) string { return strings.ToUpper(what[:1]) + what[1:] }

// nextTerm names the term that will be granted next.
func nextTerm(status *v1alpha1.LeasedTaskStatus) string {
	return termName(status.Attempt+1, nextProbeFor(status))
}

// nextProbeFor is the attempt that the next term is to probe for; 0: it is an attempt.
func nextProbeFor(status *v1alpha1.LeasedTaskStatus) int32 {
	if status.Phase == v1alpha1.PhaseProbing {
		return status.Uncertain.Attempt
	}
	return 0
}

// lastAttemptOf is the latest entry that is no probe's; empty if there is none.
func lastAttemptOf(history []v1alpha1.AttemptRecord) (last v1alpha1.AttemptRecord) {
	for i := range history {
		if history[i].ProbeFor == 0 {
			last = history[i]
		}
	}
	return last
}

// decisive is the entry that a dead letter is about: what ended in doubt, else the last attempt, whatever a probe said of it.
func decisive(status *v1alpha1.LeasedTaskStatus) v1alpha1.AttemptRecord {
	if isInDoubt(status) {
		return lastOf(status.History)
	}
	return lastAttemptOf(status.History)
}

// doubtCause says why a task that is in doubt was given up. What its policy was, the record tells, also where that is lost.
func doubtCause(spec *v1alpha1.LeasedTaskSpec, status *v1alpha1.LeasedTaskStatus) (reason, message string) {
	last := lastOf(status.History)
	detail := fmt.Sprintf("%s: %s: %s", termName(last.Attempt, last.ProbeFor), last.Reason, last.Message)
	switch {
	case status.Deadline != nil && !isHopeless(spec, status):
		return v1alpha1.ReasonDeadlineExceeded, fmt.Sprintf("%s; attempt %d may have had its effect, and no probe has told; %s",
			timeUpMessage(spec), status.Uncertain.Attempt, detail)
	case status.Uncertain.Probes > 0:
		return v1alpha1.ReasonOutcomeUnknown, fmt.Sprintf("%d probes could not tell whether attempt %d had its effect; %s",
			status.Uncertain.Probes, status.Uncertain.Attempt, detail)
	}
	return v1alpha1.ReasonLostAttempt, fmt.Sprintf("attempt %d may have had its effect, and spec.onLostAttempt is DeadLetter; %s",
		status.Uncertain.Attempt, detail)
}

// trimmed is a history of at most the length that is kept. The attempt that is uncertain stays: what its end means is decided later.
func trimmed(history []v1alpha1.AttemptRecord, uncertain int32) []v1alpha1.AttemptRecord {
	for len(history) > v1alpha1.MaxHistory {
		oldest := 0
		if history[0].Attempt == uncertain {
			oldest = 1
		}
		history = append(history[:oldest:oldest], history[oldest+1:]...)
	}
	return history
}

// NextTemplate is the template of the term that is granted next.
func (s *Snapshot) NextTemplate() *corev1.PodTemplateSpec {
	if nextProbeFor(&s.Task.Status) > 0 {
		return s.Task.Spec.Reconcile.Template
	}
	return s.Task.Spec.Template
}
