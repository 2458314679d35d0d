package api

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
	"github.com/leasehold-io/leasehold/test/cluster"
)

var (
	modelSeeds = flag.Int("model.seeds", 500, "number of random lives that the model judges")
	modelFirst = flag.Uint64("model.seed", 1, "the first of their seeds; with -model.seeds=1 this one life is told")
	modelSide  = flag.Int("model.parallel", 12, "lives side by side")
)

// notWalked are transitions that no life makes, and why.
var notWalked = map[edge]string{
	{v1alpha1.PhaseAvailable, v1alpha1.PhaseDeadLettered}: "no life has timeouts.totalSeconds, see TestTheTotalTimeEndsATaskThatWaits, or a key of two payloads, see keys_test.go",
	{v1alpha1.PhaseClaimed, v1alpha1.PhaseProbing}:        byProbes,
	{v1alpha1.PhaseRunning, v1alpha1.PhaseProbing}:        byProbes,
	{v1alpha1.PhaseExpired, v1alpha1.PhaseProbing}:        byProbes,
	{v1alpha1.PhaseProbing, v1alpha1.PhaseCompleted}:      byProbes,
	{v1alpha1.PhaseProbing, v1alpha1.PhaseAvailable}:      byProbes,
	{v1alpha1.PhaseProbing, v1alpha1.PhaseExpired}:        byProbes,
	{v1alpha1.PhaseProbing, v1alpha1.PhaseCancelled}:      byProbes,
}

const byProbes = "no life has spec.reconcile: the simulator plays probes, and uncertain_test.go"

// TestRandomLivesKeepToThePublishedTable plays random lives of tasks against the API server, on clocks of their own: creates,
// cancels, suspends, resumes and replays; workers that succeed, fail, fall silent and wake; Pods and Leases that are taken away;
// operators that read late, die between two writes, and are two. An abstract model judges every version of every task that the
// API server tells of, see ledger. A seed tells the same life each time:
//
//	go test ./test/api -run TestRandomLives -model.seeds=1 -model.seed=SEED -v
//
// Each seed is one rand.PCG and not a rapid check, because rapid runs one check after another; these wait for the API server,
// and share it.
func TestRandomLivesKeepToThePublishedTable(t *testing.T) {
	t.Parallel()
	g := newModelGround(t)
	seeds := make(chan uint64)
	var side sync.WaitGroup
	for range *modelSide {
		side.Go(func() {
			for seed := range seeds {
				g.live(seed)
			}
		})
	}
	start := time.Now()
	for i := range *modelSeeds {
		seeds <- *modelFirst + uint64(i)
	}
	close(seeds)
	side.Wait()
	t.Logf("%d lives in %s, %d versions of tasks; ends %v", *modelSeeds, time.Since(start).Round(time.Second), g.versions, g.ends)
	if *modelSeeds < 200 {
		return
	}
	for _, tr := range plan.Transitions {
		if g.edges[edge{tr.From, tr.To}] == 0 && notWalked[edge{tr.From, tr.To}] == "" {
			t.Errorf("no life went from %s to %s", tr.From, tr.To)
		}
	}
}

// modelGround is what all lives share.
type modelGround struct {
	*testing.T
	under client.WithWatch
	pods  kubernetes.Interface
	books *ledgers

	mu       sync.Mutex
	failed   int
	versions int
	ends     map[v1alpha1.Phase]int
	edges    map[edge]int
}

func newModelGround(t *testing.T) *modelGround {
	t.Helper()
	g := &modelGround{T: t, books: &ledgers{all: map[types.UID]*ledger{}, early: map[types.UID][]*v1alpha1.LeasedTask{}},
		ends: map[v1alpha1.Phase]int{}, edges: map[edge]int{}}
	fatal := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	g.under, err = client.NewWithWatch(config, client.Options{Scheme: admin.Scheme(), Mapper: admin.RESTMapper()})
	fatal(err)
	g.pods, err = kubernetes.NewForConfig(config)
	fatal(err)
	fatal(client.IgnoreAlreadyExists(admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: modelNamespace}})))
	fatal(client.IgnoreAlreadyExists(admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: "default"}})))
	follow(t, modelNamespace, &v1alpha1.LeasedTaskList{}, g.listen)
	return g
}

// listen gives every version of every task to its model.
func (g *modelGround) listen(kind watch.EventType, task *v1alpha1.LeasedTask) {
	if kind == watch.Deleted {
		return
	}
	g.books.wrote(task)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.versions++
}

