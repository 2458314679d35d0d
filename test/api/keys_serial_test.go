package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// TestFiftyTasksOfOneKeyNeverOverlap, with two operators that both believe to lead, each of which dies again and again after a write
// and is followed by one that knows nothing. Every version of every Lease is judged, in the API server's order: there never are two
// open terms; and so are the workers, by how many are at work.
func TestFiftyTasksOfOneKeyNeverOverlap(t *testing.T) {
	t.Parallel()
	const count = 50
	m := newMortal(t, 0, alone("ledger")) // of it, the cache is used
	w := &serialWork{mortal: m, tasks: []*v1alpha1.LeasedTask{m.task}}
	stop := follow(t, m.namespace, &coordinationv1.LeaseList{}, w.judge())
	for i := range count - 1 {
		w.tasks = append(w.tasks, m.start(fmt.Sprintf("t%02d", i), alone("ledger"), func(task *v1alpha1.LeasedTask) { task.Labels = map[string]string{handDriven: "true"} }))
	}
	var operators sync.WaitGroup
	for seed := range uint64(2) {
		operators.Go(func() { w.operate(rand.New(rand.NewPCG(seed, 0))) })
	}
	w.play()
	operators.Wait()
	stop()
	t.Logf("%d versions of Leases, %d terms, %d deaths", w.seen, w.terms, w.deaths)
	m.must(len(w.problems) == 0, "%s", strings.Join(w.problems, "\n"))
	m.must(w.terms >= count && w.deaths >= 5, "%d terms, %d deaths: this shows nothing", w.terms, w.deaths)
}

// serialWork is fifty tasks of one key, their workers, and whoever works on them.
type serialWork struct {
	*mortal
	tasks []*v1alpha1.LeasedTask

	mu       sync.Mutex
	isOver   bool
	problems []string

	seen, terms, deaths int
}

func (w *serialWork) problemf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// judge is told of every version of the Leases: at most one term is open, and it is one of the task that has the key.
func (w *serialWork) judge() func(watch.EventType, *coordinationv1.Lease) {
	open, holder := map[string]bool{}, ""
	return func(kind watch.EventType, lease *coordinationv1.Lease) {
		w.seen++
		task := lease.Labels[mailbox.TaskLabel]
		switch {
		case lease.Labels[key.Label] != "" && kind == watch.Deleted:
			holder = ""
		case lease.Labels[key.Label] != "":
			holder = *lease.Spec.HolderIdentity
		case !mailbox.Read(lease).IsOpen() || kind == watch.Deleted:
			delete(open, task)
		case !open[task]:
			w.terms++
			if open[task] = true; len(open) > 1 || holder != task {
				w.problemf("version %s: the terms of %v are open, and %q has the key", lease.ResourceVersion, open, holder)
			}
		}
	}
}

// operate is one operator after another, each of which dies after some write.
func (w *serialWork) operate(random *rand.Rand) {
	for {
		left, isDead := 30+random.IntN(120), false
		die := func(err error) error {
			if left--; left <= 0 {
				isDead = true
				return errors.Join(err, errDead)
			}
			return err
		}
		operator := w.another()
		under, ok := operator.Client.(client.WithWatch)
		if !ok {
			w.problemf("an operator's client is a %T", operator.Client)
			return
		}
		mortal := interceptor.NewClient(under, everyWrite(die))
		operator.Client = mortal
		keeper := &controller.KeyKeeper{Client: mortal, Live: admin, Clock: clock.RealClock{}}
		lease := types.NamespacedName{Namespace: w.namespace, Name: key.Name(key.Concurrency, "ledger")}
		for !isDead {
			if w.over() {
				return
			}
			for _, i := range random.Perm(len(w.tasks)) {
				if !isDead {
					_, _ = operator.Reconcile(w.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(w.tasks[i])})
				}
			}
			if !isDead {
				_, _ = keeper.Reconcile(w.Context(), ctrl.Request{NamespacedName: lease})
			}
			time.Sleep(10 * time.Millisecond) // for the cache
		}
		w.mu.Lock()
		w.deaths++
		w.mu.Unlock()
	}
}

func (w *serialWork) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isOver || len(w.problems) > 0 || w.Context().Err() != nil
}

// play is the work of all Pods: each claims, works for a moment, and submits.
func (w *serialWork) play() {
	defer func() {
		w.mu.Lock()
		w.isOver = true
		w.mu.Unlock()
	}()
	begun, atWork := map[string]bool{}, 0
	for range 3000 {
		if w.over() {
			return
		}
		list := &v1alpha1.LeasedTaskList{}
		w.ok(admin.List(w.Context(), list, client.InNamespace(w.namespace)))
		finished := 0
		for i := range list.Items {
			task := &list.Items[i]
			if pod := task.Status.Holder.PodName; task.Status.Phase == v1alpha1.PhaseClaimed && !begun[pod] {
				begun[pod] = true
				go w.work(task, &atWork)
			}
			if cluster.IsFinished(task) {
				finished++
			}
		}
		if finished == len(w.tasks) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.problemf("not all of them have finished")
}

func (w *serialWork) work(task *v1alpha1.LeasedTask, atWork *int) {
	a := w.agentOf(task)
	if a.claimTerm() != nil {
		return // it was revoked
	}
	count := func(by int) {
		w.mu.Lock()
		*atWork += by
		n := *atWork
		w.mu.Unlock()
		if n > 1 {
			w.problemf("%d workers are at work", n)
		}
	}
	count(1)
	time.Sleep(20 * time.Millisecond)
	count(-1)
	if err := a.submit(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted}); err != nil {
		w.problemf("the submission of %s is refused: %v", task.Name, err)
	}
}

// everyWrite lets each write through, and asks afterwards what comes of it.
func everyWrite(then func(error) error) interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return then(c.Create(ctx, o, opts...))
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return then(c.Update(ctx, o, opts...))
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return then(c.Patch(ctx, o, p, opts...))
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return then(c.Delete(ctx, o, opts...))
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return then(c.SubResource(sub).Patch(ctx, o, p, opts...))
		},
	}
}
