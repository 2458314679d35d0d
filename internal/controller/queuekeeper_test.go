package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/queue"
)

// keeperWorld is a keeper of the queue bulk, with a fake API server.
type keeperWorld struct {
	*turnsWorld
	*QueueKeeper
	recorder *events.FakeRecorder
}

func newKeeper(t *testing.T, w *turnsWorld) *keeperWorld {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w.queue.ResourceVersion = ""
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.queue).WithStatusSubresource(w.queue).Build()
	k := &keeperWorld{turnsWorld: w, recorder: events.NewFakeRecorder(10)}
	k.QueueKeeper = &QueueKeeper{Client: c, Clock: w.clock, Events: k.recorder, Turns: w.Turns, Pause: 5 * time.Second}
	return k
}

// pass is a pass over the queue, and its status after it.
func (k *keeperWorld) pass() (v1alpha1.TaskQueueStatus, time.Duration) {
	k.Helper()
	result, err := k.Reconcile(k.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(k.queue)})
	if err != nil {
		k.Fatal(err)
	}
	if err := k.Client.Get(k.Context(), client.ObjectKeyFromObject(k.queue), k.queue); client.IgnoreNotFound(err) != nil {
		k.Fatal(err)
	}
	return k.queue.Status, result.RequeueAfter
}

func TestAStatusIsWrittenAtMostOnceInAPause(t *testing.T) {
	k := newKeeper(t, newTurns(t, 1))
	status, again := k.pass()
	if *status.Pending != 0 || *status.Running != 0 || again != 0 {
		t.Fatalf("%+v, again in %s", status, again)
	}
	k.asks("a", "b", "c")
	k.clock.Step(2 * time.Second)
	if status, again = k.pass(); *status.Pending != 0 || again != 3*time.Second {
		t.Errorf("within the pause: %+v, again in %s", status, again)
	}
	k.clock.Step(3 * time.Second)
	if status, again = k.pass(); *status.Pending != 2 || *status.Running != 1 || again != 0 {
		t.Errorf("after it: %+v, again in %s", status, again)
	}
	version := k.queue.ResourceVersion
	k.clock.Step(time.Minute)
	if k.pass(); k.queue.ResourceVersion != version {
		t.Error("a queue in which nothing has changed is written")
	}
}

// TestAStatusThatCannotBeWrittenDelaysNoStart: the pauses of a rate are those of the passes over the queue.
func TestAStatusThatCannotBeWrittenDelaysNoStart(t *testing.T) {
	w := newTurns(t, 0)
	w.queue.Spec.Dispatch = v1alpha1.DispatchSpec{Rate: 1, PeriodSeconds: 2, Algorithm: v1alpha1.RateLeakyBucket}
	k := newKeeper(t, w)
	k.Client = interceptor.NewClient(k.Client.(client.WithWatch), interceptor.Funcs{SubResourcePatch: func(
		context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
		return errors.New("not now")
	}})
	k.pass()
	k.asks("a", "b")
	for range 3 {
		_, again := k.pass()
		k.clock.Step(again)
	}
	k.wants("woken", []string{"a", "b"}, k.woken)
}

func TestTheSeriesOfAQueueGoWithIt(t *testing.T) {
	k := newKeeper(t, newTurns(t, 1))
	k.asks("a", "b")
	k.pass()
	want := map[string]float64{"leasehold_queue_pending": 1, "leasehold_queue_running": 1, "leasehold_queue_oldest_pending_timestamp_seconds": float64(start.Unix())}
	if diff := cmp.Diff(want, seriesOf(t, "bulk")); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	if err := k.Client.Delete(t.Context(), k.queue); err != nil {
		t.Fatal(err)
	}
	k.pass()
	if left := seriesOf(t, "bulk"); len(left) > 0 {
		t.Errorf("series of a queue that is gone: %v", left)
	}
}

func seriesOf(t *testing.T, queue string) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if isOf(m, queue) {
				found[f.GetName()] = m.GetGauge().GetValue()
			}
		}
	}
	return found
}

func isOf(m *dto.Metric, queue string) bool {
	for _, l := range m.GetLabel() {
		if l.GetName() == "queue" && l.GetValue() == queue {
			return true
		}
	}
	return false
}

