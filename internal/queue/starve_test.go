package queue_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/queue"
)

// TestAgeing: under a load of high priority that is more than the queue can do, one task of low priority starts, and when: after all
// that is not younger than it by Ageing times the difference. Without ageing it never does.
func TestAgeing(t *testing.T) {
	// Each second two tasks of priority 5 come, and one can start.
	for name, tc := range map[string]struct {
		ageing time.Duration
		want   int // the second in which it starts; 0: never
	}{
		"none":          {ageing: 0, want: 0},
		"ten seconds":   {ageing: 10 * time.Second, want: 101}, // after the two of each of 50 seconds
		"twenty":        {ageing: 20 * time.Second, want: 201},
		"a millisecond": {ageing: time.Millisecond, want: 3},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlant(queue.Limits{Concurrency: 1, Ageing: tc.ageing})
			p.join("low", 0)
			for range 2 {
				p.join("high", 5)
			}
			got := 0
			for second := 1; second <= 1000 && got == 0; second++ {
				for _, task := range p.tick(func(queue.Task) time.Duration { return time.Second }) {
					if task.Tenant == "low" {
						got = second
					}
				}
				p.join("high", 5)
				p.join("high", 5)
			}
			if got < tc.want || got > tc.want+2 || (tc.want == 0 && got != 0) {
				t.Errorf("started in second %d, want %d", got, tc.want)
			}
		})
	}
}

// TestAgeingLeavesWeights: two thousand old tasks of one tenant are no reason to let another wait that has come now.
func TestAgeingLeavesWeights(t *testing.T) {
	p := newPlant(queue.Limits{Concurrency: 1, Ageing: time.Second})
	for range 2_000 {
		p.join("old", 0)
	}
	length := func(queue.Task) time.Duration { return time.Second }
	for range 600 {
		p.tick(length)
	}
	for range 10 {
		p.join("new", 0)
	}
	p.starts = nil
	for range 20 {
		p.tick(length)
	}
	for i, task := range p.starts {
		if want := []string{"new", "old"}[i%2]; task.Tenant != want && i > 0 {
			t.Fatalf("start %d is of %s, want %s: %v", i, task.Tenant, want, p.starts)
		}
	}
}

// TestNobodyStarves: whatever tasks come for ever, of any tenants, weights and priorities, more than can be done: with ageing every
// task starts within a time that does not depend on how long this goes on.
func TestNobodyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const tenants, ageing, highest = 4, 5, 3
		limits := queue.Limits{Concurrency: 3, Ageing: ageing * time.Second, Overrides: map[string]queue.Share{}}
		for i := range tenants {
			limits.Overrides[fmt.Sprint(i)] = queue.Share{Weight: rapid.IntRange(1, 10).Draw(t, "weight"), Concurrency: rapid.IntRange(0, 2).Draw(t, "concurrency")}
		}
		p := newPlant(limits)
		first := map[string]bool{}
		for i := range tenants {
			for priority := range int32(highest + 1) {
				p.join(fmt.Sprint(i), priority)
			}
		}
		for id := range p.tasks {
			first[id] = true
		}
		// Each second three can start; four come, so the backlog grows for ever.
		for range 300 {
			for _, task := range p.tick(func(queue.Task) time.Duration { return time.Second }) {
				delete(first, task.ID)
			}
			for range 4 {
				p.join(fmt.Sprint(rapid.IntRange(0, tenants-1).Draw(t, "tenant")), rapid.Int32Range(0, highest).Draw(t, "priority"))
			}
		}
		if len(first) > 0 {
			t.Fatalf("after 300 s still wait, of those that came first: %v", first)
		}
	})
}
