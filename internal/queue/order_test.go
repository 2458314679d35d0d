package queue_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/queue"
)

// TestOrderIsDeterministic: a new leader that learns of the same tasks in another order starts them in the same one.
func TestOrderIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		limits := someLimits(r, queue.Rate{})
		limits.Paused = false
		byID := map[string]queue.Task{}
		for range rapid.IntRange(1, 40).Draw(t, "tasks") {
			task := someStep(r, queue.Rate{}).task
			byID[task.ID] = task
		}
		joins := slices.Collect(maps.Values(byID))
		slices.SortFunc(joins, func(a, b queue.Task) int { return strings.Compare(a.ID, b.ID) })
		order := func(tasks []queue.Task) (all []string) {
			now := epoch.Add(time.Minute)
			q := queue.New(limits, now)
			for _, task := range tasks {
				q.Join(task, now)
			}
			for {
				admitted, _ := q.Dispatch(now)
				if len(admitted) == 0 {
					return all
				}
				for _, id := range admitted {
					q.Leave(id)
				}
				all = append(all, admitted...)
			}
		}
		want, got := order(joins), order(rapid.Permutation(joins).Draw(t, "permuted"))
		if !slices.Equal(got, want) || len(got) != len(joins) {
			t.Fatalf("%v, and in another order of joining %v", want, got)
		}
	})
}

// TestPlaceIsKept: Join again, with another time, changes nothing; with another priority, the place is that of its age.
func TestPlaceIsKept(t *testing.T) {
	now := epoch.Add(time.Hour)
	q := queue.New(queue.Limits{}, now)
	task := func(name string, priority int32, minute int) queue.Task {
		return queue.Task{ID: name, Name: name, Priority: priority, Created: epoch.Add(time.Duration(minute) * time.Minute)}
	}
	q.Join(task("first", 0, 1), now)
	q.Join(task("second", 0, 2), now)
	q.Join(task("third", 1, 3), now)
	q.Join(task("first", 0, 50), now)
	q.Join(task("zero", 0, 0), now)
	q.Join(task("zero", 1, 55), now)
	q.Join(queue.Task{ID: "now", Name: "now"}, now)
	q.Join(task("to come", 0, 61), now)
	q.Join(task("almost", 0, 59), now)
	admitted, again := q.Dispatch(now)
	if want := []string{"zero", "third", "first", "second", "almost", "now", "to come"}; !slices.Equal(admitted, want) || again != 0 {
		t.Errorf("%v, want %v", admitted, want)
	}
	q.Join(task("third", 5, 3), now)
	if !q.Turn("third", now).Admitted {
		t.Error("Join of a task that was admitted put it back")
	}
}
