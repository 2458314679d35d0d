package simulator

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"pgregory.net/rapid"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

const (
	// duration is D of the task's terms.
	duration = fencing.MinDuration
	// never is a time that does not come.
	never = time.Duration(math.MaxInt64)
)

// epochStart is what a wall clock shows at the beginning, if nobody has set it.
var epochStart = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// actor does something by itself at some time.
type actor interface {
	due() time.Duration
	act()
}

// world is one task and all that acts on it. Time is the true one, since the beginning; nobody in the world can read it.
type world struct {
	*rapid.T
	// random is for draws that rapid need not shrink: how long things take, and what becomes of messages.
	random *rand.Rand
	now    time.Duration

	api         apiServer
	network     network
	weather     weather
	outside     outside
	controllers [2]*controller
	boxes       []*box
	processes   []*process
	actors      []actor
	isSettling  bool // no fault happens any more, and children succeed soon

	ledger   *ledger
	coverage map[plan.Rule]int
	log      []entry
}

// weather is what stands in the way of everybody for a while. The zero value is fair.
type weather struct {
	isDown      bool   // the API server answers nobody
	isLossy     bool   // requests and answers get lost, late or doubled
	isSlow      bool   // workers' requests take long
	isForbidden bool   // the worker role is not bound
	full        string // why no dead letter can be written; empty: one can
	problem     *plan.GrantProblem
	refusal     *plan.PodRefusal
}

func newWorld(t *rapid.T, coverage map[plan.Rule]int) *world {
	w := &world{T: t, random: rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed"))), coverage: coverage, ledger: newLedger()}
	w.network.world, w.api.world = w, w
	w.network.slowest = []time.Duration{time.Millisecond, 30 * time.Millisecond}[w.random.IntN(2)]
	w.actors = append(w.actors, &w.network)
	w.api.begin(newTask(t))
	for i := range w.controllers {
		w.controllers[i] = w.newController([]string{"A", "B"}[i], i == 0)
		w.actors = append(w.actors, w.controllers[i])
	}
	return w
}

// newTask is a task that no controller has seen, with small budgets and short times.
func newTask(t *rapid.T) *v1alpha1.LeasedTask {
	task := taskTemplate.DeepCopy()
	task.Spec.Retry.MaxAttempts = rapid.Int32Range(1, 5).Draw(t, "maxAttempts")
	task.Spec.Retry.MaxDisruptions = new(rapid.Int32Range(0, 8).Draw(t, "maxDisruptions"))
	if rapid.IntRange(0, 3).Draw(t, "limit") == 3 {
		task.Spec.Timeouts.AttemptSeconds = rapid.Int32Range(3, 20).Draw(t, "attemptSeconds")
	}
	if rapid.IntRange(0, 3).Draw(t, "total") == 3 {
		task.Spec.Timeouts.TotalSeconds = rapid.Int32Range(20, 120).Draw(t, "totalSeconds")
	}
	if rapid.IntRange(0, 5).Draw(t, "continue") == 5 {
		task.Spec.Lease.OnRenewalFailure = v1alpha1.RenewalFailureContinue
	}
	switch rapid.IntRange(0, 5).Draw(t, "onLostAttempt") {
	case 4:
		task.Spec.OnLostAttempt = v1alpha1.LostAttemptDeadLetter
	case 3, 5:
		task.Spec.OnLostAttempt = v1alpha1.LostAttemptReconcile
		task.Spec.Reconcile = *probeTemplate.DeepCopy()
		task.Spec.Reconcile.MaxProbes = rapid.Int32Range(1, 4).Draw(t, "maxProbes")
		task.Spec.Reconcile.SettleSeconds = new(rapid.Int32Range(0, 3).Draw(t, "settleSeconds"))
	}
	if rapid.IntRange(0, 3).Draw(t, "heartbeat") == 3 {
		task.Spec.Lease.Heartbeat = v1alpha1.HeartbeatApplication
	}
	return task
}

// advance lets time pass, and everybody do what is due meanwhile.
func (w *world) advance(d time.Duration) {
	until := w.now + d
	for stalled := 0; ; stalled++ {
		first, at := w.first()
		if at > until {
			w.now = until
			return
		}
		if at > w.now {
			w.now, stalled = at, 0
		}
		if stalled > 10_000 {
			w.fail("somebody acts again and again, and no time passes: %T", first)
		}
		first.act()
	}
}

// first is who acts next. Whoever was there earlier acts first: workers may be late as any, and the network is never.
func (w *world) first() (first actor, at time.Duration) {
	at = never
	for _, a := range w.actors {
		if due := a.due(); due < at {
			first, at = a, due
		}
	}
	return first, max(at, w.now)
}

// upTo is a random time from low to high.
func (w *world) upTo(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64(high-low)+1))
}

// oneIn is true once in n times.
func (w *world) oneIn(n int) bool { return w.random.IntN(n) == 0 }

// entry is a line of the log. It is put into words only if somebody reads it.
type entry struct {
	at     time.Duration
	format string
	args   []any
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, entry{w.now, format, args})
}

// fail stops the schedule and tells how it came to this.
func (w *world) fail(format string, args ...any) {
	w.Helper()
	for _, line := range w.log {
		w.Logf("%9.3fs  %s", line.at.Seconds(), fmt.Sprintf(line.format, line.args...))
	}
	w.Fatalf(format, args...)
}

// clock is one machine's. It runs at its own rate, people set it, and it may stand still with its machine.
type clock struct {
	perMille int64
	step     time.Duration // what people have moved the wall clock by
	stood    time.Duration // how long it stood still, in true time
}

// reading is what it has counted by the given true time: nothing moves it back.
func (c *clock) reading(now time.Duration) time.Duration {
	return (now - c.stood) * time.Duration(c.perMille) / 1000
}

// when is the true time of a reading.
func (c *clock) when(reading time.Duration) time.Duration {
	if reading == never {
		return never
	}
	return (reading*1000+time.Duration(c.perMille)-1)/time.Duration(c.perMille) + c.stood
}

// wall is what it shows to people.
func (c *clock) wall(now time.Duration) time.Time {
	return epochStart.Add(c.reading(now) + c.step)
}
