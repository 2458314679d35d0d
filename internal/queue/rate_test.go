package queue_test

import (
	"fmt"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/queue"
)

// source is a queue that always has enough to start, and nothing but a rate to keep it.
type source struct {
	q *queue.Queue
	n int
}

func newSource(r queue.Rate, now time.Time) *source {
	return &source{q: queue.New(queue.Limits{Rate: r}, now)}
}

func (s *source) dispatch(now time.Time) (int, time.Duration) {
	admitted, again := s.admit(now)
	for _, id := range admitted {
		s.use(id)
	}
	return len(admitted), again
}

// admit lets start who may; what becomes of them is open.
func (s *source) admit(now time.Time) ([]string, time.Duration) {
	for s.q.Counts(now).Pending < 60 {
		s.n++
		s.q.Join(queue.Task{ID: fmt.Sprint(s.n), Name: fmt.Sprint(s.n)}, now)
	}
	return s.q.Dispatch(now)
}

// use starts a task that was let start, and ends it.
func (s *source) use(id string) {
	s.q.Hold(id, id, "")
	s.q.Leave(id)
}

// TestRate tells, for each algorithm, when the first starts are, after New and after a pause.
func TestRate(t *testing.T) {
	for name, tc := range map[string]struct {
		rate queue.Rate
		want []int // milliseconds after New; at 10 s begins a second look, after a pause
	}{
		"TokenBucket is the default, and a second": {rate: queue.Rate{Count: 4}, want: []int{250, 500, 750, 1000, 1250, 10_000, 10_000, 10_000, 10_000, 10_250, 10_500}},
		"its burst":                                  {rate: queue.Rate{Algorithm: queue.TokenBucket, Count: 4, Burst: 2}, want: []int{250, 500, 750, 1000, 1250, 10_000, 10_000, 10_250, 10_500}},
		"LeakyBucket has none":                       {rate: queue.Rate{Algorithm: queue.LeakyBucket, Count: 4}, want: []int{250, 500, 750, 1000, 1250, 10_000, 10_250, 10_500}},
		"SlidingWindow begins full":                  {rate: queue.Rate{Algorithm: queue.SlidingWindow, Count: 2, Period: time.Second}, want: []int{1000, 1000, 10_000, 10_000}},
		"a slow rate: one in 400 ms, in other words": {rate: queue.Rate{Count: 5, Period: 2 * time.Second, Burst: 1}, want: []int{400, 800, 1200, 10_000, 10_400}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSource(tc.rate, epoch)
			var got []int
			for _, look := range []struct{ from, to int }{{0, 1300}, {10_000, 10_600}} {
				for ms := look.from; ms <= look.to; {
					n, again := s.dispatch(epoch.Add(time.Duration(ms) * time.Millisecond))
					got = append(got, slices.Repeat([]int{ms}, n)...)
					if again <= 0 {
						t.Fatal("says that there is nothing to wait for")
					}
					ms += int((again + time.Millisecond - 1) / time.Millisecond)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("starts at %v ms, want %v", got, tc.want)
			}
		})
	}
}

func genPass(t *rapid.T) time.Duration {
	return time.Duration(rapid.SampledFrom([]int{0, 1, 10, 137, 500, 1000, 2500, 9000}).Draw(t, "ms")) * time.Millisecond
}

// TestSlidingWindow counts, at each start, all there were in the period before it: whatever limits come and go, never more than the
// limit that is in force. And a window that is new is full: nothing starts before a period has passed.
func TestSlidingWindow(t *testing.T) {
	gen := rapid.Custom(func(t *rapid.T) queue.Rate {
		return queue.Rate{
			Algorithm: queue.SlidingWindow, Count: rapid.IntRange(1, 12).Draw(t, "count"),
			Period: time.Duration(rapid.IntRange(1, 8).Draw(t, "period")) * time.Second,
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		limit, now := gen.Draw(t, "rate"), epoch
		s := newSource(limit, now)
		var starts []time.Time
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			now = now.Add(genPass(t))
			if rapid.IntRange(0, 4).Draw(t, "change") == 4 {
				limit = gen.Draw(t, "rate")
				s.q.Limit(queue.Limits{Rate: limit}, now)
			}
			n, again := s.dispatch(now)
			for range n {
				starts = append(starts, now)
			}
			in := 0
			for _, at := range starts {
				if at.After(now.Add(-limit.Period)) {
					in++
				}
			}
			if n > 0 && (in > limit.Count || now.Before(epoch.Add(limit.Period))) {
				t.Fatalf("at %v: %d starts in %v, the limit is %d", now.Sub(epoch), in, limit.Period, limit.Count)
			}
			if again <= 0 {
				t.Fatal("says that there is nothing to wait for")
			}
			if rapid.Bool().Draw(t, "obey") { // then something starts
				now = now.Add(again)
				if n, _ := s.dispatch(now); n == 0 {
					t.Fatalf("%v after it said so, nothing starts", again)
				} else {
					starts = append(starts, slices.Repeat([]time.Time{now}, n)...)
				}
			}
		}
	})
}

