package queue_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/queue"
)

// guarded is a queue with ten tasks that wait behind a breaker that is open until 130.
func guarded() (*queue.Queue, *queue.Breaker) {
	q := queue.New(queue.Limits{}, epoch)
	for i := range 10 {
		q.Join(queue.Task{ID: fmt.Sprint(i), Name: fmt.Sprint(i)}, second(i))
	}
	b := queue.NewBreaker(trips, queue.BreakerRecord{State: queue.Open, Since: second(100), Cause: queue.CauseFailurePercent}, second(100))
	q.Guard(b)
	return q, b
}

// TestGuard: while the breaker is open nothing starts; half-open, its probes; a probe that ends in any way makes room for another,
// until enough have succeeded.
func TestGuard(t *testing.T) {
	q, b := guarded()
	dispatch := func(at int, wantAgain time.Duration, want ...string) {
		t.Helper()
		if got, again := q.Dispatch(second(at)); !slices.Equal(got, want) || again != wantAgain {
			t.Errorf("at %d: %v, again after %v; want %v, %v", at, got, again, want, wantAgain)
		}
	}
	observe := func(id string, outcome queue.Outcome, started, at int) {
		b.Observe(queue.Result{ID: id, Outcome: outcome, Started: second(started)}, second(at))
	}
	dispatch(110, 20*time.Second)
	if w := q.Turn("0", second(110)).Waiting; w == nil || w.Reason != queue.BreakerOpen {
		t.Errorf("waits for %+v", w)
	}
	dispatch(130, 0, "0", "1")
	dispatch(131, 0)
	if w := q.Turn("2", second(131)).Waiting; w == nil || w.Reason != queue.BreakerOpen {
		t.Errorf("waits for %+v", w)
	}
	q.Leave("0") // cancelled: nothing is said of it
	dispatch(132, 0, "2")
	observe("1", queue.Neither, 130, 133) // suspended
	dispatch(133, 0, "3")
	observe("2", queue.Succeeded, 132, 134)
	dispatch(134, 0) // one has succeeded, one is under way
	observe("3", queue.Succeeded, 133, 135)
	dispatch(135, 0, "4", "5", "6", "7", "8", "9")
}

// TestGuardOpensAgain: a probe fails. The others of its time say nothing of the next, nor take the place of its probes.
func TestGuardOpensAgain(t *testing.T) {
	q, b := guarded()
	q.Dispatch(second(130))
	b.Observe(queue.Result{ID: "0", Outcome: queue.Failed, Started: second(130)}, second(131))
	if got, again := q.Dispatch(second(131)); len(got) != 0 || again != 30*time.Second {
		t.Errorf("%v start, again after %v", got, again)
	}
	if got, _ := q.Dispatch(second(161)); len(got) != 2 {
		t.Errorf("%v start, want two", got)
	}
	b.Observe(queue.Result{ID: "1", Outcome: queue.Succeeded, Started: second(130)}, second(162))
	if got := b.Record(second(162)); got.State != queue.HalfOpen || got.Successes != 0 {
		t.Errorf("%+v", got)
	}
	q.Guard(nil)
	if got, _ := q.Dispatch(second(163)); len(got) != 6 {
		t.Errorf("without a breaker %v start, want the rest", got)
	}
}

// TestATurnThatWasNotUsedIsTakenBack: by a pause, and by a breaker that opens. The task waits again, where it did. Who has used its turn goes on.
func TestATurnThatWasNotUsedIsTakenBack(t *testing.T) {
	limits := queue.Limits{Concurrency: 2}
	for name, tc := range map[string]struct {
		stop, resume func(q *queue.Queue, b *queue.Breaker)
		reason       queue.Reason
	}{
		"paused": {
			stop: func(q *queue.Queue, _ *queue.Breaker) {
				q.Limit(queue.Limits{Concurrency: 2, Paused: true}, second(101))
			},
			resume: func(q *queue.Queue, _ *queue.Breaker) { q.Limit(limits, second(102)) },
			reason: queue.QueuePaused,
		},
		"broken": {
			stop: func(_ *queue.Queue, b *queue.Breaker) {
				for range 4 {
					b.Observe(queue.Result{ID: "early", Outcome: queue.Failed, Fingerprint: "x", Started: second(99)}, second(101))
				}
			},
			resume: func(_ *queue.Queue, b *queue.Breaker) {
				settings := trips
				settings.Override = queue.OverrideClosed
				b.Set(settings, second(102))
			},
			reason: queue.BreakerOpen,
		},
	} {
		t.Run(name, func(t *testing.T) {
			q, b := queue.New(limits, epoch), queue.NewBreaker(trips, queue.BreakerRecord{}, epoch)
			q.Guard(b)
			join := func(id string) { q.Join(queue.Task{ID: id, Name: id, Created: second(int(id[0]))}, second(101)) }
			join("a")
			join("b")
			join("c")
			if got, _ := q.Dispatch(second(101)); !slices.Equal(got, []string{"a", "b"}) {
				t.Fatalf("%v start", got)
			}
			q.Hold("a", "a", "")
			join("b")
			if turn := q.Turn("b", second(101)); !turn.Admitted {
				t.Errorf("its turn is gone though nothing has happened: %+v", turn)
			}
			tc.stop(q, b)
			join("a")
			join("b")
			if turn := q.Turn("a", second(101)); !turn.Admitted {
				t.Errorf("who has used its turn is %+v", turn)
			}
			turn := q.Turn("b", second(101))
			if turn.Waiting == nil || turn.Waiting.Reason != tc.reason || turn.Waiting.Position != 1 {
				t.Errorf("who has not is %+v, %+v", turn, turn.Waiting)
			}
			if c := q.Counts(second(101)); c.Running != 1 || c.Pending != 2 || !c.Oldest.Equal(second('b')) {
				t.Errorf("%+v", c)
			}
			tc.resume(q, b)
			if got, _ := q.Dispatch(second(102)); !slices.Equal(got, []string{"b"}) {
				t.Errorf("then start %v", got)
			}
		})
	}
}