// TestAnOpenBreakerOutlivesItsOperator: its state is written at once, within the pause too, and the next operator goes on from it.
func TestAnOpenBreakerOutlivesItsOperator(t *testing.T) {
	w := newTurns(t, 2)
	w.queue.Spec.Breaker = v1alpha1.BreakerSpec{SameFailures: 2, OpenSeconds: 60}
	k := newKeeper(t, w)
	k.pass()
	<-newsOf(k.recorder)
	w.asks("a", "b", "c")
	for _, name := range []string{"a", "b"} {
		w.Observe(w.task(name), queue.Result{ID: "uid of " + name, Outcome: queue.Failed, Fingerprint: "abc", Started: start})
		w.See(w.is(name, v1alpha1.PhaseRunning), nil)
		w.See(w.is(name, v1alpha1.PhaseDeadLettered), nil)
	}
	w.woken = nil
	status, again := k.pass()
	if status.Breaker.State != "Open" || status.Breaker.Fingerprint != "abc" || again != time.Minute {
		t.Errorf("breaker %+v, again in %s", status.Breaker, again)
	}
	if news := <-newsOf(k.recorder); news == "" {
		t.Error("nobody is told")
	}

	next := newTurns(t, 2)
	next.clock.Step(30 * time.Second)
	next.queue = k.queue
	if next.wants("let start by the next operator", nil, next.asks("c")); next.Ask(next.task("c"), next.queue).Waiting.Reason != queue.BreakerOpen {
		t.Error("it is not told why")
	}
	if _, again := next.Learn(next.queue); again != 30*time.Second {
		t.Errorf("again in %s", again)
	}
	next.clock.Step(30 * time.Second)
	next.Learn(next.queue)
	next.wants("the one that tries", []string{"c"}, next.woken)
}

// newsOf is the next event, or nothing if there is none.
func newsOf(recorder *events.FakeRecorder) <-chan string {
	news := make(chan string, 1)
	select {
	case e := <-recorder.Events:
		news <- e
	default:
		news <- ""
	}
	return news
}

// TestWhoIsAskedToLookAgainWhenAQueueChanges: those that run at once, the others one after the other.
func TestWhoIsAskedToLookAgainWhenAQueueChanges(t *testing.T) {
	w := newTurns(t, 1)
	objects := []client.Object{w.is("waits", v1alpha1.PhaseAvailable), w.is("waits-too", v1alpha1.PhaseAvailable), w.is("runs", v1alpha1.PhaseRunning), w.is("done", v1alpha1.PhaseCompleted)}
	elsewhere := w.is("elsewhere", v1alpha1.PhaseAvailable)
	elsewhere.Spec.QueueName = "other"
	for _, o := range append(objects, elsewhere) {
		o.SetResourceVersion("")
	}
	r := &Reconciler{Client: clientWith(t, append(objects, elsewhere)...)}
	changed := w.queue.DeepCopy()
	changed.Generation++
	again := w.queue.DeepCopy()
	again.UID = "another"
	written := w.queue.DeepCopy()
	written.Status.Pending = new(int32(1))
	written.ManagedFields = []metav1.ManagedFieldsEntry{}
	all := []string{"runs", "waits 0s", "waits-too 10ms"}
	tests := map[string]struct {
		happens func(q *wakes)
		want    []string
	}{
		"made": {func(q *wakes) { r.wakeQueued().Create(t.Context(), event.CreateEvent{Object: w.queue}, q) }, all},
		"listed": {func(q *wakes) {
			r.wakeQueued().Create(t.Context(), event.CreateEvent{Object: w.queue, IsInInitialList: true}, q)
		}, nil},
		"deleted": {func(q *wakes) { r.wakeQueued().Delete(t.Context(), event.DeleteEvent{Object: w.queue}, q) }, all},
		"changed": {func(q *wakes) {
			r.wakeQueued().Update(t.Context(), event.UpdateEvent{ObjectOld: w.queue, ObjectNew: changed}, q)
		}, all},
		"made anew": {func(q *wakes) {
			r.wakeQueued().Update(t.Context(), event.UpdateEvent{ObjectOld: w.queue, ObjectNew: again}, q)
		}, all},
		"its status": {func(q *wakes) {
			r.wakeQueued().Update(t.Context(), event.UpdateEvent{ObjectOld: w.queue, ObjectNew: written}, q)
		}, nil},
		"another made": {func(q *wakes) {
			r.wakeQueued().Create(t.Context(), event.CreateEvent{Object: &v1alpha1.TaskQueue{}}, q)
		}, nil},
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
