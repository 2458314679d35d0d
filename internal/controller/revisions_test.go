package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// mailQueue is a queue with a template.
func mailQueue(grace int32) *v1alpha1.TaskQueue {
	return &v1alpha1.TaskQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mail"}, Spec: v1alpha1.TaskQueueSpec{
		Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "a<b&c", Command: []string{"/app"}}}}},
		Defaults: v1alpha1.TaskDefaults{StopGraceSeconds: grace},
	}}
}

// mailTask is a task of it that has the given revision on record.
func mailTask(name, revision string) *v1alpha1.LeasedTask {
	task := &v1alpha1.LeasedTask{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec: v1alpha1.LeasedTaskSpec{QueueName: "mail"}}
	if revision != "" {
		task.Status = v1alpha1.LeasedTaskStatus{Phase: v1alpha1.PhaseCompleted, Attempt: 1, QueueRevision: revision}
	}
	return task
}

func revisionNow(queue *v1alpha1.TaskQueue) *plan.Revision {
	return plan.RevisionOf(queue.Name, plan.GivenBy(&queue.Spec))
}

// store is an API server, and a cache of it, with the kinds that queues are about.
func store(t *testing.T, on interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(on).
		WithIndex(&v1alpha1.LeasedTask{}, tasksByRevision, revisionOnRecord).
		WithIndex(&appsv1.ControllerRevision{}, revisionsByQueue, queueOfRevision).Build()
}

// TestWhatAQueueGivesIsReadFromWhereItIsFixed: the queue itself counts before the first grant alone.
func TestWhatAQueueGivesIsReadFromWhereItIsFixed(t *testing.T) {
	then, today := mailQueue(7), mailQueue(9)
	fixed := revisionNow(then)
	kept := revisionOf(mailTask("any", ""), fixed)
	tests := map[string]struct {
		task      *v1alpha1.LeasedTask
		cached    []client.Object
		live      []client.Object
		grace     int32 // that the queue gives; 0: it gives nothing
		isMissing bool
		isLost    bool
	}{
		"no grant yet":                     {task: mailTask("a", ""), live: []client.Object{today, kept}, cached: []client.Object{then, kept}, grace: 9},
		"no grant yet, and no queue":       {task: mailTask("a", ""), isMissing: true},
		"granted":                          {task: mailTask("a", fixed.Name), live: []client.Object{today}, cached: []client.Object{kept}, grace: 7},
		"granted, which the cache is late": {task: mailTask("a", fixed.Name), live: []client.Object{today, kept}, grace: 7},
		"granted, and the queue is gone":   {task: mailTask("a", fixed.Name), live: []client.Object{kept}, grace: 7},
		"the revision is gone":             {task: mailTask("a", fixed.Name), live: []client.Object{then}, cached: []client.Object{then}, isLost: true},
		"granted with nothing from the queue, which has something by now": {task: mailTask("a", ""), live: []client.Object{today}},
		"of no queue": {task: mailTask("a", ""), live: []client.Object{today}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			switch {
			case strings.HasPrefix(name, "granted with nothing"):
				test.task.Status.Attempt = 1
			case name == "of no queue":
				test.task.Spec.QueueName = ""
			}
			r := &Reconciler{Client: store(t, interceptor.Funcs{}, test.cached...), Live: store(t, interceptor.Funcs{}, test.live...)}
			queue, err := readQueue(t.Context(), r.Live, test.task)
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.sourceOf(t.Context(), test.task, queue)
			if err != nil || got.IsMissing != test.isMissing || got.IsLost != test.isLost {
				t.Fatalf("%v: missing %t, lost %t", err, got.IsMissing, got.IsLost)
			}
			grace := int32(0)
			if got.Given != nil {
				grace = got.Given.Defaults.StopGraceSeconds
			}
			if grace != test.grace {
				t.Errorf("the queue gives %d s, want %d", grace, test.grace)
			}
		})
	}
}

