package plan

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// Reasons in status.history that the controller gives; the agent's own are in package fencing.
const (
	// ReasonLeaseExpired: no renewal for one lease duration, and nothing explains it.
	ReasonLeaseExpired = "LeaseExpired"
	// ReasonLeaseDeleted: somebody deleted or replaced the term's Lease.
	ReasonLeaseDeleted = "LeaseDeleted"
	// ReasonWorkerVanished: the worker container ended and its agent submitted nothing.
	ReasonWorkerVanished = "WorkerVanished"
	// ReasonSubmissionLost: the agent had an outcome, and could not deliver it.
	ReasonSubmissionLost = "SubmissionLost"
	// ReasonPodDeleted: somebody deleted the Pod.
	ReasonPodDeleted = "PodDeleted"
	// ReasonNodeLost: the Pod's node is gone or not ready.
	ReasonNodeLost = "NodeLost"
	// ReasonPodFailed: the kubelet gave the Pod up, or never took it; the message has its reason.
	ReasonPodFailed = "PodFailed"
	// ReasonStartFailed: a container ended before the worker claimed.
	ReasonStartFailed = "StartFailed"
	// ReasonClaimRefused: the agent started and could not claim: a foreign claim, or no right to its Lease.
	ReasonClaimRefused = "ClaimRefused"
	// ReasonPodNameTaken: another object has the attempt's Pod name.
	ReasonPodNameTaken = "PodNameTaken"
	// ReasonEffectFound: the probe's answer: the attempt had its effect. Completes the task.
	ReasonEffectFound = "EffectFound"
	// ReasonNoEffect: the probe's answer: the attempt had no effect, and will have none.
	ReasonNoEffect = "NoEffect"
	// ReasonRevoked: the term was revoked before any claim.
	ReasonRevoked = "Revoked"
	// ReasonVerificationFailed: the worker succeeded, and its result does not hold what spec.verify asks; the message says which.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonUnspecified: whoever told of the end gave no reason.
	ReasonUnspecified = "Unspecified"

	// ReasonAttached: no attempt was made: another task with the same idempotency key and payload had completed.
	ReasonAttached = "Attached"
	// ReasonIdempotencyConflict: no attempt was made: the idempotency key stands for another payload. Ends the task.
	ReasonIdempotencyConflict = "IdempotencyConflict"
	// ReasonKeyRejected: no attempt was made: the concurrency key was not free, and keyPolicy is Reject. Ends the task.
	ReasonKeyRejected = "KeyRejected"

	// ReasonStartTimeout: no claim within timeouts.startSeconds. Ends the task.
	ReasonStartTimeout = "StartTimeout"
	// ReasonPodInvalid: the template makes no valid Pod. Ends the task.
	ReasonPodInvalid = "PodInvalid"
	// ReasonInvalidImageName: an image's name cannot be parsed. Ends the task.
	ReasonInvalidImageName = "InvalidImageName"
)

// maxMessage bounds a message in the history.
const maxMessage = 512

// end says how an attempt ended.
type end struct {
	outcome  v1alpha1.AttemptOutcome
	reason   string
	message  string
	exitCode *int32
	evidence v1alpha1.Evidence
	// effect is what the worker submitted of its effect outside; empty: nothing.
	effect fencing.Effect
	// cause is what a start that took too long was waiting for, a reason of the Waiting condition; empty for any other end.
	cause string
	// said is what the worker says of its failure; empty for any other end.
	said workerWord
}

// recordedReason is the reason as the history has it.
func recordedReason(e *end) string { return fencing.Truncate(cmp.Or(e.reason, ReasonUnspecified), 64) }

func failure(evidence v1alpha1.Evidence, reason, format string, args ...any) end {
	return end{outcome: v1alpha1.AttemptFailed, reason: reason, message: fmt.Sprintf(format, args...), evidence: evidence}
}

func disruption(evidence v1alpha1.Evidence, reason, format string, args ...any) end {
	return end{outcome: v1alpha1.AttemptDisrupted, reason: reason, message: fmt.Sprintf(format, args...), evidence: evidence}
}

func (e end) withExitCode(code int32) end {
	e.exitCode = &code
	return e
}

// submittedEnd reads a verified submission. A worker told to stop says only that; the Pod knows why.
func (s *Snapshot) submittedEnd(sub fencing.Submission) end {
	e := end{reason: sub.Reason, message: sub.Message, exitCode: sub.ExitCode, evidence: v1alpha1.EvidenceSubmission, effect: sub.Effect}
	if e.message == "" && e.exitCode != nil {
		e.message = fmt.Sprintf("exit code %d", *e.exitCode)
	}
	switch sub.Outcome {
	case fencing.Succeeded:
		e.outcome = v1alpha1.AttemptSucceeded
	case fencing.Failed:
		e.outcome, e.said = v1alpha1.AttemptFailed, saidBy(&sub)
	case fencing.Fenced:
		e.outcome = v1alpha1.AttemptDisrupted
	case fencing.Interrupted, fencing.Cancelled:
		e.outcome = v1alpha1.AttemptDisrupted
		if s.Term.Stop != nil {
			return s.stopped(e)
		}
		if cause, disrupted := podDisruption(s.holderPod()); disrupted {
			e.reason = cause.reason
			e.message = cause.message + "; the worker was told to stop and submitted that it did not finish"
		}
	}
	return e
}

