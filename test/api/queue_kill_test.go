package api

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

const (
	queueKills    = 220
	queueTasks    = 8 // unfinished at any time
	queueCapacity = 3
)

// TestNoCapacityLeaksWhenTheOperatorIsKilled kills the operator at random, 220 times, within its first few writes or some later one,
// while a queue of tasks is worked on: they succeed, fail, fall silent, are cancelled and deleted. Each operator that is born counts
// what a fresh recount by the raw objects does, and never do more tasks hold a term than the queue allows, by the API server's own
// account.
func TestNoCapacityLeaksWhenTheOperatorIsKilled(t *testing.T) {
	t.Parallel()
	k := newQueueKill(t)
	for k.kills < queueKills {
		k.born()
		for left := 1 + k.random.IntN(10); left > 0 && !k.isDead; {
			before := k.writes
			k.step()
			left -= k.writes - before
		}
		k.die()
	}
	k.born()
	for range 400 { // and now it lives
		if k.step(); len(k.tasks) == 0 {
			break
		}
	}
	k.must(len(k.tasks) == 0, "%d tasks do not end", len(k.tasks))
	if is, _ := k.operator.Turns.Learn(k.queue); is.Counts.Pending+is.Counts.Running > 0 {
		t.Errorf("all tasks have ended, and %+v is left", is.Counts)
	}
	starts, most := k.judge.seen()
	if most != queueCapacity {
		t.Errorf("%d held a term at the same time, want %d", most, queueCapacity)
	}
	t.Logf("%d kills, %d tasks, %d grants", k.kills, k.made, len(starts))
}

type queueKill struct {
	*mortal
	random *rand.Rand
	judge  *capacityJudge
	queue  *v1alpha1.TaskQueue
	tasks  []*v1alpha1.LeasedTask // unfinished
	gone   []client.ObjectKey     // deleted, and there may be no pass over them yet
	silent map[int64]bool         // tokens whose workers say nothing more
	made   int
	kills  int
	writes int
}

func newQueueKill(t *testing.T) *queueKill {
	k := &queueKill{mortal: newMortal(t, 0, suspendedFromTheStart), random: rand.New(rand.NewPCG(6, 6)), silent: map[int64]bool{}}
	k.judge = k.judgeCapacity()
	k.queue = k.makeQueue("bulk", v1alpha1.TaskQueueSpec{Concurrency: queueCapacity})
	k.ok(k.Poll(t.Context(), patience, func() error { return k.reader.Get(t.Context(), client.ObjectKeyFromObject(k.queue), k.queue) }))
	return k
}

// suspendedFromTheStart keeps the task that every mortal has out of the way.
func suspendedFromTheStart(task *v1alpha1.LeasedTask) { task.Spec.Suspend = new(true) }

// born is a new operator. It counts afresh, by the API server; nothing else happens meanwhile.
func (k *queueKill) born() {
	k.Helper()
	k.hasDied, k.left = false, 1<<30
	k.beBorn()
	seeder := &controller.Seeder{Turns: k.operator.Turns, Live: client.NewNamespacedClient(admin, k.namespace)}
	k.ok(seeder.Seed(k.Context()))
	is, _ := k.operator.Turns.Learn(k.queue)
	if recount := k.recount(); is.Counts.Running != recount {
		k.Fatalf("after kill %d (%s) it counts %d that hold capacity, and there are %d", k.kills, k.lastWords, is.Counts.Running, recount)
	}
}

// recount is how many tasks hold capacity, by what the objects say.
func (k *queueKill) recount() (n int) {
	k.Helper()
	tasks, leases := &v1alpha1.LeasedTaskList{}, &coordinationv1.LeaseList{}
	k.ok(errors.Join(admin.List(k.Context(), tasks, client.InNamespace(k.namespace)), admin.List(k.Context(), leases, client.InNamespace(k.namespace))))
	open := map[string]bool{}
	for _, lease := range leases.Items {
		if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" && lease.Annotations[fencing.SubmissionAnnotation] == "" {
			open[lease.Labels[mailbox.TaskLabel]] = true
		}
	}
	for i := range tasks.Items {
		status := &tasks.Items[i].Status
		switch status.Phase {
		case v1alpha1.PhaseClaimed, v1alpha1.PhaseRunning:
			n++
		case v1alpha1.PhaseExpired:
			if status.DeadLetterName == "" || open[string(tasks.Items[i].UID)] {
				n++
			}
		case v1alpha1.PhaseCompleted, v1alpha1.PhaseCancelled, v1alpha1.PhaseDeadLettered:
		default:
			if open[string(tasks.Items[i].UID)] {
				n++
			}
		}
	}
	return n
}