// asPod patches a term Lease with no more rights than the worker's Pod has.
func (g *modelGround) asPod(x *worker, patch []byte) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	for tries := 0; ; tries++ {
		err := g.pods.CoordinationV1().RESTClient().Patch(types.JSONPatchType).Namespace(x.pod.Namespace).Resource("leases").
			Name(mailbox.Name(x.task)).Body(patch).
			SetHeader("Impersonate-User", "system:serviceaccount:"+x.pod.Namespace+":default").
			SetHeader("Impersonate-Group", "system:serviceaccounts", "system:serviceaccounts:"+x.pod.Namespace, "system:authenticated").
			SetHeader("Impersonate-Extra-authentication.kubernetes.io%2Fpod-name", x.pod.Name).
			SetHeader("Impersonate-Extra-authentication.kubernetes.io%2Fpod-uid", string(x.uid)).
			Do(g.Context()).Into(lease)
		if tries < 100 && apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot patch resource") { // a new binding acts a moment late
			time.Sleep(50 * time.Millisecond)
			continue
		}
		return lease, err
	}
}

func (g *modelGround) newWorld(seed uint64) *world {
	w := &world{ctx: g.Context(), seed: seed, random: rand.New(rand.NewPCG(seed, 0)), under: g.under, asPod: g.asPod, books: g.books,
		clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second)), isOver: map[int64]bool{}}
	w.keeper = &controller.KeyKeeper{Client: w.under, Live: w.under, Clock: w.clock}
	w.operators = [2]*operator{w.newOperator("leader"), w.newOperator("rival")}
	return w
}

// live plays the life of one seed, and judges it.
func (g *modelGround) live(seed uint64) {
	w := g.newWorld(seed)
	w.story()
	for _, task := range w.tasks {
		w.judge(task)
	}
	w.clear()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, task := range w.tasks {
		g.ends[task.ledger.last.Status.Phase]++
		for e, n := range task.ledger.edges {
			g.edges[e] += n
		}
	}
	if *modelSeeds == 1 {
		g.Logf("seed %d:\n%s", seed, strings.Join(w.trace, "\n"))
	}
	if len(w.problems) == 0 {
		return
	}
	if g.failed++; g.failed <= 3 {
		g.Errorf("seed %d: %s\nits life:\n%s", seed, strings.Join(w.problems, "\n"), strings.Join(w.trace, "\n"))
	} else {
		g.Errorf("seed %d: %s", seed, w.problems[0])
	}
}

// story is a task's life, and that of each of its replays.
func (w *world) story() {
	task := w.newTask()
	if err := w.under.Create(w.ctx, task); err != nil {
		w.problemf("create: %v", err)
		return
	}
	w.lives(w.enter(task, 0), 30+w.random.IntN(30))
	for request := int64(1); request <= 2 && w.chance(60); request++ {
		for _, child := range w.replays(w.tasks[0], request) {
			w.lives(child, 10+w.random.IntN(20))
		}
	}
}

// newTask is small, so that its budgets and times are used up soon.
func (w *world) newTask() *v1alpha1.LeasedTask {
	task := cluster.Task(modelNamespace, fmt.Sprintf("life-%d", w.seed), "true")
	spec := &task.Spec
	spec.Payload = new(fmt.Sprintf(`{"seed": %d}`, w.seed))
	spec.Retry = v1alpha1.RetrySpec{MaxAttempts: 1 + w.random.Int32N(3), MaxDisruptions: new(w.random.Int32N(4)), Backoff: v1alpha1.BackoffSpec{MaxSeconds: 2}}
	spec.Timeouts.StartSeconds = 30
	if w.chance(25) {
		spec.Timeouts.AttemptSeconds = 5 // which these agents do not keep
	}
	if w.chance(20) {
		spec.Retry.Rules = []v1alpha1.RetryRule{{Action: v1alpha1.RetryActionDeadLetter,
			OnExitCodes: v1alpha1.ExitCodeRequirement{Operator: v1alpha1.ExitCodeIn, Values: []int32{7}}}}
	}
	if w.chance(20) {
		spec.StartAfter = new(metav1.NewTime(w.clock.Now().Add(5 * time.Second)))
	}
	if w.chance(15) {
		spec.Suspend = new(true)
	}
	w.tracef("owner: creates %s: %d attempts, %d disruptions, %d rules, attempts of %d s, suspended: %v", task.Name, spec.Retry.Attempts(),
		spec.Retry.ForgivenDisruptions(), len(spec.Retry.Rules), spec.Timeouts.AttemptSeconds, spec.IsSuspended())
	return task
}

