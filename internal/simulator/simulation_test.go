package simulator

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

var (
	schedules = flag.Int("schedules", 20_000, "number of schedules that TestSimulation runs")
	seed      = flag.Uint64("seed", 0, "seed of the first schedule; 0: by the clock")
)

// taskTemplate is the task that every schedule begins with.
var taskTemplate = &v1alpha1.LeasedTask{
	ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "task", UID: "uid-1", Generation: 1},
	Spec: v1alpha1.LeasedTaskSpec{
		Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "app", Command: []string{"/app"}}}}},
		Lease:    v1alpha1.LeaseSpec{DurationSeconds: int32(duration / time.Second)},
		Timeouts: v1alpha1.TimeoutsSpec{StartSeconds: int32(startTimeout / time.Second)},
		Retry:    v1alpha1.RetrySpec{Backoff: v1alpha1.BackoffSpec{MaxSeconds: 4}},

		StopGraceSeconds: int32(stopGrace / time.Second),
	},
}

// probeTemplate is the probe of a task that has one.
var probeTemplate = &v1alpha1.ReconcileSpec{
	Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "look", Image: "app", Command: []string{"/look"}}}}},
}

// maxRound is how many schedules one check of rapid's makes at most.
const maxRound = 10_000

// TestSimulation lets a task live through whatever may happen, again and again. See the package's documentation.
func TestSimulation(t *testing.T) {
	keepFlags(t, "rapid.checks", "rapid.seed", "rapid.nofailfile")
	setFlag(t, "rapid.nofailfile", "true") // the seed is enough
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	run := &run{begin: time.Now(), rules: map[plan.Rule]int{}}
	t.Run("", func(t *testing.T) {
		for worker := range 2 {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				run.work(t)
			})
		}
	})
	t.Logf("%d schedules, seed %d, %s", run.done.Load(), *seed, time.Since(run.begin).Round(time.Second))
	switch done := run.done.Load(); {
	case t.Failed():
	case done < int64(*schedules):
		t.Errorf("%d schedules, want %d: -timeout leaves no time for them", done, *schedules)
	default:
		run.checkRules(t)
	}
}

// run is all schedules of one test.
type run struct {
	begin   time.Time
	flags   sync.Mutex // rapid's
	next    atomic.Int64
	done    atomic.Int64
	hasFail atomic.Bool

	mu    sync.Mutex
	rules map[plan.Rule]int
}

// work takes rounds until none is left, or somebody has found something.
func (r *run) work(t *testing.T) {
	rules := map[plan.Rule]int{}
	size := min(maxRound, (*schedules+1)/2)
	for !t.Failed() && !r.hasFail.Load() {
		first := int(r.next.Add(int64(size))) - size
		if first >= *schedules {
			break
		}
		r.round(t, first, min(size, *schedules-first), rules)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for rule, n := range rules {
		r.rules[rule] += n
	}
}

// round is one check of rapid's, which reads its number and seed from flags as it begins.
func (r *run) round(t *testing.T, first, n int, rules map[plan.Rule]int) {
	r.flags.Lock()
	release := sync.OnceFunc(r.flags.Unlock)
	defer release()
	seedOf := *seed
	if first > 0 {
		seedOf = rand.New(rand.NewPCG(*seed, uint64(first))).Uint64()
	}
	setFlag(t, "rapid.checks", strconv.Itoa(n))
	setFlag(t, "rapid.seed", strconv.FormatUint(seedOf, 10))
	isMine := false
	rapid.Check(t, func(t *rapid.T) {
		release()
		if r.hasFail.Load() && !isMine {
			return
		}
		defer func() {
			if !isMine && t.Failed() {
				isMine = true
				r.hasFail.Store(true)
			}
		}()
		w := newWorld(t, rules)
		defer w.end()
		w.live()
		w.settle()
		if !isMine {
			r.done.Add(1)
		}
	})
}

// end lets the passes under way go.
func (w *world) end() {
	for _, c := range w.controllers {
		if c.pass != nil {
			c.pass.stop()
		}
	}
}

// keepFlags sets flags back after the test.
func keepFlags(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		was := flag.Lookup(name).Value.String()
		t.Cleanup(func() { setFlag(t, name, was) })
	}
}

func setFlag(t *testing.T, name, value string) {
	t.Helper()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
}

// unreached are rules that no schedule reaches, and why.
var unreached = map[plan.Rule]string{
	plan.RuleStartAfter: "it waits for a wall clock, which people may set by hours: no schedule is that long; a table has it",
	plan.RuleDeleting:   "no schedule deletes the task: nothing is decided any more",

	plan.RuleKeyConflict: byOthers,
	plan.RuleAttach:      byOthers,
	plan.RuleAwaitKey:    byOthers,
	plan.RuleTakeKey:     byOthers,
	plan.RuleReplaced:    byOthers,
	plan.RuleKeyRejected: byOthers,
	plan.RuleSuperseded:  byOthers,
	plan.RuleAskForKey:   byOthers,

	plan.RuleAwaitRevision: "a task of a simulation has no queue: tables, and the tests at the API server, have it",

	plan.RuleBudgetUsedUp: "so is a budget that is used up meanwhile: the same",
	plan.RuleNoProbe:      "a doubt is left without a probe where a queue's policy was lost: tables, and the tests at the API server, have it",
	plan.RuleAwaitTurn:    "a queue takes more than one task: the tests of the queue, and those at the API server, have it",
}

const byOthers = "keys take more than one task: TestAnyInterleaving of package key plays them"

// checkRules holds over the whole run: every rule decided in some schedule. Few schedules need not reach all.
func (r *run) checkRules(t *testing.T) {
	t.Helper()
	t.Logf("rules that decided: %v", r.rules)
	if *schedules < 20_000 {
		return
	}
	for _, rule := range allRules(t) {
		_, isListed := unreached[rule]
		if (r.rules[rule] > 0) == isListed {
			t.Errorf("rule %s decided %d times", rule, r.rules[rule])
		}
	}
}

// allRules are the constants of type plan.Rule.
func allRules(t *testing.T) (rules []plan.Rule) {
	t.Helper()
	file, err := parser.ParseFile(gotoken.NewFileSet(), "../controller/plan/rules.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Rule" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, plan.Rule(value))
		}
		return true
	})
	return rules
}

// TestStored holds what the simulated API server keeps of a status against JSON, on statuses of some schedules.
func TestStored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, map[plan.Rule]int{})
		defer w.end()
		w.live()
		for _, v := range w.api.task {
			raw, err := json.Marshal(v.value.Status)
			if err != nil {
				t.Fatal(err)
			}
			var want v1alpha1.LeasedTaskStatus
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
			if !equality.Semantic.DeepEqual(want, v.value.Status) {
				t.Fatalf("JSON keeps %s\nthe simulation %+v", raw, v.value.Status)
			}
		}
	})
}