// die kills the operator: at once, or within its next write, which then took effect or did not.
func (k *queueKill) die() {
	k.kills++
	if k.left = 1; k.random.IntN(3) == 0 {
		k.isDead = true
	}
	for i := 0; !k.isDead && i < 20; i++ {
		k.step()
	}
}

// step lets a few things happen: a pass over each task, time, what workers and owners do.
func (k *queueKill) step() {
	k.Helper()
	for k.kills < queueKills && len(k.tasks) < queueTasks {
		k.tasks = append(k.tasks, k.start(fmt.Sprintf("task-%d", k.made), inQueue("bulk"), func(task *v1alpha1.LeasedTask) {
			task.Labels = map[string]string{handDriven: "true"}
			task.Spec.Retry = v1alpha1.RetrySpec{MaxAttempts: 3, Backoff: v1alpha1.BackoffSpec{MaxSeconds: 1}}
		}))
		k.made++
	}
	k.sight.Answered(k.clock.Now())
	k.random.Shuffle(len(k.tasks), func(i, j int) { k.tasks[i], k.tasks[j] = k.tasks[j], k.tasks[i] })
	for _, task := range k.tasks {
		if k.isDead {
			break
		}
		left := k.left
		_, _ = k.operator.Reconcile(k.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(task)})
		k.writes += left - k.left
	}
	k.gone = slices.DeleteFunc(k.gone, func(name client.ObjectKey) bool {
		isSeen := apierrors.IsNotFound(k.reader.Get(k.Context(), name, &v1alpha1.LeasedTask{}))
		_, _ = k.operator.Reconcile(k.Context(), ctrl.Request{NamespacedName: name})
		return isSeen
	})
	k.clock.Step(500 * time.Millisecond)
	time.Sleep(3 * time.Millisecond) // for the cache
	unfinished := k.tasks[:0:0]
	for _, task := range k.tasks {
		if k.happens(task); !task.Status.Phase.IsFinished() && task.DeletionTimestamp == nil {
			unfinished = append(unfinished, task)
		}
	}
	k.tasks = unfinished
}

// happens is what a task's worker and its owner do.
func (k *queueKill) happens(task *v1alpha1.LeasedTask) {
	k.Helper()
	k.ok(admin.Get(k.Context(), client.ObjectKeyFromObject(task), task))
	chance := k.random.IntN(100)
	switch token := task.Status.FencingToken; {
	case task.Status.Phase.IsFinished():
	case chance < 2:
		k.ok(k.edit(task, cancelled))
	case chance < 4 && k.kills < queueKills:
		k.deletes(task)
	case task.Status.Phase == v1alpha1.PhaseClaimed && !k.silent[token] && chance < 70:
		pod := &corev1.Pod{}
		if admin.Get(k.Context(), client.ObjectKey{Namespace: k.namespace, Name: task.Status.Holder.PodName}, pod) != nil {
			return
		}
		a := &agent{scene: k.scene, task: task, claim: fencing.Claim{Nonce: "nonce", Node: node, PodUID: string(pod.UID)}}
		k.silent[token] = true // one way or the other
		if a.claimTerm() != nil {
			return
		}
		switch {
		case chance < 45:
			_ = a.submit(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted})
		case chance < 60:
			_ = a.submit(fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(1))})
		}
	}
}

// deletes deletes a task, and its Lease, as the garbage collector would.
func (k *queueKill) deletes(task *v1alpha1.LeasedTask) {
	k.Helper()
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name = k.namespace, mailbox.Name(string(task.UID))
	k.ok(client.IgnoreNotFound(admin.Delete(k.Context(), lease)))
	k.ok(admin.Delete(k.Context(), task))
	k.gone = append(k.gone, client.ObjectKeyFromObject(task))
	task.DeletionTimestamp = &task.CreationTimestamp
}
