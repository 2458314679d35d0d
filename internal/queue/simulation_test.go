package queue_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leasehold-io/leasehold/internal/queue"
)

// arrival is some tasks that come at a second, of one tenant and priority, each to run for a time, then to end so.
type arrival struct {
	at, count int
	tenant    string
	priority  int32
	run       int
	outcome   queue.Outcome // "": Succeeded
}

// scenario is a story to the end: what comes, and when the limits change.
type scenario struct {
	tells    string
	limits   queue.Limits
	breaker  *queue.BreakerSettings
	arrivals []arrival
	changes  map[int]queue.Limits
}

var scenarios = map[string]scenario{
	"priority": {
		tells:    "One may run at a time. Urgent tasks overtake, and do not stop what runs.",
		limits:   queue.Limits{Concurrency: 1},
		arrivals: []arrival{{0, 4, "a", 0, 2, ""}, {3, 2, "a", 10, 2, ""}, {4, 1, "b", 10, 2, ""}},
	},
	"ageing": {
		tells:    "One may run at a time; five seconds of waiting are worth a priority. The first of the night, two priorities below, starts as soon as what is not younger than it by ten seconds has.",
		limits:   queue.Limits{Concurrency: 1, Ageing: 5 * time.Second},
		arrivals: []arrival{{0, 2, "night", 0, 1, ""}, {0, 8, "day", 2, 1, ""}, {6, 3, "day", 2, 1, ""}, {9, 3, "day", 2, 1, ""}, {11, 4, "day", 2, 1, ""}, {13, 3, "day", 2, 1, ""}},
	},
	"weights": {
		tells:    "Two may run at a time; gold weighs three, silver and iron one. Iron comes late, gets its share from then on, and nothing for the time before.",
		limits:   queue.Limits{Concurrency: 2, Overrides: map[string]queue.Share{"gold": {Weight: 3}}},
		arrivals: []arrival{{0, 14, "gold", 0, 2, ""}, {0, 7, "silver", 0, 2, ""}, {8, 3, "iron", 0, 2, ""}},
	},
	"bulkhead": {
		tells:    "Four may run at a time, of one tenant two. The slow tenant fills its two, and no more; its others stand in nobody's way.",
		limits:   queue.Limits{Concurrency: 4, Default: queue.Share{Concurrency: 2}},
		arrivals: []arrival{{0, 6, "slow", 5, 9, ""}, {1, 5, "quick", 0, 1, ""}, {2, 3, "other", 0, 2, ""}},
	},
	"token bucket": {
		tells:    "Two in four seconds, at most three at once. The bucket is empty at first, and full after the pause; a rate that rises lets nothing start at once.",
		limits:   queue.Limits{Rate: queue.Rate{Count: 2, Period: 4 * time.Second, Burst: 3}},
		arrivals: []arrival{{0, 3, "a", 0, 1, ""}, {20, 8, "a", 0, 1, ""}},
		changes:  map[int]queue.Limits{24: {Rate: queue.Rate{Count: 4, Period: 4 * time.Second, Burst: 3}}},
	},
	"leaky bucket": {
		tells:    "Two in four seconds, evenly.",
		limits:   queue.Limits{Rate: queue.Rate{Algorithm: queue.LeakyBucket, Count: 2, Period: 4 * time.Second}},
		arrivals: []arrival{{0, 3, "a", 0, 1, ""}, {20, 4, "a", 0, 1, ""}},
	},
	"sliding window": {
		tells:    "Never more than two in any four seconds. The window is full at first.",
		limits:   queue.Limits{Rate: queue.Rate{Algorithm: queue.SlidingWindow, Count: 2, Period: 4 * time.Second}},
		arrivals: []arrival{{0, 3, "a", 0, 1, ""}, {6, 1, "a", 0, 1, ""}, {15, 5, "a", 0, 1, ""}},
	},
	"paused": {
		tells:    "Paused from the third second to the eighth; then one may run at a time, where there were two: what runs goes on.",
		limits:   queue.Limits{Concurrency: 2},
		arrivals: []arrival{{0, 6, "a", 0, 3, ""}},
		changes:  map[int]queue.Limits{3: {Concurrency: 2, Paused: true}, 8: {Concurrency: 2}, 9: {Concurrency: 1}},
	},
	"breaker": {
		tells:    "Five may run at a time. Of twelve that come first all fail: after four the breaker is open for ten seconds. The first probe fails, too; then two succeed, and the rest may go. What ran when it opened closes nothing.",
		limits:   queue.Limits{Concurrency: 5},
		breaker:  &queue.BreakerSettings{FailurePercent: 50, MinSamples: 4, Window: time.Minute, OpenFor: 10 * time.Second, Probes: 2},
		arrivals: []arrival{{0, 1, "a", 1, 4, ""}, {0, 5, "a", 0, 2, queue.Failed}, {1, 8, "a", 0, 2, ""}},
	},
}

// TestSimulation runs each story to its end and compares what happened with testdata. UPDATE_GOLDEN=1 rewrites the files.
func TestSimulation(t *testing.T) {
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			got := s.run()
			golden := "testdata/" + strings.ReplaceAll(name, " ", "-") + ".txt"
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// run tells in each line a second, what starts, what has ended, and for what the last one of those that wait waits.
func (s scenario) run() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\n", s.tells)
	q := queue.New(s.limits, epoch)
	var b *queue.Breaker
	if s.breaker != nil {
		b = queue.NewBreaker(*s.breaker, queue.BreakerRecord{}, epoch)
		q.Guard(b)
	}
	kinds, begun := map[string]arrival{}, map[string]int{}
	var waiting []string
	for at := 0; at <= 80; at++ {
		now := second(at)
		var ended []string
		for id, since := range begun {
			if at == since+kinds[id].run {
				ended = append(ended, id)
			}
		}
		slices.Sort(ended)
		for _, id := range ended {
			if b != nil {
				outcome := kinds[id].outcome
				if outcome == "" {
					outcome = queue.Succeeded
				}
				b.Observe(queue.Result{ID: id, Outcome: outcome, Fingerprint: "x", Started: second(begun[id])}, now)
			}
			q.Leave(id)
			delete(begun, id)
		}
		if limits, changed := s.changes[at]; changed {
			q.Limit(limits, now)
		}
		for _, a := range s.arrivals {
			for range a.count {
				if a.at == at {
					id := fmt.Sprintf("%s-%02d", a.tenant, len(kinds)+1)
					kinds[id] = a
					waiting = append(waiting, id)
					q.Join(queue.Task{ID: id, Name: id, Tenant: a.tenant, Priority: a.priority, Created: now}, now)
				}
			}
		}
		started, _ := q.Dispatch(now)
		for _, id := range started {
			q.Hold(id, id, kinds[id].tenant)
			begun[id] = at
			waiting = slices.DeleteFunc(waiting, func(w string) bool { return w == id })
		}
		if len(started)+len(ended) == 0 {
			continue
		}
		fmt.Fprintf(&out, "%2d s", at)
		if len(ended) > 0 {
			fmt.Fprintf(&out, "  ends %s", strings.Join(ended, " "))
		}
		if len(started) > 0 {
			fmt.Fprintf(&out, "  starts %s", strings.Join(started, " "))
		}
		if len(waiting) > 0 {
			last := waiting[len(waiting)-1]
			w := q.Turn(last, now).Waiting
			fmt.Fprintf(&out, "  (%d wait; %s at %d for %s)", len(waiting), last, w.Position, w.Reason)
		}
		out.WriteString("\n")
	}
	return out.String()
}
