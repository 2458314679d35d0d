package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
)

// keyLease is the Lease of the concurrency key db, held by the task uid-0.
func keyLease(edits ...func(*key.Lock)) *coordinationv1.Lease {
	lock := key.Take(nil, key.Concurrency, "db", &key.Claimant{UID: "uid-0", Name: "task-0", Duration: 10 * time.Second}, start)
	for _, edit := range edits {
		edit(lock)
	}
	return lock.Lease("default")
}

// serialTask is a task with that key.
func serialTask(n int, edits ...func(*v1alpha1.LeasedTask)) *v1alpha1.LeasedTask {
	task := &v1alpha1.LeasedTask{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("task-%d", n), UID: types.UID(fmt.Sprintf("uid-%d", n)),
		CreationTimestamp: metav1.NewTime(start.Add(-time.Duration(n) * time.Minute))}}
	task.Spec.ConcurrencyKey, task.Status.Phase = "db", v1alpha1.PhaseAvailable
	for _, edit := range edits {
		edit(task)
	}
	return task
}

func ended(phase v1alpha1.Phase) func(*v1alpha1.LeasedTask) {
	return func(task *v1alpha1.LeasedTask) { task.Status.Phase = phase }
}

func clientWith(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{coordinationv1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&v1alpha1.LeasedTask{}, tasksByKey, keysWanted).WithIndex(&v1alpha1.LeasedTask{}, tasksByQueue, queueWanted).
		WithIndex(&coordinationv1.Lease{}, keysByLetter, lettersOf).Build()
}

// TestWhoIsWoken: a free key wakes the eight that have waited longest and can take it, an answer and a block all, a new
// holder nobody.
func TestWhoIsWoken(t *testing.T) {
	objects := []client.Object{
		serialTask(0, ended(v1alpha1.PhaseCompleted)),
		serialTask(20, func(task *v1alpha1.LeasedTask) { task.Spec.Suspend = new(true) }), // older than all that wait
		serialTask(21, func(task *v1alpha1.LeasedTask) { task.Spec.ConcurrencyKey = "other" }),
		serialTask(22, func(task *v1alpha1.LeasedTask) { task.Namespace = "elsewhere" }),
		serialTask(23, ended(v1alpha1.PhaseRunning)), // the holder, where one matters
	}
	var all []string
	for n := 10; n > 0; n-- {
		objects = append(objects, serialTask(n))
		all = append(all, fmt.Sprintf("task-%d", n))
	}
	r := &Reconciler{Client: clientWith(t, objects...), Clock: clocktesting.NewFakeClock(start)}
	update := func(after *coordinationv1.Lease) func(*wakes) {
		return func(q *wakes) {
			r.wakeWaiters().Update(t.Context(), event.UpdateEvent{ObjectOld: keyLease(), ObjectNew: after}, q)
		}
	}
	gone := func(lease client.Object) func(*wakes) {
		return func(q *wakes) { r.wakeWaiters().Delete(t.Context(), event.DeleteEvent{Object: lease}, q) }
	}
	unlabelled := keyLease()
	delete(unlabelled.Labels, key.Label)
	spoilt := keyLease()
	spoilt.Annotations[key.ValueAnnotation] = "spoilt"
	asked := func(name string, seconds int, edits ...func(*key.Lock)) *coordinationv1.Lease {
		return keyLease(append([]func(*key.Lock){func(l *key.Lock) {
			l.Newest = &key.Contender{Task: name, UID: "uid-of-" + name, Created: metav1.NewTime(start.Add(time.Duration(seconds) * time.Second))}
		}}, edits...)...)
	}
	free := func(l *key.Lock) { l.Holder = "" }
	from := func(before, after *coordinationv1.Lease) func(*wakes) {
		return func(q *wakes) {
			r.wakeWaiters().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		}
	}
	tests := map[string]struct {
		happens func(*wakes)
		want    []string
	}{
		"asked for by the newest":       {update(asked("new", 0, func(l *key.Lock) { l.Holder = "uid-23" })), append([]string{"task-23"}, all...)},
		"asked for by one in between":   {update(asked("new", -350)), all[:5]},
		"asked for, and nothing else":   {from(asked("new", 0), asked("new", 0, func(l *key.Lock) { l.BlockedBy = []string{"dl"} })), nil},
		"promised":                      {from(asked("new", 0), asked("new", 0, free)), []string{"new"}},
		"taken by whom it was promised": {from(asked("new", 0, free), asked("new", 0)), nil},
		"taken by a newer one":          {from(asked("old", -350, free), asked("new", -290, free)), all[:6]},
		"blocked, and asked for":        {update(asked("new", 0, free, func(l *key.Lock) { l.BlockedBy = []string{"dl"} })), all},
		"made by one that replaces":     {func(q *wakes) { r.wakeWaiters().Create(t.Context(), event.CreateEvent{Object: asked("new", -350)}, q) }, all[:5]},
		"freed":                         {gone(keyLease()), all[:wokenAtOnce]},
		"blocked":                       {update(keyLease(func(l *key.Lock) { l.Holder, l.BlockedBy = "", []string{"dl"} })), all},
		"taken by another":              {update(keyLease(func(l *key.Lock) { l.Holder = "uid-9" })), nil},
		"spoilt":                        {update(spoilt), all[:wokenAtOnce]},
		"a term Lease is deleted":       {gone(claimedLease()), nil},
		"a term Lease is renewed":       {update(claimedLease(renewed)), nil},
		"its label was removed":         {update(unlabelled), nil}, // the cache says that as a deletion
		"made":                          {func(q *wakes) { r.wakeWaiters().Create(t.Context(), event.CreateEvent{Object: keyLease()}, q) }, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			q := &wakes{}
			test.happens(q)
			if diff := cmp.Diff(test.want, q.names); diff != "" {
				t.Errorf("woken (-want +got):\n%s", diff)
			}
		})
	}
}

