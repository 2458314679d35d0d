package controller

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/queue"
)

// epochOr is an EpochReader that has an epoch, or says why not.
type epochOr string

func (e epochOr) Read(context.Context, int64) (int64, error) {
	if e != "" {
		return 0, problemError(e)
	}
	return 1, nil
}

// epochAt is an EpochReader that has this one.
type epochAt int64

func (e epochAt) Read(context.Context, int64) (int64, error) { return int64(e), nil }

// atRevision is a client that says of each list how far the API server is, which the fake one does not.
type atRevision struct{ client.Client }

func (c atRevision) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Client.List(ctx, list, opts...)
	list.SetResourceVersion("999")
	return err
}

// TestARefusedGrantCostsTheQueueNothing, neither a start, for at a slow rate nobody else would ever start, nor another turn while the task
// would be refused again: each keeps those behind it from theirs.
func TestARefusedGrantCostsTheQueueNothing(t *testing.T) {
	for name, test := range map[string]struct {
		account string
		epoch   epochOr
		taken   bool          // the name of what the queue gives
		token   fencing.Token // that it had
		reason  string
		solve   func(*Reconciler, *appsv1.ControllerRevision) error
	}{
		"the epoch is missing": {epoch: "there is none", reason: v1alpha1.WaitingEpochMissing,
			solve: func(r *Reconciler, _ *appsv1.ControllerRevision) error { r.Epoch = epochOr(""); return nil }},
		"revisions went back": {token: 1<<fencing.EpochShift + 1<<40, reason: v1alpha1.WaitingEpochMissing,
			solve: func(r *Reconciler, _ *appsv1.ControllerRevision) error { r.Epoch = epochAt(2); return nil }},
		"its service account does not exist": {account: "missing", reason: v1alpha1.WaitingWorkerRole,
			solve: func(r *Reconciler, _ *appsv1.ControllerRevision) error {
				binding := bindingOfDefault()
				if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil {
					return err
				}
				binding.Subjects = append(binding.Subjects, account("missing"))
				return r.Client.Update(t.Context(), binding)
			}},
		"its revision cannot be kept": {taken: true, reason: v1alpha1.WaitingQueueRevision,
			solve: func(r *Reconciler, other *appsv1.ControllerRevision) error {
				return r.Client.Delete(t.Context(), other)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			ok := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			tq := &v1alpha1.TaskQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bulk"}, Spec: v1alpha1.TaskQueueSpec{
				Dispatch: v1alpha1.DispatchSpec{Rate: 1, PeriodSeconds: 3600}, Defaults: v1alpha1.TaskDefaults{StopGraceSeconds: 7}}}
			task := queuedTask("a", test.account)
			task.Status.FencingToken = int64(test.token)
			c := clientOfTasks(t, task, tq, bindingOfDefault())
			other := revisionOf(task, revisionNow(tq))
			if other.Data.Raw = []byte(`{}`); test.taken {
				ok(c.Create(t.Context(), other))
			}
			ok(c.Get(t.Context(), client.ObjectKeyFromObject(tq), tq))
			r, clock := passesWith(c)
			r.Epoch = test.epoch
			r.Live = atRevision{c}
			r.Turns.Learn(tq)
			clock.Step(time.Hour)
			pass := func() {
				_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(task)})
				ok(err)
			}
			waitsFor := func(when, reason string) {
				t.Helper()
				pass()
				ok(c.Get(t.Context(), client.ObjectKeyFromObject(task), task))
				if was := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionWaiting); was == nil || was.Reason != reason {
					t.Fatalf("%s it waits for %+v", when, was)
				}
			}
			waitsFor("at first", test.reason)
			next := queuedTask("b", "")
			if turn := r.Turns.Ask(next, tq); !turn.Admitted {
				t.Errorf("the next one is %+v, %+v", turn, turn.Waiting)
			}
			r.Turns.Leave(next)

			asked := 0
			r.Turns.TellWith(func(types.NamespacedName) { asked++ })
			if pass(); asked > 0 {
				t.Error("it asks for another turn, and would be refused again")
			}
			tq.Spec.Paused, tq.Generation = v1alpha1.PauseHold, 2
			ok(c.Update(t.Context(), tq))
			waitsFor("while its queue is paused", v1alpha1.WaitingQueuePaused)
			tq.Spec.Paused, tq.Generation = "", 3
			ok(c.Update(t.Context(), tq))
			waitsFor("when its queue goes on", test.reason)
			ok(test.solve(r, other))
			clock.Step(plan.RefusedRetry)
			asked = 0
			if pass(); asked == 0 {
				t.Error("it asks for no other turn, and would not be refused any more")
			}
		})
	}
}

// TestATurnFromBeforeTheBreakerOpenedIsNotGranted: the pass over the task came after that.
func TestATurnFromBeforeTheBreakerOpenedIsNotGranted(t *testing.T) {
	task, tq := queuedTask("a", ""), &v1alpha1.TaskQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bulk"},
		Spec: v1alpha1.TaskQueueSpec{Breaker: v1alpha1.BreakerSpec{SameFailures: 1}}}
	c := clientOfTasks(t, task, tq, bindingOfDefault())
	for _, o := range []client.Object{task, tq} {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
	}
	r, _ := passesWith(c)
	if turn := r.Turns.Ask(task, tq); !turn.Admitted {
		t.Fatalf("%+v", turn.Waiting)
	}
	r.Turns.Observe(queuedTask("b", ""), queue.Result{ID: "uid-b", Outcome: queue.Failed, Fingerprint: "x", Started: start})
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(task)}); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(task), task); err != nil {
		t.Fatal(err)
	}
	if was := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionWaiting); was == nil || was.Reason != v1alpha1.WaitingBreakerOpen {
		t.Errorf("it waits for %+v", was)
	}
	leases := &coordinationv1.LeaseList{}
	if err := c.List(t.Context(), leases); err != nil || len(leases.Items) > 0 {
		t.Errorf("%d Leases, %v", len(leases.Items), err)
	}
}

// passesWith makes passes over tasks, by a clock that stands still. The epoch is there.
func passesWith(c client.Client) (*Reconciler, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(start)
	turns := NewTurns(clock)
	turns.begin()
	return &Reconciler{Client: c, Live: c, Clock: clock, Events: events.NewFakeRecorder(10), Observer: NewObserver(clock, NewSight()),
		Turns: turns, Epoch: epochOr(""), Random: NewRandom()}, clock
}

// bindingOfDefault gives the worker role to the service account that Pods run under by default.
func bindingOfDefault() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: WorkerRole}, Subjects: []rbacv1.Subject{account("default")},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: WorkerRole}}
}

// queuedTask waits for nothing but its turn.
func queuedTask(name, account string) *v1alpha1.LeasedTask {
	return &v1alpha1.LeasedTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(start)},
		Spec: v1alpha1.LeasedTaskSpec{QueueName: "bulk", Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{ServiceAccountName: account,
			Containers: []corev1.Container{{Name: "c", Command: []string{"c"}}}}}},
		Status: v1alpha1.LeasedTaskStatus{Phase: v1alpha1.PhaseAvailable},
	}
}

// clientOfTasks is a client that passes over tasks can read from and write with.
func clientOfTasks(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.LeasedTask{}).
		WithIndex(&corev1.Pod{}, podsByTask, taskOfPod).Build()
}
