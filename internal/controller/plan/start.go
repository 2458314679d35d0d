package plan

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

const (
	// RefusedRetry is the pause before a refused Pod is tried again.
	RefusedRetry = 10 * time.Second
	// agentPatience is how long a started worker container may take to claim before that is called unreachable.
	agentPatience = 15 * time.Second
)

// startTrouble ends a granted term whose worker has not claimed and will not, or has run out of time to.
func startTrouble(s *Snapshot) (Plan, bool) {
	e, ended := s.unclaimedEnd()
	if !ended {
		return Plan{}, false
	}
	p := s.endAttempt(e, released)
	p.Revoke = &Revoke{}
	return p, true
}

// revokedUnclaimed is the same after a crash between revoke and record: the evidence is still there.
func revokedUnclaimed(s *Snapshot) (Plan, bool) {
	if s.Term.Claim != nil {
		return Plan{}, false
	}
	e, ended := s.unclaimedEnd()
	if stop := s.wantedStop(); stop != nil {
		e = unclaimedStop(stop)
	} else if !ended {
		e = disruption(v1alpha1.EvidenceObservation, ReasonRevoked, "the term was revoked before its worker claimed it, by an operator that had lost its record, say; nothing ran")
	}
	return s.endAttempt(e, released), true
}

// unclaimedEnd says whether, and how, an attempt that nobody has claimed is over.
func (s *Snapshot) unclaimedEnd() (end, bool) {
	pod := s.holderPod()
	if s.PodRefusal != nil && s.PodRefusal.Kind == RefusedInvalid {
		return failure(v1alpha1.EvidencePod, ReasonPodInvalid, "the template makes no valid Pod: %s", s.PodRefusal.Message), true
	}
	if s.PodRefusal != nil && s.PodRefusal.Kind == RefusedTaken || pod != nil && !s.isOwn(pod) {
		return disruption(v1alpha1.EvidencePod, ReasonPodNameTaken, "another Pod is named %s; the next attempt's has another name", s.Task.Status.Holder.PodName), true
	}
	if pod != nil {
		if e, ended := s.podEndedUnclaimed(pod); ended {
			return e, true
		}
	}
	// Without a Pod, the deadline waits for the answer to one more try: it is the cause.
	isTried := pod != nil || s.PodRefusal != nil || !s.Term.IsOpen()
	if isTried && !s.Now.Before(s.startDeadline()) {
		cause := s.startingCause(pod)
		e := failure(v1alpha1.EvidencePod, ReasonStartTimeout, "no worker claimed within %s: %s: %s",
			s.Task.Spec.StartTimeout(), cause.reason, cause.message)
		e.cause = cause.reason
		return e, true
	}
	return end{}, false
}

func (s *Snapshot) podEndedUnclaimed(pod *corev1.Pod) (end, bool) {
	if cause, disrupted := podDisruption(pod); disrupted {
		return cause, true
	}
	for _, c := range containerStatuses(pod) {
		if c.State.Waiting != nil && c.State.Waiting.Reason == "InvalidImageName" {
			return failure(v1alpha1.EvidencePod, ReasonInvalidImageName, "container %s: image %q: %s", c.Name, c.Image, c.State.Waiting.Message), true
		}
	}
	died := workerTerminated(s.Task, pod)
	if died == nil && !isPodFinished(pod) {
		return end{}, false
	}
	if died != nil {
		if report, ok := fencing.ParseReport(died.Message); ok && report.Delivery == fencing.DeliveryNone {
			return disruption(v1alpha1.EvidencePod, ReasonClaimRefused, "the agent could not claim the term: %s", report.Message).withExitCode(died.ExitCode), true
		}
	}
	for _, c := range containerStatuses(pod) { // init containers first: the first that failed is the cause
		if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
			return failure(v1alpha1.EvidencePod, ReasonStartFailed, "container %s ended with exit code %d before the worker claimed: %s %s",
				c.Name, t.ExitCode, t.Reason, t.Message).withExitCode(t.ExitCode), true
		}
	}
	return failure(v1alpha1.EvidencePod, ReasonStartFailed, "the Pod ended before its worker claimed: %s %s", pod.Status.Reason, pod.Status.Message), true
}

// isOwn reports whether a Pod of the holder's name is this attempt's.
func (s *Snapshot) isOwn(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.UID == s.Task.UID && pod.Annotations[v1alpha1.TokenAnnotation] == fmt.Sprint(s.Task.Status.FencingToken)
}