func (w *world) enter(task *v1alpha1.LeasedTask, floor int64) *modelTask {
	entered := &modelTask{key: client.ObjectKeyFromObject(task), uid: string(task.UID), ledger: w.books.enter(task.UID, floor)}
	w.tasks = append(w.tasks, entered)
	return entered
}

// lives lets things happen to a task, so many, and then brings it to its end. Once that is there, not much more can happen.
func (w *world) lives(task *modelTask, steps int) {
	for left := steps; left > 0; left-- {
		if task.isFinished {
			left = min(left, 4)
			task.isFinished = false
		}
		switch n := w.random.IntN(100); {
		case n < 45:
			w.operates(task)
		case n < 65:
			w.advance([]time.Duration{500 * time.Millisecond, time.Second, 3 * time.Second, 5 * time.Second, 12 * time.Second}[w.random.IntN(5)], w.chance(85))
		case n < 70:
			w.settles(task)
		default:
			w.happens(others, task)
		}
	}
	w.ends(task)
}

// operates is a pass of one of the operators, with what may befall it.
func (w *world) operates(task *modelTask) {
	o, rival := w.operators[0], w.operators[1]
	if w.chance(20) {
		o, rival = rival, o
	}
	fresh, dieAfter, before := allFresh, -1, 0
	if w.chance(40) {
		fresh = w.random.IntN(allFresh + 1)
	}
	if w.chance(15) {
		dieAfter = w.random.IntN(4)
	}
	act := func() { w.happens(others, task) }
	if w.chance(35) {
		before = 1 + w.random.IntN(3)
		if w.chance(30) {
			rival.begin(w.random.IntN(allFresh+1), -1, 0, nil)
			act = func() { rival.pass(task) }
		}
	}
	o.begin(fresh, dieAfter, before, act)
	o.pass(task)
}

// settles makes passes without anything happening, and without time passing: soon nothing more is written.
func (w *world) settles(task *modelTask) {
	o := w.operators[0]
	for range 8 {
		o.begin(allFresh, -1, 0, nil)
		if o.pass(task); o.accepted == 0 {
			return
		}
	}
	w.problemf("%s is written again and again", task.key.Name)
}

// ends brings a task to its end: nothing bad happens any more, workers do their work, the owner lets it go on.
func (w *world) ends(task *modelTask) {
	w.tracef("from here on all goes well for %s", task.key.Name)
	w.owner(task, "resumes", `{"spec":{"suspend":false}}`)
	current := &v1alpha1.LeasedTask{}
	for range 150 {
		if err := w.under.Get(w.ctx, task.key, current); err != nil {
			w.problemf("%s: %v", task.key.Name, err)
			return
		}
		if current.Status.Phase.IsFinished() {
			w.settles(task)
			return
		}
		for _, x := range w.workers {
			if x.task == task.uid {
				x.goesOn(w, current)
			}
		}
		o := w.operators[0]
		o.begin(allFresh, -1, 0, nil)
		next := o.pass(task)
		w.advance(min(max(next, 500*time.Millisecond), 5*time.Second), true)
	}
	w.problemf("%s does not end: %s", task.key.Name, cluster.Describe(current))
}

// goesOn is what a worker does when all goes well.
func (x *worker) goesOn(w *world, task *v1alpha1.LeasedTask) {
	isCurrent := task.Status.FencingToken == x.token && (task.Status.Phase == v1alpha1.PhaseClaimed || task.Status.Phase == v1alpha1.PhaseRunning)
	switch {
	case x.life == starting && isCurrent:
		x.claims(w)
	case x.life == working && x.told:
		x.heeds(w, "Cancelled")
	case x.life == working && isCurrent && w.chance(70):
		x.submits(w, successful)
	case x.life == working && isCurrent:
		x.fails(w)
	default:
		if !x.isKnown || x.life != ended {
			x.lookedAfter(w)
		}
	}
}

