package plan

import (
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

const (
	// settleTime is how long a Pod may take to end by itself after its attempt has ended.
	settleTime = 30 * time.Second
	// stragglerTime is how much longer a Pod that has not ended may stay: a frozen worker may wake and say what it did, a
	// sidecar may finish. Then the kubelet ends it.
	stragglerTime = 4*time.Minute + 30*time.Second
)

// lateSubmission puts on record what a worker wanted to submit after its term was revoked. The refusal is found in the
// Pod's termination message, where the agent leaves it.
func lateSubmission(s *Snapshot) (Plan, bool) {
	status := s.status()
	p := Plan{}
	for _, pod := range s.Pods {
		entry := entryOf(status, pod)
		died := workerTerminated(s.Task, pod)
		if entry == nil || entry.LateSubmission.Outcome != "" || entry.Evidence == v1alpha1.EvidenceSubmission || died == nil {
			continue
		}
		report, ok := fencing.ParseReport(died.Message)
		if !ok || report.Delivery != fencing.DeliveryRefused {
			continue
		}
		entry.LateSubmission = v1alpha1.LateSubmission{
			Outcome:      fencing.Truncate(string(report.Outcome), 64),
			FencingToken: int64(report.Token),
			Time:         new(metav1.NewTime(died.FinishedAt.Time)),
		}
		p.Counts = append(p.Counts, Count{Counter: CountLateSubmission})
		p.Events = append(p.Events, Event{Warning: true, Reason: "LateSubmissionRefused", Action: "Refuse",
			Note: fmt.Sprintf("Attempt %d submitted %s under token %d after its term was revoked; it was refused", entry.Attempt, entry.LateSubmission.Outcome, report.Token)})
	}
	p.Status = status
	return p, len(p.Counts) > 0
}

func entryOf(status *v1alpha1.LeasedTaskStatus, pod *corev1.Pod) *v1alpha1.AttemptRecord {
	for i := range status.History {
		if status.History[i].PodName == pod.Name {
			return &status.History[i]
		}
	}
	return nil
}

// sweep adds to a plan what is left to do about Pods whose attempt is over. One that never claimed has nothing to say and
// is deleted; one that did is left to end by itself, then ended by the kubelet, which keeps its object and logs.
func sweep(s *Snapshot, p *Plan) {
	if p.Rule == RuleDeleting || p.DeleteTask {
		return
	}
	status := &s.Task.Status
	if p.Status != nil {
		status = p.Status
	}
	for _, pod := range s.Pods {
		if isPodFinished(pod) || pod.DeletionTimestamp != nil || isCurrent(status, pod) || isLater(status, pod) || !metav1.IsControlledBy(pod, s.Task) {
			continue
		}
		entry := entryOf(status, pod)
		if entry == nil || entry.StartTime == nil || entry.EndTime == nil {
			p.DeletePods = append(p.DeletePods, pod)
			continue
		}
		if pod.Spec.ActiveDeadlineSeconds != nil || pod.Status.StartTime == nil {
			continue
		}
		if left := entry.EndTime.Add(settleTime).Sub(s.Now); left > 0 {
			p.requeueWithin(left)
			continue
		}
		ran := s.Now.Sub(pod.Status.StartTime.Time)
		p.LimitPods = append(p.LimitPods, PodLimit{pod, max(1, int64((ran+stragglerTime)/time.Second))})
	}
}

// isCurrent reports whether the Pod belongs to the attempt under way.
func isCurrent(status *v1alpha1.LeasedTaskStatus, pod *corev1.Pod) bool {
	return hasOpenTerm(status) && status.Holder.PodName == pod.Name
}

// isLater reports whether the Pod was made for a grant that this status does not know. Pods are made after their grant is on
// record, so the status was read too early: another controller has gone on since.
func isLater(status *v1alpha1.LeasedTaskStatus, pod *corev1.Pod) bool {
	token, err := strconv.ParseInt(pod.Annotations[v1alpha1.TokenAnnotation], 10, 64)
	return err == nil && token > status.FencingToken
}

func (p *Plan) requeueWithin(d time.Duration) {
	if p.Requeue <= 0 || d < p.Requeue {
		p.Requeue = d
	}
}