// startDeadline is when an unclaimed attempt is given up. The grant may have been timed by another replica's clock, so it counts
// from when this process saw it, if that is later, or if by this clock the grant has yet to come.
func (s *Snapshot) startDeadline() time.Time {
	granted := s.Term.GrantTime
	if s.Since.After(granted) || granted.After(s.Now) {
		granted = s.Since
	}
	return granted.Add(s.Task.Spec.StartTimeout())
}

func podMissing(s *Snapshot) (Plan, bool) {
	if s.holderPod() != nil {
		return Plan{}, false
	}
	if s.PodRefusal == nil {
		return Plan{CreatePod: true}, true
	}
	p := s.write(s.status(), s.startingCause(nil))
	p.Requeue = min(RefusedRetry, s.startDeadline().Sub(s.Now))
	return p, true
}

func starting(s *Snapshot) (Plan, bool) {
	pod := s.holderPod()
	p := s.write(s.status(), s.startingCause(pod))
	p.Requeue = s.startDeadline().Sub(s.Now)
	if s.awaitsVolumes() {
		p.requeueWithin(s.nextMountLook())
	}
	if since := workerRunningSince(s.Task, pod); !since.IsZero() && s.Now.Sub(since) < agentPatience {
		p.Requeue = min(p.Requeue, agentPatience-s.Now.Sub(since))
	}
	return p, true
}

// startingCause says what an unclaimed attempt waits for, in the words of whoever stands in the way.
func (s *Snapshot) startingCause(pod *corev1.Pod) waiting {
	if pod == nil {
		switch {
		case s.PodRefusal == nil:
		case s.PodRefusal.Kind == RefusedQuota:
			return waiting{v1alpha1.WaitingQuotaExceeded, s.PodRefusal.Message}
		default:
			return waiting{v1alpha1.WaitingPodRefused, s.PodRefusal.Message}
		}
		return waiting{v1alpha1.WaitingPodStarting, fmt.Sprintf("%s: Pod %s does not exist", termOf(&s.Task.Status), s.Task.Status.Holder.PodName)}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
			continue
		}
		switch c.Reason {
		case corev1.PodReasonUnschedulable:
			return waiting{v1alpha1.WaitingUnschedulable, c.Message}
		case corev1.PodReasonSchedulingGated:
			return waiting{v1alpha1.WaitingSchedulingGated, c.Message}
		}
	}
	for _, c := range containerStatuses(pod) {
		if c.State.Waiting == nil {
			continue
		}
		switch c.State.Waiting.Reason {
		case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable":
			return waiting{v1alpha1.WaitingImagePull, fmt.Sprintf("container %s: image %q: %s", c.Name, c.Image, pullCause(c.State.Waiting.Message))}
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return waiting{v1alpha1.WaitingContainerConfig, fmt.Sprintf("container %s: %s", c.Name, c.State.Waiting.Message)}
		}
	}
	if since := workerRunningSince(s.Task, pod); !since.IsZero() && s.Now.Sub(since) >= agentPatience {
		return waiting{v1alpha1.WaitingAgentUnreachable, "the worker container runs, but its agent has not claimed the term: it may not reach the API server"}
	}
	if s.MountTrouble != "" {
		return waiting{v1alpha1.WaitingVolumeMount, s.MountTrouble}
	}
	return waiting{v1alpha1.WaitingPodStarting, fmt.Sprintf("%s: Pod %s is starting", termOf(&s.Task.Status), pod.Name)}
}

// pullCause is the kubelet's message without what changes from one try to the next, so that waiting costs no writes.
func pullCause(message string) string {
	if i := strings.LastIndex(message, "ErrImagePull: "); i >= 0 {
		message = message[i+len("ErrImagePull: "):]
	}
	return message
}

func containerStatuses(pod *corev1.Pod) []corev1.ContainerStatus {
	all := make([]corev1.ContainerStatus, 0, len(pod.Status.InitContainerStatuses)+len(pod.Status.ContainerStatuses))
	return append(append(all, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...)
}

// workerStarted is when the kubelet started the worker container, running or ended by now; zero if it did not.
func workerStarted(task *v1alpha1.LeasedTask, pod *corev1.Pod) time.Time {
	if end := workerTerminated(task, pod); end != nil {
		return end.StartedAt.Time
	}
	if pod == nil {
		return time.Time{}
	}
	return workerRunningSince(task, pod)
}

func workerRunningSince(task *v1alpha1.LeasedTask, pod *corev1.Pod) (since time.Time) {
	worker := workerIn(task, pod)
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; worker != nil && c.Name == worker.Name && c.State.Running != nil {
			return c.State.Running.StartedAt.Time
		}
	}
	return since
}
