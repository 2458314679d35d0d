package queue_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/queue"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// step is one call, or time that passes.
type step struct {
	call   string // Join, Hold, Leave, Finish (Hold and Leave of a holder), Limit, Pass
	task   queue.Task
	limits queue.Limits
	pass   time.Duration
}

// The steps come from an even source, not from rapid, which prefers few values: of those there is never a backlog of many tenants.
func someLimits(r *rand.Rand, rate queue.Rate) queue.Limits {
	share := func() queue.Share { return queue.Share{Concurrency: r.IntN(4), Weight: []int{0, 1, 2, 4}[r.IntN(4)]} }
	l := queue.Limits{
		Concurrency: r.IntN(5), Default: share(), Overrides: map[string]queue.Share{}, Rate: rate,
		Ageing: []time.Duration{0, time.Second, 4 * time.Second}[r.IntN(3)], Paused: r.IntN(10) == 0,
	}
	for _, tenant := range []string{"a", "b"} {
		l.Overrides[tenant] = share()
	}
	return l
}

func someStep(r *rand.Rand, rate queue.Rate) step {
	calls := []string{"Join", "Join", "Join", "Join", "Finish", "Finish", "Finish", "Pass", "Leave", "Hold", "Limit"}
	id := fmt.Sprintf("t%02d", r.IntN(40))
	s := step{call: calls[r.IntN(len(calls))], pass: time.Duration(r.IntN(3000)) * time.Millisecond, task: queue.Task{
		ID: "uid-" + id, Name: id, Tenant: []string{"a", "b", "c", "d"}[r.IntN(4)],
		Priority: int32(r.IntN(3) - 1), Created: epoch.Add(time.Duration(r.IntN(30)) * time.Second),
	}}
	if s.call == "Limit" && r.IntN(3) == 0 { // seldom: a backlog takes time
		s.limits = someLimits(r, rate)
	} else if s.call == "Limit" {
		s.call = "Pass"
	}
	return s
}

// TestModel does the same to the queue and to the naive one, and compares all they say, after every call; and it looks at the limits
// itself. The calls are any, in any order: Hold of a task never seen, Leave of one that never joined, or has not used its turn, Join of one
// that holds.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rate := queue.Rate{}
		if rapid.Bool().Draw(t, "rated") {
			rate = queue.Rate{Algorithm: queue.SlidingWindow, Count: rapid.IntRange(1, 4).Draw(t, "count"), Period: 2 * time.Second}
		}
		limits, now := someLimits(r, rate), epoch.Add(15*time.Second)
		q, n := queue.New(limits, now), newNaive(limits, now)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			s := someStep(r, rate)
			switch s.call {
			case "Join":
				q.Join(s.task, now)
				n.join(s.task, now)
			case "Hold":
				q.Hold(s.task.ID, s.task.Name, s.task.Tenant)
				n.hold(s.task)
			case "Leave":
				q.Leave(s.task.ID)
				n.leave(s.task.ID)
			case "Finish":
				if held := slices.Sorted(maps.Keys(n.holders)); len(held) > 0 {
					task := n.holders[held[0]]
					q.Hold(task.ID, task.Name, task.Tenant)
					q.Leave(task.ID)
					n.hold(task)
					n.leave(task.ID)
				}
			case "Limit":
				q.Limit(s.limits, now)
				n.limits = s.limits
			case "Pass":
				now = now.Add(s.pass)
			}
			compare(t, q, n, now) // what a task waits for before Dispatch
			dispatch(t, q, n, now)
			compare(t, q, n, now)
		}
	})
}

// dispatch compares, and finds any limit exceeded, and any task that waits for nothing.
func dispatch(t *rapid.T, q *queue.Queue, n *naive, now time.Time) {
	before := len(n.holders)
	got, gotAgain := q.Dispatch(now)
	want, wantAgain := n.dispatch(now)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("Dispatch (-naive +queue):\n%s", diff)
	}
	if gotAgain != wantAgain {
		t.Fatalf("Dispatch: again after %v, naive %v", gotAgain, wantAgain)
	}
	if limit := n.limits.Concurrency; limit > 0 && len(got) > 0 && before+len(got) > limit {
		t.Fatalf("%d hold capacity, the limit is %d", before+len(got), limit)
	}
	if len(got) > 0 && n.limits.Paused {
		t.Fatal("a paused queue admits")
	}
	for _, id := range got {
		if s := n.share(n.holders[id].Tenant); s.Concurrency > 0 && n.held(n.holders[id].Tenant) > s.Concurrency {
			t.Fatalf("tenant %s holds %d, its limit is %d", n.holders[id].Tenant, n.held(n.holders[id].Tenant), s.Concurrency)
		}
	}
	inWindow := 0
	for _, s := range n.starts {
		if s.After(now.Add(-n.limits.Rate.Period)) {
			inWindow++
		}
	}
	if n.limits.Rate.Count > 0 && inWindow > n.limits.Rate.Count {
		t.Fatalf("%d starts in the window, the limit is %d", inWindow, n.limits.Rate.Count)
	}
	for id := range n.waiting {
		if turn := q.Turn(id, now); turn.Waiting == nil || turn.Waiting.Reason == queue.Queued {
			t.Fatalf("%s waits for nothing after Dispatch: %+v", id, turn)
		}
	}
}

func compare(t *rapid.T, q *queue.Queue, n *naive, now time.Time) {
	counts := queue.Counts{Pending: len(n.waiting), Running: len(n.holders)}
	tenants := map[string]*queue.TenantCount{}
	tenant := func(name string) *queue.TenantCount {
		if tenants[name] == nil {
			tenants[name] = &queue.TenantCount{Name: name}
		}
		return tenants[name]
	}
	for id, w := range n.waiting {
		turn := q.Turn(id, now)
		if turn.Waiting == nil || turn.Admitted || turn.Waiting.Reason != n.reason(w, now) {
			t.Fatalf("%s: %+v, want to wait for %s", id, turn.Waiting, n.reason(w, now))
		}
		if turn.Waiting.Position < 1 || turn.Waiting.Position > len(n.waiting) {
			t.Fatalf("%s: position %d of %d", id, turn.Waiting.Position, len(n.waiting))
		}
		if counts.Oldest.IsZero() || w.Created.Before(counts.Oldest) {
			counts.Oldest, counts.OldestAge = w.Created, now.Sub(w.Created)
		}
		tenant(w.Tenant).Pending++
	}
	for id, h := range n.holders {
		if turn := q.Turn(id, now); !turn.Admitted || turn.Waiting != nil {
			t.Fatalf("%s: %+v, want admitted", id, turn)
		}
		tenant(h.Tenant).Running++
	}
	for _, c := range tenants {
		counts.Tenants = append(counts.Tenants, *c)
	}
	slices.SortFunc(counts.Tenants, func(a, b queue.TenantCount) int {
		if n := b.Pending + b.Running - a.Pending - a.Running; n != 0 {
			return n
		}
		return strings.Compare(a.Name, b.Name)
	})
	if diff := cmp.Diff(counts, q.Counts(now)); diff != "" {
		t.Fatalf("Counts (-naive +queue):\n%s", diff)
	}
	if turn := q.Turn("unknown", now); turn != (queue.Turn{}) {
		t.Fatalf("unknown: %+v", turn)
	}
}
