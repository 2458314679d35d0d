package plan

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

const (
	// mountPatience is how long a Pod may take to mount its volumes before anybody asks what is in the way.
	mountPatience = 5 * time.Second
	// mountRetry is the pause before asking again while there was no answer, mountRefresh while there was one: the kubelet tries again
	// every two minutes at most.
	mountRetry   = 10 * time.Second
	mountRefresh = time.Minute
)

// IsMounting reports whether the attempt's Pod waits for its volumes, for longer than that takes where nothing is wrong. A Pod
// does not say what is in the way, as a container does; its events do.
func (s *Snapshot) IsMounting() bool {
	return s.awaitsVolumes() && s.untilMountCause() <= 0
}

// HolderPodUID is the UID of the attempt's Pod; empty: there is none.
func (s *Snapshot) HolderPodUID() string {
	if pod := s.holderPod(); pod != nil {
		return string(pod.UID)
	}
	return ""
}

// awaitsVolumes reports whether the Pod of a term that nobody has claimed has a node, and no sandbox there: volumes come first.
func (s *Snapshot) awaitsVolumes() bool {
	if !isOpen(s) || s.Term == nil || s.Term.State() != fencing.Granted {
		return false
	}
	pod := s.holderPod()
	if pod == nil || pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReadyToStartContainers && c.Status == corev1.ConditionTrue {
			return false
		}
	}
	for _, c := range containerStatuses(pod) {
		if c.State.Running != nil || c.State.Terminated != nil {
			return false
		}
	}
	return true
}

func (s *Snapshot) untilMountCause() time.Duration { return mountPatience - s.Now.Sub(s.Since) }

// nextMountLook is when to ask what is in the way of the Pod's volumes.
func (s *Snapshot) nextMountLook() time.Duration {
	switch left := s.untilMountCause(); {
	case left > 0:
		return left
	case s.MountTrouble == "":
		return mountRetry
	}
	return mountRefresh
}

// MountCause is what the kubelet said last about a Pod's volumes; empty: nothing.
func MountCause(events []corev1.Event) (cause string) {
	var latest time.Time
	for i := range events {
		e := &events[i]
		at := e.LastTimestamp.Time
		if e.Series != nil && e.Series.LastObservedTime.After(at) {
			at = e.Series.LastObservedTime.Time
		}
		if at.IsZero() {
			at = e.EventTime.Time
		}
		message := strings.TrimPrefix(e.Message, "(combined from similar events): ")
		// What it says of all volumes together is that they took too long.
		if strings.HasPrefix(message, "Unable to attach or mount volumes") && cause != "" {
			continue
		}
		if cause == "" || strings.HasPrefix(cause, "Unable to attach or mount volumes") || at.After(latest) {
			cause, latest = message, at
		}
	}
	return cause
}