// lossEnd explains a claimed term that ended without a submission, from the evidence there is, best first.
func (s *Snapshot) lossEnd() end {
	pod := s.holderPod()
	died := workerTerminated(s.Task, pod)
	if died != nil {
		if report, ok := fencing.ParseReport(died.Message); ok && int64(report.Token) == s.Task.Status.FencingToken {
			return s.reportedEnd(report, died.ExitCode)
		}
	}
	e := s.unreportedEnd(pod, died)
	if e.reason == fencing.ReasonOOMKilled {
		return e
	}
	return s.stopped(e)
}

// unreportedEnd is the same for one of which the Pod and its node are all the evidence.
func (s *Snapshot) unreportedEnd(pod *corev1.Pod, died *corev1.ContainerStateTerminated) end {
	if cause, disrupted := podDisruption(pod); disrupted {
		if died != nil {
			return cause.withExitCode(died.ExitCode)
		}
		return cause
	}
	switch {
	case died != nil && died.Reason == "OOMKilled":
		return failure(v1alpha1.EvidencePod, fencing.ReasonOOMKilled,
			"the kernel killed the worker container for memory: raise its memory limit").withExitCode(died.ExitCode)
	case died != nil:
		return failure(v1alpha1.EvidencePod, ReasonWorkerVanished,
			"the worker container ended with exit code %d and its agent reported nothing: killed from outside, or out of memory; see its log", died.ExitCode).withExitCode(died.ExitCode)
	case s.NodeLost != "":
		return disruption(v1alpha1.EvidenceObservation, ReasonNodeLost, "no renewal for the lease duration; %s", s.NodeLost)
	case pod == nil:
		return disruption(v1alpha1.EvidenceObservation, ReasonPodDeleted, "no renewal for the lease duration; the Pod is gone")
	}
	return failure(v1alpha1.EvidenceObservation, ReasonLeaseExpired,
		"no renewal for the lease duration; the Pod has not ended: its worker hangs, gets no CPU, or is cut off from the API server")
}

// reportedEnd reads what an agent left in its termination message when its submission did not arrive. It is evidence of
// whose fault the end was, never of success.
func (s *Snapshot) reportedEnd(report fencing.Report, exitCode int32) end {
	if report.Outcome == fencing.Fenced && report.Delivery == fencing.DeliveryNone {
		// The report of a second process: the first one had claimed, and its kubelet has lost its records.
		return disruption(v1alpha1.EvidencePod, ReasonClaimRefused,
			"the worker container was started again, and its agent could not claim the term a second time").withExitCode(exitCode)
	}
	var e end
	switch report.Outcome {
	case fencing.Fenced:
		e = disruption(v1alpha1.EvidencePod, fencing.ReasonRenewalFailed, "the worker could not renew its lease in time and fenced itself: the API server, or the way to it, was down or slow")
	case fencing.Interrupted, fencing.Cancelled:
		e = s.stopped(disruption(v1alpha1.EvidencePod, fencing.ReasonTerminated, "the worker was told to stop and did not finish"))
	case fencing.Succeeded:
		e = disruption(v1alpha1.EvidencePod, ReasonSubmissionLost, "the worker succeeded and could not deliver its submission before its Pod ended; it is run again")
	case fencing.Failed:
		e = failure(v1alpha1.EvidencePod, report.Reason, "the worker failed and could not deliver its submission: %s", report.Message)
	default:
		e = failure(v1alpha1.EvidencePod, fencing.ReasonMalformedSubmission, "the worker's report cannot be read: something else wrote its termination message")
	}
	return e.withExitCode(exitCode)
}

// podDisruption says whether somebody or something ended the Pod from outside.
func podDisruption(pod *corev1.Pod) (end, bool) {
	if pod == nil {
		return end{}, false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return disruption(v1alpha1.EvidencePod, c.Reason, "%s", c.Message), true
		}
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return disruption(v1alpha1.EvidencePod, ReasonPodDeleted, "somebody deleted the Pod; to end a task, set spec.cancel"), true
	case pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "Evicted":
		return disruption(v1alpha1.EvidencePod, "Evicted", "the kubelet evicted the Pod: %s", pod.Status.Message), true
	case pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" && len(pod.Status.ContainerStatuses) == 0:
		return disruption(v1alpha1.EvidencePod, ReasonPodFailed, "the kubelet did not take the Pod: %s: %s", pod.Status.Reason, pod.Status.Message), true
	}
	return end{}, false
}