// wakes notes what is added to it.
type wakes struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	names []string
}

func (q *wakes) Add(r reconcile.Request) { q.names = append(q.names, r.Name) }
func (q *wakes) AddAfter(r reconcile.Request, d time.Duration) {
	q.names = append(q.names, r.Name+" "+d.String())
}

func TestWhatTheKeeperIsToldOf(t *testing.T) {
	was, task := serialTask(0), serialTask(0, ended(v1alpha1.PhaseCancelled))
	letter := &v1alpha1.DeadLetter{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "dl-1"}}
	discarded := letter.DeepCopy()
	discarded.Spec.Discard.Reason = "not needed"
	anew := serialTask(0, func(task *v1alpha1.LeasedTask) { task.UID = "uid-9" })
	for name, test := range map[string]struct{ got, want bool }{
		"a task that ends":         {endsOfTasks.Update(event.UpdateEvent{ObjectOld: was, ObjectNew: task}), true},
		"a task that goes on":      {endsOfTasks.Update(event.UpdateEvent{ObjectOld: was, ObjectNew: was}), false},
		"a task that has ended":    {endsOfTasks.Update(event.UpdateEvent{ObjectOld: task, ObjectNew: task}), false},
		"a task made anew":         {endsOfTasks.Update(event.UpdateEvent{ObjectOld: was, ObjectNew: anew}), true},
		"a new task":               {endsOfTasks.Create(event.CreateEvent{Object: was}), false},
		"a task that is gone":      {endsOfTasks.Delete(event.DeleteEvent{Object: was}), true},
		"a dead letter":            {endsOfLetters.Create(event.CreateEvent{Object: letter}), false},
		"one that changes":         {endsOfLetters.Update(event.UpdateEvent{ObjectOld: letter, ObjectNew: letter}), false},
		"one that is discarded":    {endsOfLetters.Update(event.UpdateEvent{ObjectOld: letter, ObjectNew: discarded}), true},
		"one that was discarded":   {endsOfLetters.Update(event.UpdateEvent{ObjectOld: discarded, ObjectNew: discarded}), false},
		"one that is gone":         {endsOfLetters.Delete(event.DeleteEvent{Object: letter}), true},
		"a key Lease":              {isKeyLease(keyLease()), true},
		"a term Lease":             {isKeyLease(claimedLease()), false},
		"something else as a task": {endsOfTasks.Update(event.UpdateEvent{ObjectOld: &corev1.Pod{}, ObjectNew: &corev1.Pod{}}), false},
	} {
		if test.got != test.want {
			t.Errorf("%s: %t, want %t", name, test.got, test.want)
		}
	}
	want := []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "default", Name: key.Name(key.Concurrency, "db")}}}
	if diff := cmp.Diff(want, (&KeyKeeper{}).keysOfTask(t.Context(), task)); diff != "" {
		t.Errorf("keys of a task (-want +got):\n%s", diff)
	}
	blocked := keyLease(func(l *key.Lock) { l.Holder, l.BlockedBy = "", []string{"dl-2", "dl-1"} })
	k := &KeyKeeper{Client: clientWith(t, blocked)}
	if diff := cmp.Diff(want, k.keysOfLetter(t.Context(), letter)); diff != "" {
		t.Errorf("keys of a dead letter (-want +got):\n%s", diff)
	}
}