// TestWhatEachAnswerMakesOfARevision: what stands under the name is taken if it says the same; a refusal is shown, and not asked for
// again at once.
func TestWhatEachAnswerMakesOfARevision(t *testing.T) {
	want := revisionNow(mailQueue(7))
	other := revisionOf(mailTask("a", ""), want)
	other.Data.Raw = []byte(`{}`)
	unlabelled := revisionOf(mailTask("a", ""), want)
	quota := apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}, want.Name, errors.New("exceeded quota"))
	tests := map[string]struct {
		cached  []client.Object
		live    []client.Object
		answer  error
		refusal string // part of it
		isError bool
		creates int
	}{
		"made":                              {creates: 1},
		"made before":                       {cached: []client.Object{unlabelled.DeepCopy()}},
		"made a moment ago":                 {live: []client.Object{unlabelled.DeepCopy()}, creates: 1},
		"something else stands there":       {live: []client.Object{other}, refusal: "says something else: delete it", creates: 1},
		"no room in the quota":              {answer: quota, refusal: "exceeded quota", creates: 1},
		"the API server is not up to it":    {answer: apierrors.NewServiceUnavailable("x"), isError: true, creates: 2},
		"there was no answer from anywhere": {answer: context.DeadlineExceeded, isError: true, creates: 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			creates := 0
			live := store(t, interceptor.Funcs{}, test.live...)
			c := store(t, interceptor.Funcs{Create: func(ctx context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
				creates++
				if test.answer != nil {
					return test.answer
				}
				return live.Create(ctx, o)
			}}, test.cached...)
			r := &Reconciler{Client: c, Live: live, Clock: clocktesting.NewFakeClock(start)}
			for range 2 {
				refusal, err := r.keepRevision(t.Context(), mailTask("a", ""), want)
				if (err != nil) != test.isError || (refusal != "") != (test.refusal != "") || !strings.Contains(refusal, test.refusal) {
					t.Fatalf("refusal %q, error %v", refusal, err)
				}
				if test.creates == 1 && test.refusal == "" {
					break
				}
			}
			if creates != test.creates {
				t.Errorf("%d creations, want %d", creates, test.creates)
			}
		})
	}
}

// TestARevisionGoesOnceNobodyNeedsIt: neither its queue, nor a task, finished or not; and not before that was so for a while.
func TestARevisionGoesOnceNobodyNeedsIt(t *testing.T) {
	then, today := mailQueue(7), mailQueue(9)
	revision := revisionOf(mailTask("any", ""), revisionNow(then))
	tests := map[string]struct {
		cached, live []client.Object
		goes         bool
	}{
		"the queue gives it": {cached: []client.Object{then}, live: []client.Object{then}},
		"a task has it":      {cached: []client.Object{today, mailTask("a", revision.Name)}, live: []client.Object{today, mailTask("a", revision.Name)}},
		"a task has it, which the cache does not show":    {cached: []client.Object{today}, live: []client.Object{today, mailTask("a", revision.Name)}},
		"the queue gives it again, which is news":         {cached: []client.Object{today}, live: []client.Object{then}},
		"a task has it, and the queue is gone":            {cached: []client.Object{mailTask("a", revision.Name)}, live: []client.Object{mailTask("a", revision.Name)}},
		"nobody needs it":                                 {cached: []client.Object{today, mailTask("a", "mail-x")}, live: []client.Object{today, mailTask("a", "mail-x")}, goes: true},
		"nobody needs it, and the queue is gone":          {goes: true},
		"the queue gives nothing any more, nor is it had": {cached: []client.Object{emptyQueue()}, live: []client.Object{emptyQueue()}, goes: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			deleted := false
			c := store(t, interceptor.Funcs{Delete: func(_ context.Context, _ client.WithWatch, o client.Object, options ...client.DeleteOption) error {
				o2 := (&client.DeleteOptions{}).ApplyOptions(options)
				deleted = o.GetName() == revision.Name && o2.Preconditions != nil && *o2.Preconditions.UID == "r-1" && o2.Preconditions.ResourceVersion != nil
				return nil
			}}, append(test.cached, withUID(revision, "r-1"))...)
			clock := clocktesting.NewFakeClock(start)
			k := &RevisionKeeper{Client: c, Live: store(t, interceptor.Funcs{}, test.live...), Clock: clock, Patience: time.Minute}
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(revision)}
			for _, pause := range []time.Duration{time.Hour, 0, time.Minute - 1} { // it is marked, its mark is seen, and not for long enough
				clock.Step(pause)
				if _, err := k.Reconcile(t.Context(), request); err != nil || deleted {
					t.Fatalf("%v: deleted after %s: %t", err, pause, deleted)
				}
			}
			clock.Step(1)
			if _, err := k.Reconcile(t.Context(), request); err != nil || deleted != test.goes {
				t.Errorf("%v: deleted: %t, want %t", err, deleted, test.goes)
			}
		})
	}
}

