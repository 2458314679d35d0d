package plan

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

const (
	// mountPatience is how long a Pod may take to mount its volumes, once it has a node, before anybody asks what is in the way.
	mountPatience = 5 * time.Second
	// mountRetry is the pause before asking again while there was no answer, mountRefresh while there was one: the kubelet tries again
	// every two minutes at most.
	mountRetry   = 10 * time.Second
	mountRefresh = time.Minute
	// maxMountCause bounds what is kept of the kubelet's words.
	maxMountCause = 1024
)

// IsMounting reports whether the attempt's Pod waits for its volumes, for longer than that takes where nothing is wrong, or when its
// time to start is over. A Pod does not say what is in the way, as a container does; its events do.
func (s *Snapshot) IsMounting() bool {
	return s.awaitsVolumes() && (s.untilMountCause() <= 0 || !s.Now.Before(s.startDeadline()))
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

// untilMountCause is what is left of the patience. It counts from when the Pod got its node, for which it may have waited as long as an
// autoscaler takes; from when this process saw the grant, if that is later, or if by this clock the Pod has yet to get it.
func (s *Snapshot) untilMountCause() time.Duration {
	began := s.Since
	for _, c := range s.holderPod().Status.Conditions {
		if at := c.LastTransitionTime.Time; c.Type == corev1.PodScheduled && at.After(began) && !at.After(s.Now) {
			began = at
		}
	}
	return mountPatience - s.Now.Sub(began)
}

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

// MountCauses are what the kubelets said last about the volumes of Pods, by the Pods' UIDs.
type MountCauses map[types.UID]mountCause

type mountCause struct {
	at   time.Time
	what string
}

// Of is what is in the way of a Pod's volumes; empty: nothing is known.
func (m MountCauses) Of(podUID string) string { return m[types.UID(podUID)].what }

// Add takes one more event into account.
func (m MountCauses) Add(e *corev1.Event) {
	next := mountCause{e.LastTimestamp.Time, fencing.Truncate(strings.TrimPrefix(e.Message, "(combined from similar events): "), maxMountCause)}
	if e.Series != nil && e.Series.LastObservedTime.After(next.at) {
		next.at = e.Series.LastObservedTime.Time
	}
	if next.at.IsZero() {
		next.at = e.EventTime.Time
	}
	last, isKnown := m[e.InvolvedObject.UID]
	if !isKnown || last.isSymptom() || !next.isSymptom() && next.at.After(last.at) {
		m[e.InvolvedObject.UID] = next
	}
}

// isSymptom reports whether it says no more than that all volumes together took too long.
func (c mountCause) isSymptom() bool {
	return strings.HasPrefix(c.what, "Unable to attach or mount volumes")
}
