package plan

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/queue"
)

// simulatedLine is a queue of tasks that look as often as they are told to.
type simulatedLine struct {
	*testing.T
	random *rand.Rand
	spec   v1alpha1.TaskQueueSpec
	queue  *queue.Queue
	tasks  map[string]*waiter
	ends   map[int][]string // by the second

	looks          map[int]int // by the second
	writes, needed int
	changes        int // of the reason, from one look to the next
}

// waiter is one task.
type waiter struct {
	*Snapshot
	due    int // the second of its next look
	told   int // its place as it was needed last; 0: never
	reason queue.Reason
}

func (l *simulatedLine) at(second int) time.Time {
	return start.Add(time.Duration(second) * time.Second)
}

// pass is one second: some end, some start, and some of the others look.
func (l *simulatedLine) pass(second int) {
	for _, id := range l.ends[second] {
		l.queue.Leave(id)
	}
	admitted, _ := l.queue.Dispatch(l.at(second))
	for _, id := range admitted {
		l.queue.Hold(id, id, "default")
		end := second + 10 + l.random.IntN(21)
		l.ends[end] = append(l.ends[end], id)
		delete(l.tasks, id)
	}
	for _, id := range slices.Sorted(maps.Keys(l.tasks)) {
		if w := l.tasks[id]; w.due <= second {
			l.look(id, w, second)
		}
	}
}

func (l *simulatedLine) look(id string, w *waiter, second int) {
	turn := l.queue.Turn(id, l.at(second))
	if place := roughly(turn.Waiting.Position); w.told == 0 || place < w.told {
		w.told = place
		l.needed++
	}
	if w.reason != "" && w.reason != turn.Waiting.Reason {
		l.changes++
	}
	w.reason, w.Turn, w.Jitter = turn.Waiting.Reason, &turn, l.random.Float64()
	p := Decide(w.Snapshot)
	if p.Status != nil {
		l.writes++
		w.Snapshot = carried(l.T, w.Snapshot, &p)
	}
	w.due = second + int(p.Requeue/time.Second)
	l.looks[second]++
}

// TestTwoLimitsThatBindAboutAsMuchAreNotToldInTurn: a rate of 30 a minute, and a concurrency that comes to the same. Nor do the tasks, which
// have all begun to wait at once, go on to look at once.
func TestTwoLimitsThatBindAboutAsMuchAreNotToldInTurn(t *testing.T) {
	l := &simulatedLine{T: t, random: rand.New(rand.NewPCG(1, 2)), tasks: map[string]*waiter{}, ends: map[int][]string{}, looks: map[int]int{},
		spec:  v1alpha1.TaskQueueSpec{Concurrency: 10, Dispatch: v1alpha1.DispatchSpec{Rate: 30, PeriodSeconds: 60, Burst: 1}},
		queue: queue.New(queue.Limits{Concurrency: 10, Rate: queue.Rate{Count: 30, Period: time.Minute, Burst: 1}}, start)}
	const tasks = 1000
	for i := range tasks {
		s, name := given(available, queued), fmt.Sprintf("task-%04d", i)
		s.Queue.Spec, s.Task.Name = l.spec, name
		l.tasks[name] = &waiter{Snapshot: s}
		l.queue.Join(queue.Task{ID: name, Name: name, Tenant: "default", Created: start}, start)
	}
	for second := range 1800 {
		l.pass(second)
	}
	t.Logf("%d left; %d changes of the reason, %d writes, of which %d were needed", len(l.tasks), l.changes, l.writes, l.needed)
	if l.changes < tasks {
		t.Errorf("the reason has changed %d times: nothing was tried", l.changes)
	}
	if l.writes > l.needed {
		t.Errorf("%d writes, and %d were needed", l.writes, l.needed)
	}
	for second := 600; second < 900; second++ { // some 700 tasks, each every 150 s: 5 in a second
		if l.looks[second] > 30 {
			t.Errorf("%d tasks look in second %d", l.looks[second], second)
		}
	}
}

// TestAnotherLimitIsToldOnceTheOneThatWasToldIsNoMore: what stands is kept while the queue has that limit.
func TestAnotherLimitIsToldOnceTheOneThatWasToldIsNoMore(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.TaskQueueSpec)
		writes bool
	}{
		"it is as it was": {func(*v1alpha1.TaskQueueSpec) {}, false},
		"it is another":   {func(spec *v1alpha1.TaskQueueSpec) { spec.Concurrency = 4 }, true},
		"it is gone":      {func(spec *v1alpha1.TaskQueueSpec) { spec.Concurrency = 0 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := given(available, queued, awaits(queue.QueueConcurrency, 7))
			s.Queue.Spec.Concurrency, s.Queue.Spec.Dispatch = 3, v1alpha1.DispatchSpec{Rate: 3, PeriodSeconds: 60}
			p := Decide(s)
			s = carried(t, s, &p)
			test.change(&s.Queue.Spec)
			for _, reason := range []queue.Reason{queue.RateLimited, queue.TenantConcurrency} {
				awaits(reason, 7)(s)
				if reason == queue.TenantConcurrency {
					s.Queue.Spec.Tenants.Overrides = []v1alpha1.TenantOverride{{Name: "default", Concurrency: 3}}
				}
				if p := Decide(s); (p.Status != nil) != test.writes {
					t.Errorf("%s: it is written: %t", reason, p.Status != nil)
				}
			}
			if awaits(queue.TenantConcurrency, 300)(s); (Decide(s).Status != nil) != test.writes {
				t.Errorf("the place among others: it is written: %t", !test.writes)
			}
			awaits(queue.RateLimited, 300)(s)
			if p := Decide(s); p.Status == nil {
				t.Error("that others have come before it is not told")
			}
			for _, reason := range []queue.Reason{queue.BreakerOpen, queue.QueuePaused} {
				awaits(reason, 7)(s)
				if p := Decide(s); p.Status == nil {
					t.Errorf("%s is not told", reason)
				}
			}
		})
	}
}
