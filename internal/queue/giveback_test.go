package queue_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/queue"
)

// spare works out anew, from all starts of a queue that has begun empty, how many more there might have been at the last of them; and the
// least that there might have been at any. Below zero, there was one too many.
func spare(r queue.Rate, starts []time.Time) (last, least float64) {
	burst, tokens, then := float64(burstOf(r)), 0.0, epoch
	for i, at := range starts {
		tokens, then = min(burst, tokens+float64(at.Sub(then))*float64(r.Count)/float64(r.Period))-1, at
		if last = tokens; r.Algorithm == queue.SlidingWindow {
			last = 1
			if at.Before(epoch.Add(r.Period)) || i >= r.Count && at.Before(starts[i-r.Count].Add(r.Period)) {
				last = -1
			}
		}
		least = min(least, last)
	}
	return last, least
}

// TestATurnThatIsNotUsedCostsTheRateNothing, and earns nothing: at any time, those that have started, and those that still may, are no more
// than the rate allows, and one more would be too many. As if those that gave their turn back had never been.
func TestATurnThatIsNotUsedCostsTheRateNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := queue.Rate{
			Algorithm: rapid.SampledFrom([]queue.Algorithm{queue.TokenBucket, queue.LeakyBucket, queue.SlidingWindow}).Draw(t, "algorithm"),
			Count:     rapid.IntRange(1, 8).Draw(t, "count"), Period: time.Duration(rapid.IntRange(1, 8).Draw(t, "period")) * time.Second,
			Burst: rapid.IntRange(0, 12).Draw(t, "burst"),
		}
		s, now := newSource(limit, epoch), epoch
		var starts []time.Time
		given := map[string]time.Time{} // turns that were not used yet
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now = now.Add(genPass(t))
			for _, id := range slices.Sorted(maps.Keys(given)) {
				switch rapid.SampledFrom([]string{"waits", "gives back", "starts"}).Draw(t, "fate") {
				case "starts":
					s.use(id)
					delete(given, id)
				case "gives back":
					s.q.Leave(id)
					i, _ := slices.BinarySearchFunc(starts, given[id], time.Time.Compare)
					starts = slices.Delete(starts, i, i+1)
					delete(given, id)
				}
			}
			admitted, _ := s.admit(now)
			for _, id := range admitted {
				given[id], starts = now, append(starts, now)
			}
			const rounding = 1e-6
			if _, least := spare(limit, starts); least < -rounding {
				t.Fatalf("more start than %+v allows: %v", limit, starts)
			}
			if last, least := spare(limit, append(starts, now)); last > rounding && least >= -rounding {
				t.Fatalf("nothing more starts at %v, and %+v allows it: %v", now.Sub(epoch), limit, starts)
			}
		}
	})
}

// TestATokenThatComesBackLateIsNotWorthTwo: while it was out, the bucket has earned another.
func TestATokenThatComesBackLateIsNotWorthTwo(t *testing.T) {
	s := newSource(queue.Rate{Algorithm: queue.LeakyBucket, Count: 1, Period: time.Minute}, epoch)
	first, _ := s.admit(epoch.Add(time.Minute))
	if n, _ := s.dispatch(epoch.Add(2 * time.Minute)); n != 1 || len(first) != 1 {
		t.Fatalf("%v and %d start", first, n)
	}
	s.q.Leave(first[0])
	if n, again := s.dispatch(epoch.Add(2 * time.Minute)); n != 0 || again != time.Minute {
		t.Errorf("%d start in the same moment, again after %v", n, again)
	}
}

// TestATurnThatIsTakenBackCostsTheRateNothing: it is given again at once when the pause is over.
func TestATurnThatIsTakenBackCostsTheRateNothing(t *testing.T) {
	rate := queue.Rate{Count: 1, Period: time.Hour}
	q, now := queue.New(queue.Limits{Rate: rate}, epoch), epoch.Add(time.Hour)
	task := queue.Task{ID: "a", Name: "a"}
	q.Join(task, now)
	for _, isPaused := range []bool{false, true, false} {
		q.Limit(queue.Limits{Rate: rate, Paused: isPaused}, now)
		q.Dispatch(now)
		q.Join(task, now)
		if turn := q.Turn("a", now); turn.Admitted == isPaused {
			t.Errorf("paused %t: %+v", isPaused, turn.Waiting)
		}
	}
}