// TestTheKeeperTellsTasksOfOneNameApart, waits its time, and forgets what it has seen.
func TestTheKeeperTellsTasksOfOneNameApart(t *testing.T) {
	c := clientWith(t, keyLease(), serialTask(0, func(task *v1alpha1.LeasedTask) { task.UID = "uid-9" })) // made anew, and at work
	clock := clocktesting.NewFakeClock(start)
	k := &KeyKeeper{Client: c, Live: c, Clock: clock}
	name := types.NamespacedName{Namespace: "default", Name: key.Name(key.Concurrency, "db")}
	pass := func() ctrl.Result {
		t.Helper()
		result, err := k.Reconcile(t.Context(), ctrl.Request{NamespacedName: name})
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if r := pass(); r.RequeueAfter != 10*time.Second {
		t.Errorf("look again in %s", r.RequeueAfter)
	}
	clock.Step(9 * time.Second)
	if r := pass(); r.RequeueAfter != time.Second {
		t.Errorf("look again in %s", r.RequeueAfter)
	}
	clock.Step(time.Second)
	pass()
	if err := c.Get(context.Background(), name, &coordinationv1.Lease{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the key is still held: %v", err)
	}
	pass()
	if len(k.holders.gone) > 0 {
		t.Errorf("it remembers %v", k.holders.gone)
	}
}

// TestTheKeeperDoesNotWaitForAHolderThatItSawFinish: a task with a time to live of zero is gone by the time of the pass.
func TestTheKeeperDoesNotWaitForAHolderThatItSawFinish(t *testing.T) {
	for phase, isFreed := range map[v1alpha1.Phase]bool{v1alpha1.PhaseCompleted: true, v1alpha1.PhaseCancelled: true, v1alpha1.PhaseRunning: false} {
		c := clientWith(t, keyLease())
		k := &KeyKeeper{Client: c, Live: c, Clock: clocktesting.NewFakeClock(start)}
		requests := k.keysOfTask(t.Context(), serialTask(0, ended(phase)))
		_ = k.keysOfTask(t.Context(), serialTask(1, ended(v1alpha1.PhaseCancelled))) // and so is one that waited
		for _, request := range requests {
			if _, err := k.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), request.NamespacedName, &coordinationv1.Lease{}); (err != nil) != isFreed {
				t.Errorf("%s: %v, want freed: %t", phase, err, isFreed)
			}
		}
		if isFreed && len(k.holders.ended) > 0 {
			t.Errorf("it remembers %v", k.holders.ended)
		}
	}
	// Another task that ended says nothing of the holder.
	c := clientWith(t, keyLease())
	k := &KeyKeeper{Client: c, Live: c, Clock: clocktesting.NewFakeClock(start)}
	for _, request := range k.keysOfTask(t.Context(), serialTask(1, ended(v1alpha1.PhaseCompleted))) {
		if result, err := k.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != 10*time.Second {
			t.Errorf("look again in %s: %v", result.RequeueAfter, err)
		}
	}
}