// TestARevisionThatItsQueueGivesAgainStays: A, then B, then A: a pass chooses what is about to be deleted, at any time before it is.
func TestARevisionThatItsQueueGivesAgainStays(t *testing.T) {
	then, today := mailQueue(7), mailQueue(9)
	want := revisionNow(then)
	name := types.NamespacedName{Namespace: "default", Name: want.Name}
	for when, passes := range map[string]int{"before it is marked": 1, "before its mark is seen": 2, "while it waits": 3, "after the last look at all tasks": 4} {
		t.Run(when, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(start)
			c := store(t, interceptor.Funcs{}, today.DeepCopy(), withUID(revisionOf(mailTask("any", ""), want), "r-1"))
			r := &Reconciler{Client: c, Live: c, Clock: clock}
			pass, isChosen := 0, false
			choose := func() {
				if isChosen || pass != passes {
					return
				}
				isChosen = true
				queue := &v1alpha1.TaskQueue{}
				err := c.Get(t.Context(), client.ObjectKeyFromObject(today), queue)
				queue.Spec = then.Spec
				if err = errors.Join(err, c.Update(t.Context(), queue)); err != nil {
					t.Fatal(err)
				}
				if refusal, err := r.keepRevision(t.Context(), mailTask("a", ""), want); refusal != "" || err != nil {
					t.Fatalf("refused %q: %v", refusal, err)
				}
			}
			// What the keeper sees was so before the choice, and what it does comes after.
			late := interceptor.NewClient(c, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
					choose()
					return c.Patch(ctx, o, patch, options...)
				},
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
					choose()
					return c.Delete(ctx, o, options...)
				}})
			k := &RevisionKeeper{Client: late, Live: c, Clock: clock, Patience: time.Minute}
			for pass = 1; pass <= 8; pass++ {
				if _, err := k.Reconcile(t.Context(), ctrl.Request{NamespacedName: name}); err != nil {
					t.Fatal(err)
				}
				choose()
				clock.Step(30 * time.Second)
			}
			if err := c.Get(t.Context(), name, &appsv1.ControllerRevision{}); err != nil || !isChosen {
				t.Errorf("chosen: %t, %v", isChosen, err)
			}
		})
	}
}

// TestWhoNeedsARevisionTakesItsMarkAway, and loses no race: against its deletion, or somebody else's write, the next pass decides.
func TestWhoNeedsARevisionTakesItsMarkAway(t *testing.T) {
	want := revisionNow(mailQueue(7))
	marked := revisionOf(mailTask("any", ""), want)
	marked.Annotations[v1alpha1.RetiringAnnotation] = "true"
	gr := schema.GroupResource{Group: "apps", Resource: "controllerrevisions"}
	tests := map[string]struct {
		answer  error
		isLost  bool
		isError bool
		refusal string
	}{
		"taken away":                       {},
		"it is gone":                       {answer: apierrors.NewNotFound(gr, want.Name), isLost: true},
		"somebody was first":               {answer: apierrors.NewConflict(gr, want.Name, errors.New("x")), isLost: true},
		"it is forbidden":                  {answer: apierrors.NewForbidden(gr, want.Name, errors.New("no right")), refusal: "no right"},
		"the API server is not up to this": {answer: apierrors.NewServiceUnavailable("x"), isError: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := store(t, interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
				if test.answer != nil {
					return test.answer
				}
				return c.Patch(ctx, o, patch, options...)
			}}, marked.DeepCopy())
			r := &Reconciler{Client: c, Live: c, Clock: clocktesting.NewFakeClock(start)}
			refusal, err := r.keepRevision(t.Context(), mailTask("a", ""), want)
			if (refusal != "") != (test.refusal != "") || !strings.Contains(refusal, test.refusal) || isLost(err) != test.isLost || (err != nil) != (test.isLost || test.isError) {
				t.Errorf("refused %q: %v", refusal, err)
			}
			left := &appsv1.ControllerRevision{}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(marked), left); err != nil || isRetiring(left) != (test.answer != nil) {
				t.Errorf("marked: %t, %v", isRetiring(left), err)
			}
		})
	}
}

func emptyQueue() *v1alpha1.TaskQueue {
	return &v1alpha1.TaskQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mail"}}
}

func withUID(r *appsv1.ControllerRevision, uid types.UID) *appsv1.ControllerRevision {
	next := r.DeepCopy()
	next.UID = uid
	return next
}
