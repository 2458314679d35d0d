package api

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// queueScene is a namespace with queues, a judge of what runs there at the same time, and workers that do as they are told.
type queueScene struct {
	*scene
	judge *capacityJudge
}

func withQueues(t *testing.T) *queueScene {
	t.Helper()
	s := sideBySide(t, nil)
	return &queueScene{scene: s, judge: s.judgeCapacity()}
}

func (s *scene) makeQueue(name string, spec v1alpha1.TaskQueueSpec) *v1alpha1.TaskQueue {
	s.Helper()
	tq := &v1alpha1.TaskQueue{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: spec}
	s.ok(admin.Create(s.Context(), tq))
	return tq
}

func (s *scene) changeQueue(tq *v1alpha1.TaskQueue, change func(*v1alpha1.TaskQueueSpec)) {
	s.Helper()
	before := tq.DeepCopy()
	change(&tq.Spec)
	s.ok(admin.Patch(s.Context(), tq, client.MergeFrom(before)))
}

func inQueue(name string) func(*v1alpha1.LeasedTask) {
	return func(task *v1alpha1.LeasedTask) { task.Spec.QueueName = name }
}

func ofTenant(name string) func(*v1alpha1.LeasedTask) {
	return func(task *v1alpha1.LeasedTask) { task.Spec.Tenant = name }
}

func ofPriority(n int32) func(*v1alpha1.LeasedTask) {
	return func(task *v1alpha1.LeasedTask) { task.Spec.Priority = &n }
}

// untilQueue waits until the TaskQueue's status is as wanted.
func (s *scene) untilQueue(tq *v1alpha1.TaskQueue, what string, is func(*v1alpha1.TaskQueueStatus) bool) {
	s.Helper()
	s.ok(s.Poll(s.Context(), patience, func() error {
		if err := admin.Get(s.Context(), client.ObjectKeyFromObject(tq), tq); err != nil {
			return err
		}
		if !is(&tq.Status) {
			return fmt.Errorf("the TaskQueue is not yet %s: %+v", what, tq.Status)
		}
		return nil
	}))
}

func counts(pending, running int32) func(*v1alpha1.TaskQueueStatus) bool {
	return func(status *v1alpha1.TaskQueueStatus) bool {
		return status.Pending != nil && *status.Pending == pending && status.Running != nil && *status.Running == running
	}
}

// capacityJudge is told by the API server of every version of every term Lease, and knows nothing of our code: a term is open from
// the version that names a holder until one that does not, or that bears a submission.
type capacityJudge struct {
	mu      sync.Mutex
	open    map[string]bool // by the name of the task
	most    int
	starts  []string
	times   []time.Time
	overlap func(open map[string]bool) // looked at after every start
}

func (s *scene) judgeCapacity() *capacityJudge {
	s.Helper()
	j := &capacityJudge{open: map[string]bool{}}
	follow(s, s.namespace, &coordinationv1.LeaseList{}, j.sees)
	return j
}

func (j *capacityJudge) sees(kind watch.EventType, lease *coordinationv1.Lease) {
	task := lease.Annotations[mailbox.TaskNameAnnotation]
	if task == "" {
		return // of a key
	}
	isOpen := kind != watch.Deleted && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" && lease.Annotations[fencing.SubmissionAnnotation] == ""
	j.mu.Lock()
	defer j.mu.Unlock()
	if !isOpen {
		delete(j.open, task)
		return
	}
	if j.open[task] {
		return
	}
	j.open[task] = true
	j.most = max(j.most, len(j.open))
	j.starts, j.times = append(j.starts, task), append(j.times, time.Now())
	if j.overlap != nil {
		j.overlap(j.open)
	}
}

// seen is what started, in order, and how many ran at the same time at most.
func (j *capacityJudge) seen() (starts []string, most int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append(starts, j.starts...), j.most
}

// work has workers finish whatever is granted in the namespace, each after a while, until the test is over.
func (s *queueScene) work(each time.Duration) {
	ctx, stop := context.WithCancel(s.Context())
	var crew sync.WaitGroup
	s.Cleanup(func() { stop(); crew.Wait() })
	crew.Go(func() {
		begun := map[int64]bool{} // by token
		for ctx.Err() == nil {
			list := &v1alpha1.LeasedTaskList{}
			if err := admin.List(ctx, list, client.InNamespace(s.namespace)); err != nil && ctx.Err() == nil {
				panic(err)
			}
			for i := range list.Items {
				if task := &list.Items[i]; task.Status.Phase == v1alpha1.PhaseClaimed && !begun[task.Status.FencingToken] {
					begun[task.Status.FencingToken] = true
					crew.Go(func() { s.workOn(ctx, task, each) })
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// workOn is a worker that claims, works, and succeeds. What fails it the operator deals with.
func (s *queueScene) workOn(ctx context.Context, task *v1alpha1.LeasedTask, each time.Duration) {
	pod := &corev1.Pod{}
	err := s.Poll(ctx, patience, func() error {
		return admin.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: task.Status.Holder.PodName}, pod)
	})
	if err != nil {
		return
	}
	a := &agent{scene: s.scene, task: task, claim: fencing.Claim{Nonce: "nonce", Node: node, PodUID: string(pod.UID)}}
	if a.claimTerm() == nil {
		time.Sleep(each)
		_ = a.submit(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted})
	}
}

// allFinish waits until all tasks of the namespace have succeeded.
func (s *queueScene) allFinish(n int) {
	s.Helper()
	s.ok(s.Poll(s.Context(), 2*patience, func() error {
		list := &v1alpha1.LeasedTaskList{}
		if err := admin.List(s.Context(), list, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		done := 0
		for i := range list.Items {
			if list.Items[i].Status.Phase == v1alpha1.PhaseCompleted {
				done++
			}
		}
		if done != n {
			return fmt.Errorf("%d of %d tasks have succeeded", done, n)
		}
		return nil
	}))
}

// recordTasks notes every version of the namespace's tasks that is written from now on.
func (s *scene) recordTasks() func() []*v1alpha1.LeasedTask {
	s.Helper()
	var mu sync.Mutex
	var versions []*v1alpha1.LeasedTask
	follow(s, s.namespace, &v1alpha1.LeasedTaskList{}, func(_ watch.EventType, task *v1alpha1.LeasedTask) {
		mu.Lock()
		defer mu.Unlock()
		versions = append(versions, task)
	})
	return func() []*v1alpha1.LeasedTask {
		mu.Lock()
		defer mu.Unlock()
		return append([]*v1alpha1.LeasedTask(nil), versions...)
	}
}
