package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// sweepTable: what becomes of Pods whose attempt is over. Each row is a task that waits for its next attempt.
var sweepTable = map[string]decision{
	"a Pod that never claimed is deleted": {
		given: []func(*Snapshot){over, onTask(func(t *v1alpha1.LeasedTask) { t.Status.History[0].StartTime = nil })},
		want:  waits("delete "+holder, time.Second, true),
	},
	"a Pod that no history knows is deleted": {
		given: []func(*Snapshot){over, onTask(func(t *v1alpha1.LeasedTask) { t.Status.History[0].PodName = "another" })},
		want:  waits("delete "+holder, time.Second, true),
	},
	"a Pod that is being deleted is left": {
		given: []func(*Snapshot){over, podDeleted, onTask(func(t *v1alpha1.LeasedTask) { t.Status.History[0].StartTime = nil })},
		want:  waits("", time.Second, false),
	},
	"a Pod that has ended is left, for its logs": {
		given: []func(*Snapshot){over, workerDied(1, "Error", ""), onTask(func(t *v1alpha1.LeasedTask) { t.Status.History[0].StartTime = nil })},
		want:  waits("", time.Second, false),
	},
	"a Pod of somebody else's is left": {
		given: []func(*Snapshot){over, onPod(func(p *corev1.Pod) { p.OwnerReferences = nil }), onTask(func(t *v1alpha1.LeasedTask) { t.Status.History = nil })},
		want:  waits("", time.Second, false),
	},
	"a worker may end by itself for a while": {
		given: []func(*Snapshot){over, onTask(func(t *v1alpha1.LeasedTask) { t.Status.NextAttemptTime.Time = now.Add(time.Minute) })},
		want:  waits("", 20*time.Second, false),
	},
	"a straggler gets a deadline, counted from its start": {
		given: []func(*Snapshot){over, onTask(func(t *v1alpha1.LeasedTask) { t.Status.History[0].EndTime = at(-30 * time.Second) })},
		want:  waits("limit "+holder+" 310", time.Second, false),
	},
	"a straggler gets one deadline": {
		given: []func(*Snapshot){over, onTask(func(t *v1alpha1.LeasedTask) { t.Status.History[0].EndTime = at(-30 * time.Second) }),
			onPod(func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(310)) })},
		want: waits("", time.Second, false),
	},
}

// over is a task in its back-off whose last Pod still runs.
func over(s *Snapshot) {
	onRecord(s)
	podRuns(s)
	pods := s.Pods
	backedOff(s)
	s.Pods = pods
}

func waits(pods string, requeue time.Duration, isLive bool) want {
	return want{Rule: RuleBackoff, Status: "Available attempt 1", Waiting: "Backoff", Ready: "False/Backoff", Pods: pods, Requeue: requeue, Live: isLive}
}