// TestWindowRisesAtOnce: of a window that was used up, a higher limit lets the difference start at once, and no more.
func TestWindowRisesAtOnce(t *testing.T) {
	minute := func(n int) queue.Limits {
		return queue.Limits{Rate: queue.Rate{Algorithm: queue.SlidingWindow, Count: n, Period: time.Minute}}
	}
	now := epoch
	s := &source{q: queue.New(minute(10), now)}
	s.q.Limit(minute(15), now)
	if n, _ := s.dispatch(now.Add(59 * time.Second)); n != 0 {
		t.Errorf("%d starts of a new window that rose, want 0", n)
	}
	now = now.Add(2 * time.Minute)
	for _, step := range []struct{ limit, want int }{{10, 10}, {15, 5}, {5, 0}, {15, 0}, {20, 5}, {40, 20}} {
		s.q.Limit(minute(step.limit), now)
		if n, _ := s.dispatch(now); n != step.want {
			t.Errorf("at %d: %d start, want %d", step.limit, n, step.want)
		}
	}
}

// TestBuckets compares with an exact account of the tokens, in fractions: what is earned at each limit while it is in force, cut to the
// burst. A higher limit gives nothing at once, a lower one takes what is above its burst.
func TestBuckets(t *testing.T) {
	gen := rapid.Custom(func(t *rapid.T) queue.Rate {
		return queue.Rate{
			Algorithm: rapid.SampledFrom([]queue.Algorithm{queue.TokenBucket, queue.LeakyBucket}).Draw(t, "algorithm"),
			Count:     rapid.IntRange(1, 20).Draw(t, "count"), Period: time.Duration(rapid.IntRange(1, 8).Draw(t, "period")) * time.Second,
			Burst: rapid.IntRange(0, 30).Draw(t, "burst"),
		}
	})
	tolerance := big.NewRat(1, 1_000_000)
	rapid.Check(t, func(t *rapid.T) {
		limit, now := gen.Draw(t, "rate"), epoch
		s, tokens := newSource(limit, now), new(big.Rat)
		pass := func(d time.Duration) {
			now = now.Add(d)
			earned := new(big.Rat).Mul(big.NewRat(int64(d), int64(limit.Period)), big.NewRat(int64(limit.Count), 1))
			burst := big.NewRat(int64(burstOf(limit)), 1)
			if tokens.Add(tokens, earned).Cmp(burst) > 0 {
				tokens = burst
			}
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			pass(genPass(t))
			if rapid.IntRange(0, 4).Draw(t, "change") == 4 {
				limit = gen.Draw(t, "rate")
				s.q.Limit(queue.Limits{Rate: limit}, now)
				pass(0)
			}
			n, again := s.dispatch(now)
			tokens.Sub(tokens, big.NewRat(int64(n), 1))
			if new(big.Rat).Add(tokens, tolerance).Sign() < 0 {
				t.Fatalf("%d start, %s of that was not earned", n, tokens.FloatString(9))
			}
			if new(big.Rat).Sub(tokens, tolerance).Cmp(big.NewRat(1, 1)) >= 0 {
				t.Fatalf("%d start, there is enough for %s more", n, tokens.FloatString(9))
			}
			if pass(again + time.Microsecond); rapid.Bool().Draw(t, "obey") {
				n, _ := s.dispatch(now)
				if tokens.Sub(tokens, big.NewRat(int64(n), 1)); n == 0 {
					t.Fatalf("%v after it said so, nothing starts", again)
				}
			}
		}
	})
}

func burstOf(r queue.Rate) int {
	switch {
	case r.Algorithm == queue.LeakyBucket:
		return 1
	case r.Burst == 0:
		return r.Count
	}
	return r.Burst
}

