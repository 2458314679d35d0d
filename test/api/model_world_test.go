package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// modelNamespace is the one that the running operator of these tests does not see.
const modelNamespace = "model"

// world is what one seed makes: tasks, an operator that is driven by hand, its rival, workers, and a clock that everybody goes by.
// All happens in one goroutine, so that the seed alone says what happens in which order.
type world struct {
	ctx    context.Context
	seed   uint64
	random *rand.Rand
	under  client.WithWatch // the API server
	asPod  func(*worker, []byte) (*coordinationv1.Lease, error)
	books  *ledgers
	clock  *clocktesting.FakeClock

	operators [2]*operator // the leader, and one that believes that it is
	keeper    *controller.KeyKeeper
	tasks     []*modelTask
	workers   []*worker
	isOver    map[int64]bool // tokens of attempts that are on record as over

	trace    []string
	problems []string
}

// modelTask is one task of a world.
type modelTask struct {
	key    client.ObjectKey
	uid    string
	ledger *ledger
	// isFinished: an operator has just written its final phase.
	isFinished, wasFinished bool
}

func (w *world) tracef(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) problemf(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf("after step %d: %s", len(w.trace), fmt.Sprintf(format, args...)))
}

func (w *world) chance(percent int) bool { return w.random.IntN(100) < percent }

// operator is one process: what it remembers goes with it.
type operator struct {
	world      *world
	name       string
	reconciler *controller.Reconciler
	replayer   *controller.Replayer
	sight      *controller.Sight
	cache      *laggingReader

	left   int    // writes until its death; negative: it does not die
	isDead bool   // since its last write
	before int    // the write of this pass before which somebody else acts; 0: none
	act    func() // what that one does
	writes int    // of this pass
	// accepted are those of them that the API server took.
	accepted int
}

var errMurdered = errors.New("the operator is dead")

func (w *world) newOperator(name string) *operator {
	o := &operator{world: w, name: name, left: -1, sight: controller.NewSight(), cache: newLaggingReader(w.under)}
	o.sight.Answered(w.clock.Now())
	writer := interceptor.NewClient(o.cache.over(w.under), o.wire())
	o.reconciler = &controller.Reconciler{
		Client: writer, Live: w.under, Clock: w.clock, Events: events.NewFakeRecorder(1000),
		Observer: controller.NewObserver(w.clock, o.sight),
		Turns:    controller.NewTurns(w.clock),
		Epoch:    &controller.ConfigMapEpoch{Live: w.under, Name: epoch},
		Agent:    plan.AgentImage{Name: "agent:test", PullPolicy: corev1.PullIfNotPresent},
		Random: controller.Random{Jitter: w.random.Float64,
			Suffix: func() string { return fmt.Sprintf("%06x", w.random.Uint32()>>8) }},
	}
	o.replayer = &controller.Replayer{Client: writer, Live: w.under, Clock: w.clock, Events: events.NewFakeRecorder(1000)}
	return o
}

