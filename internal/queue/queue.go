package queue

import (
	"cmp"
	"slices"
	"time"
)

// Queue is the state of one TaskQueue.
type Queue struct {
	limits  Limits
	breaker *Breaker
	waiting []Task
	holders map[string]Task
}

// New is an empty queue. Its bucket is empty, or its window full: what was started before is not known.
func New(limits Limits, now time.Time) *Queue {
	q := &Queue{holders: map[string]Task{}}
	q.Limit(limits, now)
	return q
}

// Limit takes a changed spec. It stops nothing.
func (q *Queue) Limit(limits Limits, now time.Time) { q.limits = limits }

// Guard puts the queue behind a breaker: Dispatch starts what it admits, and tells it of the probes. nil: none.
func (q *Queue) Guard(b *Breaker) { q.breaker = b }

// Join says that the task waits for its turn, since t.Created, or now if that is zero or to come. Said again, it updates priority
// and tenant, and the task keeps its place. It has no effect on a task that holds capacity or was admitted.
func (q *Queue) Join(t Task, now time.Time) {
	if _, holds := q.holders[t.ID]; holds {
		return
	}
	if t.Created.IsZero() || t.Created.After(now) {
		t.Created = now
	}
	if i := q.index(t.ID); i >= 0 {
		t.Created = q.waiting[i].Created
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	q.waiting = append(q.waiting, t)
	slices.SortFunc(q.waiting, func(a, b Task) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
}

// Hold says that the task was seen to hold capacity, whether the queue has admitted it or not.
func (q *Queue) Hold(id, name, tenant string) {
	q.Leave(id)
	q.holders[id] = Task{ID: id, Name: name, Tenant: tenant}
}

// Leave says that the task neither waits nor holds capacity.
func (q *Queue) Leave(id string) {
	if i := q.index(id); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	delete(q.holders, id)
}

// Dispatch admits what may start now, in the order in which it may. Each counts as a holder until Hold or Leave says what became of
// it. If again is not zero, there is more to do after that time, though nothing else changes.
func (q *Queue) Dispatch(now time.Time) (admitted []string, again time.Duration) {
	for len(q.waiting) > 0 && !q.limits.Paused && (q.limits.Concurrency == 0 || len(q.holders) < q.limits.Concurrency) {
		t := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.holders[t.ID] = t
		admitted = append(admitted, t.ID)
	}
	return admitted, 0
}

// Turn is where the task stands.
func (q *Queue) Turn(id string, now time.Time) Turn {
	if _, holds := q.holders[id]; holds {
		return Turn{Admitted: true}
	}
	i := q.index(id)
	if i < 0 {
		return Turn{}
	}
	w := Waiting{Reason: QueueConcurrency, Limit: q.limits.Concurrency, Position: i + 1, HeldBy: len(q.holders)}
	for _, t := range q.holders {
		w.Holders = append(w.Holders, t.Name)
	}
	slices.Sort(w.Holders)
	w.Holders = w.Holders[:min(3, len(w.Holders))]
	return Turn{Waiting: &w}
}

// Counts is what the queue does now.
func (q *Queue) Counts(now time.Time) Counts {
	return Counts{Pending: len(q.waiting), Running: len(q.holders)}
}

func (q *Queue) index(id string) int {
	return slices.IndexFunc(q.waiting, func(t Task) bool { return t.ID == id })
}
