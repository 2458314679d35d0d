package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/bug"
	"github.com/leasehold-io/leasehold/internal/queue"
)

// Snapshot is all that a decision rests on.
type Snapshot struct {
	Now time.Time
	// Task has its effective spec: see Complete. Its status alone is written.
	Task *v1alpha1.LeasedTask
	// Source is where what the task's own spec leaves out comes from.
	Source Source
	// Term is the task's term Lease; nil: there is none.
	Term *fencing.Term
	// Since is when this process first saw the term's record, or its absence, as it is now: on its own clock, and never
	// from before a time in which it could not see. See fencing.Judge.
	Since time.Time
	// ClaimedSince is when this process first saw the term's claim; zero: there is none.
	ClaimedSince time.Time
	// StoppedSince is when this process first saw the stop that the term bears, and never from before a time in which it could
	// not see; zero: it bears none.
	StoppedSince time.Time
	// Pods are all Pods that carry the task's UID.
	Pods []*corev1.Pod
	// NodeLost names why the holder's node counts as lost; empty: it does not, or nobody asked. Looked up for a live
	// decision on an expired term only. It classifies, it decides nothing.
	NodeLost string
	// MountTrouble is what the kubelet says is in the way of the volumes of the holder's Pod; empty: nothing, or nobody asked. Looked
	// up while the Pod waits for them: see IsMounting. It explains, it decides nothing.
	MountTrouble string
	// Revision is the API server's latest revision as the read of the Pods was answered. Empty unless it was read live.
	Revision string
	// Keys are the task's keys, in the order in which they are taken.
	Keys []Key
	// Queue is the task's queue, as the cache has it; nil: there is none of that name, or the task names none.
	Queue *v1alpha1.TaskQueue
	// Turn is where the task stands in its queue; nil: that was not asked in this pass.
	Turn *queue.Turn
	// Live is true if task, term, keys and Pods were read from the API server for this decision.
	Live bool

	// GrantProblem and PodRefusal are answers to a plan that was tried in this pass. The rules that made that plan look at them.
	GrantProblem *GrantProblem
	PodRefusal   *PodRefusal
	// KeyRefusal is another such answer: why the Lease of a key cannot be written; empty: it was not refused in this pass.
	KeyRefusal string
	// RevisionRefusal is another such answer: why what the queue gives the task cannot be kept; empty: it was not refused in this pass.
	RevisionRefusal string
	// DeadLetterRefusal is another such answer: why the dead letter cannot be written; empty: it was not refused in this pass.
	DeadLetterRefusal string

	// Jitter is uniform in [0, 1), Suffix is random and makes a Pod's name one of its kind.
	Jitter float64
	Suffix string
}

// GrantProblem is why no term can be granted now: a reason of the Waiting condition, and a sentence.
type GrantProblem struct {
	Reason  string
	Message string
}

// RefusalKind says what kind of answer a Pod's creation got. It is closed.
type RefusalKind string

const (
	// RefusedQuota: no room in a ResourceQuota; waiting helps.
	RefusedQuota RefusalKind = "Quota"
	// RefusedPolicy: an admission plugin does not take the Pod, PodSecurity say; the namespace may be changed.
	RefusedPolicy RefusalKind = "Policy"
	// RefusedError: the API server, or a webhook, failed; waiting may help.
	RefusedError RefusalKind = "Error"
	// RefusedInvalid: the template makes no valid Pod; it never will.
	RefusedInvalid RefusalKind = "Invalid"
	// RefusedTaken: a Pod of that name exists and is not this attempt's.
	RefusedTaken RefusalKind = "Taken"
)

// PodRefusal is why the API server did not take an attempt's Pod.
type PodRefusal struct {
	Kind    RefusalKind
	Message string
}

// IsLossOpen reports whether the decision may be about a worker that was lost, so that it helps to know of its node.
func (s *Snapshot) IsLossOpen() bool {
	if !isOpen(s) || s.Term == nil || s.Term.Claim == nil {
		return false
	}
	verdict, _ := fencing.Judge(s.Term, s.Since, s.Now)
	return verdict == fencing.VerdictExpired || verdict == fencing.VerdictRevoked
}

// HolderNode is the node of the holder's Pod, by the Pod's own account: what a claim says, its worker wrote.
func (s *Snapshot) HolderNode() string {
	if pod := s.holderPod(); pod != nil {
		return pod.Spec.NodeName
	}
	return ""
}

// status is a copy of the task's status to build the next one from.
func (s *Snapshot) status() *v1alpha1.LeasedTaskStatus {
	status := s.Task.Status.DeepCopy()
	status.ObservedGeneration = new(s.Task.Generation)
	s.wind(status)
	return status
}

// hasRecordedLease reports whether the Lease is the one that the status names. One that was made anew is another, and nothing on it
// tells of the process that held the old one.
func (s *Snapshot) hasRecordedLease() bool {
	return s.Term != nil && s.Term.UID == s.Task.Status.LeaseUID
}

// isRecorded reports whether the term on the Lease is the one that the status knows. A submitted or revoked term of the
// recorded attempt stays recorded, whatever its holder field says.
func (s *Snapshot) isRecorded() bool {
	status := &s.Task.Status
	return s.hasRecordedLease() && s.Term.Attempt == status.Attempt && (s.Term.Holder == "" || s.Term.Holder == status.Holder.PodName)
}

// holderPod is the current attempt's Pod: the one whose UID is in the claim, or on record where the Lease has none any more;
// before a claim, the one that bears the holder's name. nil if it does not exist.
func (s *Snapshot) holderPod() *corev1.Pod {
	claimed := s.Task.Status.Holder.PodUID
	if s.Term != nil && s.Term.Claim != nil {
		claimed = s.Term.Claim.PodUID
	}
	for _, pod := range s.Pods {
		if claimed != "" && string(pod.UID) == claimed || claimed == "" && pod.Name == s.Task.Status.Holder.PodName {
			return pod
		}
	}
	return nil
}

// hasWorkerTerminated reports whether the kubelet says that the holder's process has ended. An agent that reports that it never
// had the term speaks for itself alone: a kubelet that lost its records starts another process in the Pod, and speaks of that one
// from then on, while the first may live.
func (s *Snapshot) hasWorkerTerminated() bool {
	pod := s.holderPod()
	if bug.Is(bug.ReleaseOnPodPhase) && (pod == nil || isPodFinished(pod)) {
		return true
	}
	end := workerTerminated(s.Task, pod)
	if end == nil {
		return false
	}
	report, ok := fencing.ParseReport(end.Message)
	return !ok || report.Delivery != fencing.DeliveryNone
}

// workerTerminated is the kubelet's account of the end of the worker container; nil if there is none that can be trusted. An
// account without container ID or end, or with reason ContainerStatusUnknown, was made up by somebody who did not see it.
func workerTerminated(task *v1alpha1.LeasedTask, pod *corev1.Pod) *corev1.ContainerStateTerminated {
	if pod == nil {
		return nil
	}
	worker := workerIn(task, pod)
	if worker == nil {
		return nil
	}
	for i := range pod.Status.ContainerStatuses {
		status := &pod.Status.ContainerStatuses[i]
		end := status.State.Terminated
		if status.Name != worker.Name || end == nil {
			continue
		}
		if end.ContainerID == "" || end.FinishedAt.IsZero() || end.Reason == "ContainerStatusUnknown" {
			return nil
		}
		return end
	}
	return nil
}

func isPodFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