// wire is the operator's way to the API server: where it dies, where others come between, and where Pods become workers.
func (o *operator) wire() interceptor.Funcs {
	write := func(what string, object client.Object, do func() error) error {
		if o.isDead {
			return errMurdered
		}
		if o.writes++; o.writes == o.before && o.act != nil {
			act := o.act
			o.act = nil
			act()
		}
		err := do()
		o.world.tracef("  %s: %s %s: %s", o.name, what, strings.TrimPrefix(fmt.Sprintf("%T", object), "*"), answer(err))
		if err == nil {
			o.accepted++
			o.world.note(what, object)
		}
		if o.left >= 0 {
			if o.left--; o.left < 0 {
				o.isDead = true
				return errors.Join(err, errMurdered)
			}
		}
		return err
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, x client.Object, opts ...client.CreateOption) error {
			return write("create", x, func() error { return c.Create(ctx, x, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, x client.Object, opts ...client.UpdateOption) error {
			return write("update", x, func() error { return c.Update(ctx, x, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, x client.Object, p client.Patch, opts ...client.PatchOption) error {
			return write("patch", x, func() error { return c.Patch(ctx, x, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, x client.Object, opts ...client.DeleteOption) error {
			return write("delete", x, func() error { return c.Delete(ctx, x, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, x client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return write("patch "+sub+" of", x, func() error { return c.SubResource(sub).Patch(ctx, x, p, opts...) })
		},
	}
}

func answer(err error) string {
	if err == nil {
		return "ok"
	}
	return string(apierrors.ReasonForError(err)) + " " + fmt.Sprintf("%.120s", err)
}

// note looks at what an operator has just written.
func (w *world) note(what string, object client.Object) {
	switch o := object.(type) {
	case *corev1.Pod:
		if what == "create" {
			w.workers = append(w.workers, newWorker(o))
		}
	case *v1alpha1.LeasedTask:
		w.tracef("    %s is %s", o.Name, cluster.Describe(o))
		for _, entry := range o.Status.History {
			w.isOver[entry.FencingToken] = true
		}
		for _, task := range w.tasks {
			if task.uid == string(o.UID) && o.Status.Phase.IsFinished() && !task.wasFinished {
				task.isFinished, task.wasFinished = true, true
			}
		}
		if o.Status.Phase != v1alpha1.PhaseDeadLettered {
			return
		}
		if err := w.under.Get(w.ctx, client.ObjectKey{Namespace: o.Namespace, Name: o.Status.DeadLetterName}, &v1alpha1.DeadLetter{}); err != nil {
			w.problemf("%s is DeadLettered, and its dead letter cannot be read: %v", o.Name, err)
		}
	}
}

// begin readies the operator for a pass: what its cache is late with, when it dies, who comes between.
func (o *operator) begin(fresh, dieAfter, before int, act func()) {
	if o.isDead {
		*o = *o.world.newOperator(o.name)
	}
	o.cache.fresh, o.left, o.before, o.act = fresh, dieAfter, before, act
	o.writes, o.accepted = 0, 0
}

// pass is one pass over a task. A dead operator is followed by another one, which remembers nothing.
func (o *operator) pass(task *modelTask) time.Duration {
	o.world.tracef("%s: pass over %s, fresh %03b, dies after %d, between %d", o.name, task.key.Name, o.cache.fresh, o.left, o.before)
	result, err := o.reconciler.Reconcile(o.world.ctx, ctrl.Request{NamespacedName: task.key})
	if err != nil && !o.isDead {
		o.world.problemf("a pass over %s failed: %v", task.key.Name, err)
	}
	if next := o.world.keeps(); next > 0 && (result.RequeueAfter == 0 || next < result.RequeueAfter) {
		return next
	}
	return result.RequeueAfter
}

// keeps is a pass of the keeper over the key that replays share with their ancestor, whose UID it is.
func (w *world) keeps() time.Duration {
	if len(w.tasks) < 2 {
		return 0
	}
	result, err := w.keeper.Reconcile(w.ctx, ctrl.Request{NamespacedName: w.sharedKey()})
	if err != nil {
		w.problemf("a pass over the key failed: %v", err)
	}
	return result.RequeueAfter
}

func (w *world) sharedKey() client.ObjectKey {
	return client.ObjectKey{Namespace: modelNamespace, Name: key.Name(key.Idempotency, w.tasks[0].uid)}
}

// reads fills the operator's cache.
func (o *operator) reads(task *modelTask) {
	c := o.cache.over(o.world.under)
	_ = c.Get(o.world.ctx, task.key, &v1alpha1.LeasedTask{})
	_ = c.Get(o.world.ctx, client.ObjectKey{Namespace: task.key.Namespace, Name: mailbox.Name(task.uid)}, &coordinationv1.Lease{})
	_ = c.List(o.world.ctx, &corev1.PodList{}, client.InNamespace(task.key.Namespace), client.MatchingFields{"taskUID": task.uid})
}

// advance lets time pass. Healthy workers renew meanwhile, and operators that can see look at the API server.
func (w *world) advance(d time.Duration, canSee bool) {
	w.tracef("clock: %s, operators see: %v", d, canSee)
	for ; d > 0; d -= tick {
		w.clock.Step(min(d, tick))
		for _, o := range w.operators {
			if canSee {
				o.sight.Answered(w.clock.Now())
			}
		}
		for _, x := range w.workers {
			x.renewIfDue(w)
		}
	}
}

// tick is as long as nothing happens by itself: an agent's renew interval.
const tick = 2500 * time.Millisecond

// laggingReader reads from the API server, or remembers what it read before, as a cache that is late does.
type laggingReader struct {
	live  client.Reader
	fresh int // bits: which kinds are read anew
	known map[string]client.Object
	lists map[string][]corev1.Pod
}

const (
	freshTask = 1 << iota
	freshLease
	freshPods
	allFresh = freshTask | freshLease | freshPods
)

func newLaggingReader(live client.Reader) *laggingReader {
	return &laggingReader{live: live, fresh: allFresh, known: map[string]client.Object{}, lists: map[string][]corev1.Pod{}}
}

// over is a client that reads through the cache.
func (l *laggingReader) over(c client.WithWatch) client.WithWatch { return &laggingClient{c, l} }

type laggingClient struct {
	client.WithWatch
	reader *laggingReader
}

// Get implements [client.Reader].
func (c *laggingClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	bit := 0
	switch into.(type) {
	case *v1alpha1.LeasedTask:
		bit = freshTask
	case *v1alpha1.DeadLetter:
		bit = freshTask
	case *coordinationv1.Lease:
		bit = freshLease
	default:
		return c.WithWatch.Get(ctx, key, into, opts...)
	}
	l, id := c.reader, fmt.Sprintf("%T %s", into, key)
	if known, isKnown := l.known[id]; isKnown && l.fresh&bit == 0 {
		if known == nil {
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("cached").GroupResource(), key.Name)
		}
		switch from := known.(type) {
		case *v1alpha1.LeasedTask:
			from.DeepCopyInto(into.(*v1alpha1.LeasedTask))
		case *v1alpha1.DeadLetter:
			from.DeepCopyInto(into.(*v1alpha1.DeadLetter))
		case *coordinationv1.Lease:
			from.DeepCopyInto(into.(*coordinationv1.Lease))
		}
		return nil
	}
	err := l.live.Get(ctx, key, into)
	switch {
	case err == nil:
		l.known[id] = into.DeepCopyObject().(client.Object)
	case apierrors.IsNotFound(err):
		l.known[id] = nil
	}
	return err
}

// List implements [client.Reader], for Pods as the operator's index finds them.
func (c *laggingClient) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	pods, isPods := into.(*corev1.PodList)
	options := (&client.ListOptions{}).ApplyOptions(opts)
	if !isPods || options.FieldSelector == nil {
		return c.WithWatch.List(ctx, into, opts...)
	}
	uid := taskOf(options.FieldSelector)
	if known, isKnown := c.reader.lists[uid]; isKnown && c.reader.fresh&freshPods == 0 {
		for i := range known {
			pods.Items = append(pods.Items, *known[i].DeepCopy())
		}
		return nil
	}
	err := c.reader.live.List(ctx, pods, client.InNamespace(options.Namespace), client.MatchingLabels{v1alpha1.TaskLabel: uid})
	if err == nil {
		c.reader.lists[uid] = slices.Clone(pods.DeepCopy().Items)
	}
	return err
}

func taskOf(selector fields.Selector) string {
	requirements := selector.Requirements()
	return requirements[0].Value
}
