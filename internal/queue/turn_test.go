package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/queue"
)

// TestTurn tells what a task waits for: the limit that would stop it even if it were the next, the position, and who holds.
func TestTurn(t *testing.T) {
	// Five tasks hold, four of them of tenant a; c-1 waits at priority 1, then a-1, b-1, a-2, b-2 at 0, in the order of their age.
	for name, tc := range map[string]struct {
		limits queue.Limits
		task   string
		want   queue.Turn
	}{
		"unknown": {task: "nobody"},
		"holds":   {task: "held-a-3", want: queue.Turn{Admitted: true}},
		"nothing is in its way": {
			task: "a-1", want: queue.Turn{Waiting: &queue.Waiting{Reason: queue.Queued, Position: 2}},
		},
		"concurrency": {
			limits: queue.Limits{Concurrency: 5}, task: "b-2",
			want: queue.Turn{Waiting: &queue.Waiting{Reason: queue.QueueConcurrency, Limit: 5, Position: 5, HeldBy: 5, Holders: []string{"held-a-1", "held-a-2", "held-a-3"}}},
		},
		"a lower one than is held": {
			limits: queue.Limits{Concurrency: 2}, task: "c-1",
			want: queue.Turn{Waiting: &queue.Waiting{Reason: queue.QueueConcurrency, Limit: 2, Position: 1, HeldBy: 5, Holders: []string{"held-a-1", "held-a-2", "held-a-3"}}},
		},
		"the tenant's concurrency comes first, and the position is among its own": {
			limits: queue.Limits{Concurrency: 5, Default: queue.Share{Concurrency: 4}}, task: "a-2",
			want: queue.Turn{Waiting: &queue.Waiting{Reason: queue.TenantConcurrency, Limit: 4, Position: 2, HeldBy: 4, Holders: []string{"held-a-1", "held-a-2", "held-a-3"}}},
		},
		"another tenant does not wait for those that are at their limit": {
			limits: queue.Limits{Concurrency: 5, Default: queue.Share{Concurrency: 4}}, task: "b-2",
			want: queue.Turn{Waiting: &queue.Waiting{Reason: queue.QueueConcurrency, Limit: 5, Position: 3, HeldBy: 5, Holders: []string{"held-a-1", "held-a-2", "held-a-3"}}},
		},
		"an override": {
			limits: queue.Limits{Overrides: map[string]queue.Share{"b": {Concurrency: 1}}}, task: "b-1",
			want: queue.Turn{Waiting: &queue.Waiting{Reason: queue.TenantConcurrency, Limit: 1, Position: 1, HeldBy: 1, Holders: []string{"held-b-1"}}},
		},
		"an override of the weight alone leaves the default": {
			limits: queue.Limits{Default: queue.Share{Concurrency: 1}, Overrides: map[string]queue.Share{"b": {Weight: 7}}}, task: "b-1",
			want: queue.Turn{Waiting: &queue.Waiting{Reason: queue.TenantConcurrency, Limit: 1, Position: 1, HeldBy: 1, Holders: []string{"held-b-1"}}},
		},
		"the rate": {
			limits: queue.Limits{Rate: queue.Rate{Algorithm: queue.SlidingWindow, Count: 3, Period: time.Hour}}, task: "b-1",
			want: queue.Turn{Waiting: &queue.Waiting{Reason: queue.RateLimited, Limit: 3, Period: time.Hour, Position: 3}},
		},
		"paused comes before all, and b, which is at its limit, is not counted": {
			limits: queue.Limits{Paused: true, Concurrency: 1, Default: queue.Share{Concurrency: 1}}, task: "a-2",
			want: queue.Turn{Waiting: &queue.Waiting{Reason: queue.QueuePaused, Position: 3}},
		},
		"weights": {
			limits: queue.Limits{Overrides: map[string]queue.Share{"b": {Weight: 2}}}, task: "b-2",
			want: queue.Turn{Waiting: &queue.Waiting{Reason: queue.Queued, Position: 4}},
		},
		"ageing: two seconds are worth more than a priority": {
			limits: queue.Limits{Ageing: time.Second}, task: "c-1",
			want: queue.Turn{Waiting: &queue.Waiting{Reason: queue.Queued, Position: 5}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := epoch.Add(time.Minute)
			q := queue.New(tc.limits, now)
			for _, held := range []string{"a-4", "b-1", "a-2", "a-3", "a-1"} {
				q.Hold("uid-held-"+held, "held-"+held, held[:1])
			}
			for i, waits := range []string{"a-1", "b-1", "a-2", "b-2", "c-1"} {
				q.Join(queue.Task{ID: "uid-" + waits, Name: waits, Tenant: waits[:1], Priority: int32(i / 4), Created: second(i)}, now)
			}
			if diff := cmp.Diff(tc.want, q.Turn("uid-"+tc.task, now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPosition: of up to a hundred tenants, without ageing and limits of tenants, a position is no estimate: it is the place in which
// the task starts. Of more tenants it is close.
func TestPosition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits, now := queue.Limits{Concurrency: 1, Overrides: map[string]queue.Share{}}, epoch
		tenants := rapid.IntRange(1, 8).Draw(t, "tenants")
		for i := range tenants {
			limits.Overrides[fmt.Sprint(i)] = queue.Share{Weight: rapid.IntRange(1, 9).Draw(t, "weight")}
		}
		q := queue.New(limits, now)
		n := rapid.IntRange(1, 100).Draw(t, "tasks")
		for i := range n {
			id := fmt.Sprintf("%03d", i)
			q.Join(queue.Task{ID: id, Name: id, Tenant: fmt.Sprint(rapid.IntRange(0, tenants-1).Draw(t, "tenant")), Priority: rapid.Int32Range(0, 2).Draw(t, "priority"), Created: epoch.Add(-time.Duration(rapid.IntRange(0, 9).Draw(t, "age")) * time.Second)}, now)
		}
		skipped := rapid.IntRange(0, n-1).Draw(t, "skipped")
		start := func() string {
			admitted, _ := q.Dispatch(now)
			if len(admitted) == 1 {
				q.Leave(admitted[0])
				return admitted[0]
			}
			return ""
		}
		for range skipped { // so that tags are not all equal
			start()
		}
		want := map[int]string{}
		for i := range n {
			if w := q.Turn(fmt.Sprintf("%03d", i), now).Waiting; w != nil {
				want[w.Position] += fmt.Sprintf("%03d", i)
			}
		}
		for i := 1; i <= n-skipped; i++ {
			if got := start(); got != want[i] {
				t.Fatalf("as number %d starts %q, at that position was %q: %v", i, got, want[i], want)
			}
		}
	})
}

// TestPositionOfManyTenants: a sample of a thousand tenants gives about the right answer.
func TestPositionOfManyTenants(t *testing.T) {
	q := queue.New(queue.Limits{}, epoch)
	for i := range 5000 {
		id := fmt.Sprintf("%04d", i)
		q.Join(queue.Task{ID: id, Name: id, Tenant: fmt.Sprint(i % 1000), Created: second(i)}, second(5000))
	}
	for _, place := range []int{1, 500, 1500, 3000, 4500, 5000} {
		got := q.Turn(fmt.Sprintf("%04d", place-1), second(5000)).Waiting.Position
		if low, high := place*8/10-50, place*12/10+500; got < low || got > high || got < 1 || got > 5000 {
			t.Errorf("task %d is told %d", place, got)
		}
	}
}

// TestCountsNamesTheTop: ten tenants with most tasks, waiting and running ones; equals by name.
func TestCountsNamesTheTop(t *testing.T) {
	q := queue.New(queue.Limits{Paused: true}, epoch)
	for i := range 20 {
		for j := range i/2 + 1 {
			id, tenant := fmt.Sprint(i, "-", j), fmt.Sprintf("%02d", i)
			if q.Hold(id, id, tenant); j%2 == 0 {
				q.Leave(id)
				q.Join(queue.Task{ID: id, Name: id, Tenant: tenant, Created: second(i)}, second(30))
			}
		}
	}
	c := q.Counts(second(30))
	var names []string
	for _, tenant := range c.Tenants {
		names = append(names, tenant.Name)
	}
	if want := []string{"18", "19", "16", "17", "14", "15", "12", "13", "10", "11"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if got, want := c.Tenants[0], (queue.TenantCount{Name: "18", Pending: 5, Running: 5}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if c.Pending+c.Running != 110 || !c.Oldest.Equal(second(0)) || c.OldestAge != 30*time.Second {
		t.Errorf("%+v", c)
	}
}