// TestClockStepsBack: a clock that is set back, by any length, lets nothing start that was not earned in the time that has truly passed,
// and keeps nothing back for longer than the jitter that is allowed for.
func TestClockStepsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := queue.Rate{
			Algorithm: rapid.SampledFrom([]queue.Algorithm{queue.TokenBucket, queue.LeakyBucket, queue.SlidingWindow}).Draw(t, "algorithm"),
			Count:     5, Period: 2 * time.Second,
		}
		passed, back := time.Duration(0), time.Duration(0) // truly passed; what the clock is behind that
		s := newSource(limit, epoch)
		starts, last := []time.Duration{}, time.Duration(0)
		for range rapid.IntRange(20, 200).Draw(t, "steps") {
			passed += time.Duration(rapid.IntRange(1, 700).Draw(t, "ms")) * time.Millisecond
			if rapid.IntRange(0, 9).Draw(t, "step") == 9 {
				back += time.Duration(rapid.SampledFrom([]int{1, 300, 1500, 60_000, 86_400_000}).Draw(t, "back")) * time.Millisecond
				last = passed
			}
			n, _ := s.dispatch(epoch.Add(passed - back))
			starts = append(starts, slices.Repeat([]time.Duration{passed}, n)...)
			if n > 0 {
				last = passed
			}
			if wait := passed - last; wait > limit.Period+time.Second+700*time.Millisecond {
				t.Fatalf("for %v nothing has started", wait)
			}
			for i, first := range starts { // in any time: what it is worth, and a burst
				allowed := 5 + 5*float64(passed-first)/float64(limit.Period)
				switch limit.Algorithm {
				case queue.TokenBucket:
				case queue.LeakyBucket:
					allowed -= 4
				case queue.SlidingWindow:
					if allowed = 1e9; passed-first < limit.Period {
						allowed = 5
					}
				}
				if got := len(starts) - i; float64(got) > allowed+1e-6 {
					t.Fatalf("%d starts in %v", got, passed-first)
				}
			}
		}
	})
}

// TestLateTurnIsNoStepBack: a Turn that is asked for with a time of long ago changes nothing.
func TestLateTurnIsNoStepBack(t *testing.T) {
	s := newSource(queue.Rate{Algorithm: queue.LeakyBucket, Count: 1, Period: time.Minute}, epoch)
	now := epoch.Add(time.Hour)
	if n, _ := s.dispatch(now); n != 1 {
		t.Fatal("nothing has started")
	}
	for range 10 {
		if w := s.q.Turn(fmt.Sprint(s.n), now.Add(-time.Minute)).Waiting; w == nil || w.Reason != queue.RateLimited {
			t.Fatalf("waits for %+v", w)
		}
		if n, again := s.dispatch(now); n != 0 || again != time.Minute {
			t.Fatalf("%d start, again after %v", n, again)
		}
	}
}

// TestJitterEarnsNothing: calls that overtake one another, each with the time at which it set out, do not make time pass faster.
func TestJitterEarnsNothing(t *testing.T) {
	s, starts := newSource(queue.Rate{Algorithm: queue.LeakyBucket, Count: 1}, epoch), 0
	for ms := range 10_000 {
		now := epoch.Add(time.Duration(ms) * time.Millisecond)
		for _, late := range []time.Duration{0, 900 * time.Millisecond, 300 * time.Millisecond} {
			n, _ := s.dispatch(now.Add(-late))
			starts += n
		}
	}
	if starts != 9 {
		t.Errorf("%d starts in ten seconds, want 9: the bucket was empty", starts)
	}
}

// TestAWindowThatAllowsMoreKnowsWhatItKnew: of three starts two are known. The third was not after them.
func TestAWindowThatAllowsMoreKnowsWhatItKnew(t *testing.T) {
	q := queue.New(queue.Limits{Rate: queue.Rate{Algorithm: queue.SlidingWindow, Count: 2}}, epoch)
	start := func(name string, now time.Time) int {
		q.Join(queue.Task{ID: name, Name: name}, now)
		admitted, _ := q.Dispatch(now)
		return len(admitted)
	}
	now := epoch.Add(3 * time.Hour)
	if n := start("a", epoch.Add(time.Hour)) + start("b", now); n != 2 {
		t.Fatalf("%d start", n)
	}
	q.Limit(queue.Limits{Rate: queue.Rate{Algorithm: queue.SlidingWindow, Count: 3, Period: time.Hour}}, now)
	if n := start("c", now) + start("d", now); n != 2 {
		t.Errorf("%d start beside one in this hour, want 2", n)
	}
	if n := start("e", now); n != 0 {
		t.Errorf("a fourth starts")
	}
}