// TestAProbeKeepsItsTurn: and a task that was let start before the outage, and asks when it is half over, is none.
func TestAProbeKeepsItsTurn(t *testing.T) {
	q := queue.New(queue.Limits{}, epoch)
	q.Join(queue.Task{ID: "early", Name: "early"}, epoch)
	q.Dispatch(epoch)
	b := queue.NewBreaker(trips, queue.BreakerRecord{State: queue.Open, Since: second(100), Cause: queue.CauseFailurePercent}, second(100))
	q.Guard(b)
	for _, id := range []string{"0", "1", "2"} {
		q.Join(queue.Task{ID: id, Name: id, Created: epoch}, second(100))
	}
	if got, _ := q.Dispatch(second(130)); !slices.Equal(got, []string{"0", "1"}) {
		t.Fatalf("%v try", got)
	}
	for _, id := range []string{"0", "early"} {
		q.Join(queue.Task{ID: id, Name: id}, second(131))
	}
	if turn := q.Turn("0", second(131)); !turn.Admitted {
		t.Errorf("the one that tries is %+v", turn)
	}
	if turn := q.Turn("early", second(131)); turn.Waiting == nil || turn.Waiting.Reason != queue.BreakerOpen {
		t.Errorf("the one of before is %+v", turn)
	}
	b.Observe(queue.Result{ID: "1", Outcome: queue.Failed, Started: second(130)}, second(132))
	q.Join(queue.Task{ID: "0", Name: "0"}, second(132))
	if turn := q.Turn("0", second(132)); turn.Admitted {
		t.Error("it tries although another has failed")
	}
}

// TestGuardIsAskedLast: an open breaker, and a paused one, cost no token; a queue where nothing waits has nothing to look at again.
func TestGuardIsAskedLast(t *testing.T) {
	q := queue.New(queue.Limits{Rate: queue.Rate{Count: 1, Period: time.Minute}}, epoch)
	q.Guard(queue.NewBreaker(trips, queue.BreakerRecord{State: queue.Open, Since: second(100)}, second(100)))
	if _, again := q.Dispatch(second(101)); again != 0 {
		t.Errorf("nothing waits, and it says again after %v", again)
	}
	q.Join(queue.Task{ID: "a", Name: "a"}, second(101))
	q.Dispatch(second(102))
	if got, _ := q.Dispatch(second(130)); len(got) != 1 {
		t.Error("the token is gone, and nothing has started")
	}
}

// TestBreakerProperties: whatever is started and observed, in any order, with a failover at any time: open admits nothing and becomes
// half-open after its time; half-open never has more probes under way than it may, but for those of before a failover.
func TestBreakerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := trips
		settings.Probes = rapid.IntRange(1, 4).Draw(t, "probes")
		now := second(0)
		q, b := queue.New(queue.Limits{}, now), queue.NewBreaker(settings, queue.BreakerRecord{}, now)
		q.Guard(b)
		started, n := map[string]time.Time{}, 0
		probes := map[string]bool{} // of this half-open, under way
		var half time.Time
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 0, 5, 31}).Draw(t, "seconds")) * time.Second)
			for range rapid.IntRange(0, 3).Draw(t, "join") {
				n++
				q.Join(queue.Task{ID: fmt.Sprint(n), Name: fmt.Sprint(n)}, now)
			}
			before := b.Record(now)
			if before.State != queue.HalfOpen || !before.Since.Equal(half) {
				clear(probes)
				half = before.Since
			}
			admits, _ := b.Admits(now)
			got, again := q.Dispatch(now)
			switch {
			case before.State == queue.Open && (len(got) > 0 || (again <= 0 && q.Counts(now).Pending > 0) || again > settings.OpenFor):
				t.Fatalf("open: %v start, again after %v", got, again)
			case before.State == queue.Closed && (admits != math.MaxInt || q.Counts(now).Pending > 0):
				t.Fatal("closed, and something waits")
			}
			for _, id := range got {
				started[id] = now
				if before.State == queue.HalfOpen {
					probes[id] = true
				}
			}
			if before.State == queue.HalfOpen && len(got) > 0 && len(probes)+before.Successes > settings.Probes {
				t.Fatalf("%d probes under way, %d have succeeded; there may be %d", len(probes), before.Successes, settings.Probes)
			}
			if len(started) > 0 && rapid.Bool().Draw(t, "end") {
				ids := slices.Sorted(maps.Keys(started))
				id := rapid.SampledFrom(ids).Draw(t, "id")
				outcome := rapid.SampledFrom([]queue.Outcome{queue.Succeeded, queue.Failed, queue.Failed, queue.Neither}).Draw(t, "outcome")
				b.Observe(queue.Result{ID: id, Outcome: outcome, Fingerprint: "x", Started: started[id]}, now)
				q.Leave(id)
				isStale := started[id].Before(before.Since)
				delete(started, id)
				delete(probes, id)
				if after := b.Record(now); isStale && after != before {
					t.Fatalf("what was dispatched before has made %+v of %+v", after, before)
				}
			}
			if rapid.IntRange(0, 20).Draw(t, "failover") == 20 {
				clear(probes)
				record := b.Record(now)
				b = queue.NewBreaker(settings, record, now)
				q.Guard(b)
				if b.Record(now) != record {
					t.Fatalf("%+v went on as %+v", record, b.Record(now))
				}
			}
		}
	})
}
