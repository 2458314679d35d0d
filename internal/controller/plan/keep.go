package plan

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// Finished is a Pod that has ended, and the task that it belongs to.
type Finished struct {
	Pod  *corev1.Pod
	Task *v1alpha1.LeasedTask
}

// Surplus is which of a namespace's finished Pods to delete, oldest first, so that the last few stay with their logs, and when to
// look again for those that are too young for it; 0: there are none. A task that has not finished needs its Pods: they are
// evidence; they neither go nor count.
func Surplus(finished []Finished, keep int, now time.Time) (pods []*corev1.Pod, again time.Duration) {
	spent := slices.DeleteFunc(slices.Clone(finished), func(f Finished) bool {
		return !f.Task.Status.Phase.IsFinished() || f.Task.Status.CompletionTime == nil || f.Pod.DeletionTimestamp != nil
	})
	slices.SortFunc(spent, func(a, b Finished) int { return endOf(a).Compare(endOf(b)) })
	for _, f := range spent[:max(0, len(spent)-keep)] {
		left := f.Task.Status.CompletionTime.Add(f.unheardFor()).Sub(now)
		switch {
		case left <= 0:
			pods = append(pods, f.Pod)
		case again == 0 || left < again:
			again = left
		}
	}
	return pods, again
}

// unheardFor is how long after its task's end a Pod may still have something to say. One whose worker the kubelet has seen end has
// said it, and only the record of a late submission may be to come; of any other a frozen worker may wake.
func (f Finished) unheardFor() time.Duration {
	if workerTerminated(f.Task, f.Pod) != nil {
		return settleTime
	}
	return settleTime + stragglerTime
}

// endOf is when a Pod ended, by its node's clock; one that says nothing of it is as old as it is.
func endOf(f Finished) time.Time {
	end := f.Pod.CreationTimestamp.Time
	for _, c := range containerStatuses(f.Pod) {
		if t := c.State.Terminated; t != nil && t.FinishedAt.After(end) {
			end = t.FinishedAt.Time
		}
	}
	return end
}

// IsPodFinished reports whether a Pod has ended.
func IsPodFinished(pod *corev1.Pod) bool { return isPodFinished(pod) }