// replays asks a dead letter for a replay, and returns the task that it makes; none if the task has none.
func (w *world) replays(ancestor *modelTask, request int64) []*modelTask {
	task, dead := &v1alpha1.LeasedTask{}, &v1alpha1.DeadLetter{}
	if err := w.under.Get(w.ctx, ancestor.key, task); err != nil || task.Status.Phase != v1alpha1.PhaseDeadLettered {
		return nil
	}
	key := client.ObjectKey{Namespace: modelNamespace, Name: task.Status.DeadLetterName}
	dead.Namespace, dead.Name = key.Namespace, key.Name
	err := w.under.Patch(w.ctx, dead, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replay":{"request":%d}}}`, request)))
	w.tracef("owner: asks %s for replay %d: %s", key.Name, request, answer(err))
	for try := 0; dead.Status.LastRequest < request && try < 12; try++ {
		o, dieAfter, fresh := w.operators[w.random.IntN(2)], -1, allFresh
		if try < 8 && w.chance(50) {
			dieAfter, fresh = w.random.IntN(2), w.random.IntN(allFresh+1)
		}
		o.begin(fresh, dieAfter, 0, nil)
		w.tracef("%s: looks at %s, fresh %03b, dies after %d", o.name, key.Name, fresh, dieAfter)
		if _, err := o.replayer.Reconcile(w.ctx, ctrl.Request{NamespacedName: key}); err != nil && !o.isDead {
			w.problemf("a pass over %s failed: %v", key.Name, err)
		}
		if err := w.under.Get(w.ctx, key, dead); err != nil {
			w.problemf("%s: %v", key.Name, err)
		}
	}
	made := &v1alpha1.LeasedTaskList{}
	if err := w.under.List(w.ctx, made, client.InNamespace(modelNamespace)); err != nil {
		w.problemf("list: %v", err)
	}
	made.Items = slices.DeleteFunc(made.Items, func(t v1alpha1.LeasedTask) bool {
		return t.Spec.ReplayOf.DeadLetterUID != string(dead.UID) || t.Spec.ReplayOf.Request != request
	})
	if len(made.Items) != 1 || made.Items[0].Spec.ReplayOf.IdempotencyKey != task.IdempotencyKey() || *made.Items[0].Spec.Payload != *task.Spec.Payload {
		w.problemf("request %d of %s made %d tasks: %+v", request, key.Name, len(made.Items), made.Items)
		return nil
	}
	return []*modelTask{w.enter(&made.Items[0], w.highest())}
}

// highest is the highest token of all tasks so far: those of a replay are above its ancestors'.
func (w *world) highest() (token int64) {
	for _, x := range w.workers {
		token = max(token, x.token)
	}
	return token
}

// judge closes a task's ledger: it must have seen the last version, and the dead letters must agree with it.
func (w *world) judge(task *modelTask) {
	current, dead := &v1alpha1.LeasedTask{}, &v1alpha1.DeadLetterList{}
	err := w.under.Get(w.ctx, task.key, current)
	err = cmp.Or(err, w.under.List(w.ctx, dead, client.InNamespace(modelNamespace), client.MatchingLabels{v1alpha1.TaskLabel: task.uid}))
	if err != nil {
		w.problemf("%s: %v", task.key.Name, err)
		return
	}
	want := 0
	if current.Status.Phase == v1alpha1.PhaseDeadLettered {
		want = 1
	}
	if len(dead.Items) != want {
		w.problemf("%s is %s and has %d dead letters", task.key.Name, current.Status.Phase, len(dead.Items))
	}
	seen := func() bool {
		task.ledger.mu.Lock()
		defer task.ledger.mu.Unlock()
		return task.ledger.last != nil && task.ledger.last.ResourceVersion == current.ResourceVersion
	}
	for wait := 0; !seen(); wait++ {
		if wait > 300 {
			w.problemf("%s: the watch has not told of its last version", task.key.Name)
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	task.ledger.mu.Lock()
	defer task.ledger.mu.Unlock()
	for _, problem := range task.ledger.problems {
		w.problemf("%s: %s", task.key.Name, problem)
	}
}

// clear returns what a life leaves: the next ones shall not be slowed down by it.
func (w *world) clear() {
	lease := &coordinationv1.Lease{}
	lease.Namespace, lease.Name = w.sharedKey().Namespace, w.sharedKey().Name
	_ = w.under.Delete(w.ctx, lease)
	for _, task := range w.tasks {
		w.books.leave(types.UID(task.uid))
		_ = w.under.Delete(w.ctx, w.object(task))
		for _, o := range []client.Object{&corev1.Pod{}, &v1alpha1.DeadLetter{}} {
			_ = w.under.DeleteAllOf(w.ctx, o, client.InNamespace(modelNamespace), client.MatchingLabels{v1alpha1.TaskLabel: task.uid}, client.GracePeriodSeconds(0))
		}
		_ = w.under.Delete(w.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: modelNamespace, Name: mailbox.Name(task.uid)}})
	}
}