// TestNobodyGainsByGivingTurnsBack: a tenant whose tasks give back some of their turns, and join again, starts no more than its share, and
// takes nothing from the other.
func TestNobodyGainsByGivingTurnsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, now := queue.New(queue.Limits{Rate: queue.Rate{Algorithm: queue.LeakyBucket, Count: 1}}, epoch), epoch
		join := func(tenant string, n int) {
			id := fmt.Sprint(tenant, "-", n)
			q.Join(queue.Task{ID: id, Name: id, Tenant: tenant, Created: epoch}, now)
		}
		n, starts := 0, map[string]int{}
		for range 2 {
			n++
			join("honest", n)
			join("fickle", n)
		}
		const seconds = 60
		for range seconds {
			now = now.Add(time.Second)
			for {
				admitted, _ := q.Dispatch(now)
				if len(admitted) == 0 {
					break
				}
				id := admitted[0]
				tenant := id[:len("honest")]
				if n++; tenant == "fickle" && rapid.Bool().Draw(t, "gives back") {
					q.Leave(id)
				} else {
					q.Hold(id, id, tenant)
					q.Leave(id)
					starts[tenant]++
				}
				join(tenant, n)
			}
		}
		if starts["fickle"] > starts["honest"]+1 || starts["honest"]+starts["fickle"] != seconds {
			t.Fatalf("%v", starts)
		}
	})
}

// TestATurnThatComesBackLateFromABusyQueueCostsTheRateNothing: the bucket fills in a tenth of a second, in which no pass over a task is over,
// but as somebody always starts it is never full.
func TestATurnThatComesBackLateFromABusyQueueCostsTheRateNothing(t *testing.T) {
	s := newSource(queue.Rate{Count: 100, Burst: 10}, epoch)
	starts := 0
	for now := epoch; now.Before(epoch.Add(10 * time.Second)); now = now.Add(10 * time.Millisecond) {
		n, _ := s.dispatch(now)
		starts += n
	}
	now := epoch.Add(10 * time.Second)
	late, _ := s.admit(now)
	for range 100 {
		now = now.Add(10 * time.Millisecond)
		n, _ := s.dispatch(now)
		starts += n
	}
	if starts < 1000 || len(late) != 1 {
		t.Fatalf("%d starts, and %d", starts, len(late))
	}
	s.q.Leave(late[0])
	if n, again := s.dispatch(now); n != 1 {
		t.Errorf("%d start in its stead, again after %v", n, again)
	}
}

// TestATurnThatIsNotUsedCostsASlowerWindowNothing: the starts of before came at the short period, and say nothing of how long ago the last
// one was.
func TestATurnThatIsNotUsedCostsASlowerWindowNothing(t *testing.T) {
	s := newSource(queue.Rate{Algorithm: queue.SlidingWindow, Count: 1}, epoch)
	if n, _ := s.dispatch(epoch.Add(time.Second)); n != 1 {
		t.Fatalf("%d start", n)
	}
	s.q.Limit(queue.Limits{Rate: queue.Rate{Algorithm: queue.SlidingWindow, Count: 1, Period: time.Hour}}, epoch.Add(time.Second))
	now := epoch.Add(2 * time.Hour)
	for range 3 {
		admitted, again := s.admit(now)
		if len(admitted) != 1 {
			t.Fatalf("%d start, again after %v", len(admitted), again)
		}
		s.q.Leave(admitted[0])
	}
	if n, _ := s.dispatch(now); n != 1 {
		t.Errorf("%d start", n)
	}
	if n, again := s.dispatch(now); n != 0 || again != time.Hour {
		t.Errorf("%d more start, again after %v", n, again)
	}
}