// TestTheKeeperRemembersNoMoreEndsThanItNeeds: a key may be held, or answered, for a long time, in which any number of tasks want it and
// end: rejected, superseded, attached. How its holder ended is remembered all the same.
func TestTheKeeperRemembersNoMoreEndsThanItNeeds(t *testing.T) {
	answered := func(l *key.Lock) {
		l.Kind, l.Holder, l.Answer = key.Idempotency, "", &key.Answer{Task: "task-0", TaskUID: "uid-0", Time: metav1.NewTime(start), RetentionSeconds: 3600}
	}
	wants := func(kind key.Kind) func(*v1alpha1.LeasedTask) {
		return func(task *v1alpha1.LeasedTask) {
			if kind == key.Idempotency {
				task.Spec.ConcurrencyKey, task.Spec.IdempotencyKey = "", "db"
			}
		}
	}
	tests := map[string]struct {
		kind  key.Kind
		world []client.Object
	}{
		"held":                     {key.Concurrency, []client.Object{keyLease(), serialTask(0)}},
		"held, and nobody is left": {key.Concurrency, []client.Object{keyLease()}},
		"answered":                 {key.Idempotency, []client.Object{keyLease(answered)}},
		"not ours any more":        {key.Concurrency, []client.Object{spoiltKey()}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := clientWith(t, test.world...)
			k := &KeyKeeper{Client: c, Live: c, Clock: clocktesting.NewFakeClock(start)}
			for n := range 50 {
				for _, request := range k.keysOfTask(t.Context(), serialTask(n+1, wants(test.kind), ended(v1alpha1.PhaseCancelled))) {
					if _, err := k.Reconcile(t.Context(), request); err != nil {
						t.Fatal(err)
					}
				}
			}
			if len(k.holders.ended) > 0 {
				t.Errorf("it remembers %d keys: %v", len(k.holders.ended), k.holders.ended)
			}
		})
	}

	holder := serialTask(0) // the cache still has it at work
	c := clientWith(t, keyLease(), holder)
	k := &KeyKeeper{Client: c, Live: c, Clock: clocktesting.NewFakeClock(start)}
	_ = k.keysOfTask(t.Context(), serialTask(0, ended(v1alpha1.PhaseCancelled)))
	request := ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: key.Name(key.Concurrency, "db")}}
	for _, then := range []func() error{func() error { return c.Delete(t.Context(), holder) }, func() error { return nil }} {
		_ = k.keysOfTask(t.Context(), serialTask(1, ended(v1alpha1.PhaseCancelled)))
		if _, err := k.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if err := then(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Get(t.Context(), request.NamespacedName, &coordinationv1.Lease{}); !apierrors.IsNotFound(err) {
		t.Errorf("the key is still held: %v", err)
	}
}

// spoiltKey is a key's Lease that somebody took the key from.
func spoiltKey() *coordinationv1.Lease {
	lease := keyLease()
	lease.Annotations = nil
	return lease
}

// TestARefusedKeyIsNotTriedAgainAtOnce: also if the refusal reads differently each time, and so is written to the status each time.
func TestARefusedKeyIsNotTriedAgainAtOnce(t *testing.T) {
	tries := 0
	c := interceptor.NewClient(nil, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		tries++
		return apierrors.NewForbidden(coordinationv1.Resource("leases"), "lh-key-1", fmt.Errorf("denied, request %d", tries))
	}})
	clock := clocktesting.NewFakeClock(start)
	r := &Reconciler{Client: c, Clock: clock}
	s := &plan.Snapshot{Task: serialTask(0)}
	pass := func() int {
		t.Helper()
		lock := key.Take(nil, key.Concurrency, "db", &key.Claimant{UID: "uid-0", Name: "task-0"}, start)
		if refusal, err := r.writeKey(t.Context(), s, lock); !strings.Contains(refusal, fmt.Sprintf("request %d", tries)) || err != nil {
			t.Fatalf("refusal %q, error %v", refusal, err)
		}
		return tries
	}
	pass()
	clock.Step(plan.RefusedRetry - time.Millisecond)
	if n := pass(); n != 1 {
		t.Errorf("two passes tried %d times", n)
	}
	clock.Step(time.Millisecond)
	if n := pass(); n != 2 {
		t.Errorf("not tried again: %d", n)
	}
}
