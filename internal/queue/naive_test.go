package queue_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasehold-io/leasehold/internal/queue"
)

// naive is the queue as one would explain it: it keeps everything, and computes everything anew from all of it. Weights have to divide
// quarters.
type naive struct {
	limits  queue.Limits
	since   time.Time
	waiting map[string]queue.Task
	holders map[string]queue.Task
	starts  []time.Time
	unused  map[string]time.Time     // turns, by ID, since when
	tags    map[int32]map[string]int // by priority and tenant, in quarters of a start at weight 1
	virtual map[int32]int
}

const quarters = 4

func newNaive(limits queue.Limits, now time.Time) *naive {
	return &naive{limits: limits, since: now, waiting: map[string]queue.Task{}, holders: map[string]queue.Task{}, unused: map[string]time.Time{}, tags: map[int32]map[string]int{}, virtual: map[int32]int{}}
}

func (n *naive) join(t queue.Task, now time.Time) {
	if t.Created.IsZero() || t.Created.After(now) {
		t.Created = now
	}
	if held, holds := n.holders[t.ID]; holds {
		if _, isUnused := n.unused[t.ID]; !isUnused || !n.limits.Paused {
			return
		}
		n.leave(t.ID)
		t.Created = held.Created
	}
	if old, waits := n.waiting[t.ID]; waits {
		if old.Priority == t.Priority && old.Tenant == t.Tenant {
			return
		}
		t.Created = old.Created
		n.unwait(old)
	}
	n.waiting[t.ID] = t
}

func (n *naive) hold(t queue.Task) {
	delete(n.unused, t.ID)
	n.leave(t.ID)
	n.holders[t.ID] = t
}

func (n *naive) leave(id string) {
	if t, waits := n.waiting[id]; waits {
		n.unwait(t)
	}
	delete(n.holders, id)
	if at, isUnused := n.unused[id]; isUnused {
		i, _ := slices.BinarySearchFunc(n.starts, at, time.Time.Compare)
		n.starts = slices.Delete(n.starts, i, i+1)
		delete(n.unused, id)
	}
}

// unwait forgets the debts of a level in which nobody waits any more.
func (n *naive) unwait(t queue.Task) {
	delete(n.waiting, t.ID)
	for _, other := range n.waiting {
		if other.Priority == t.Priority {
			return
		}
	}
	delete(n.tags, t.Priority)
	delete(n.virtual, t.Priority)
}

func (n *naive) share(tenant string) queue.Share {
	own := n.limits.Overrides[tenant]
	return queue.Share{Concurrency: cmp.Or(own.Concurrency, n.limits.Default.Concurrency), Weight: cmp.Or(own.Weight, n.limits.Default.Weight, 1)}
}

func (n *naive) held(tenant string) (count int) {
	for _, t := range n.holders {
		if t.Tenant == tenant {
			count++
		}
	}
	return count
}

func (n *naive) isFull() bool {
	return n.limits.Concurrency > 0 && len(n.holders) >= n.limits.Concurrency
}

func (n *naive) isTenantFull(tenant string) bool {
	limit := n.share(tenant).Concurrency
	return limit > 0 && n.held(tenant) >= limit
}

// rateWait is for SlidingWindow alone.
func (n *naive) rateWait(now time.Time) time.Duration {
	r := n.limits.Rate
	if r.Count == 0 {
		return 0
	}
	free := n.since.Add(r.Period)
	if len(n.starts) >= r.Count {
		if t := n.starts[len(n.starts)-r.Count].Add(r.Period); t.After(free) {
			free = t
		}
	}
	return max(0, free.Sub(now))
}

// reason is what keeps a task from starting even if it were the next.
func (n *naive) reason(t queue.Task, now time.Time) queue.Reason {
	switch {
	case n.limits.Paused:
		return queue.QueuePaused
	case n.isTenantFull(t.Tenant):
		return queue.TenantConcurrency
	case n.isFull():
		return queue.QueueConcurrency
	case n.rateWait(now) > 0:
		return queue.RateLimited
	}
	return queue.Queued
}

func (n *naive) tag(t queue.Task) int {
	return max(n.tags[t.Priority][t.Tenant], n.virtual[t.Priority])
}

// next is the task that starts next, of those that no limit keeps from it.
func (n *naive) next(now time.Time) (queue.Task, bool) {
	var ready []queue.Task
	for _, t := range n.waiting {
		if n.reason(t, now) == queue.Queued {
			ready = append(ready, t)
		}
	}
	if len(ready) == 0 {
		return queue.Task{}, false
	}
	oldest := map[int32]time.Time{}
	for _, t := range ready {
		if at, found := oldest[t.Priority]; !found || t.Created.Before(at) {
			oldest[t.Priority] = t.Created
		}
	}
	// A priority's value at any time is its number, and what its oldest task has waited in units of Ageing; of equals the low one.
	isFirst := func(a, b int32) bool {
		if n.limits.Ageing == 0 {
			return a > b
		}
		age := time.Duration(int64(a)-int64(b))*n.limits.Ageing + oldest[b].Sub(oldest[a])
		return age > 0 || (age == 0 && a < b)
	}
	return slices.MinFunc(ready, func(a, b queue.Task) int {
		if a.Priority != b.Priority {
			if isFirst(a.Priority, b.Priority) {
				return -1
			}
			return 1
		}
		age := cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
		if a.Tenant == b.Tenant {
			return age
		}
		return cmp.Or(cmp.Compare(n.tag(a), n.tag(b)), n.headAge(ready, a).Compare(n.headAge(ready, b)), age)
	}), true
}

// headAge: between tenants of one tag, the one whose first task has waited longer comes first.
func (n *naive) headAge(ready []queue.Task, of queue.Task) time.Time {
	at := of.Created
	for _, t := range ready {
		if t.Priority == of.Priority && t.Tenant == of.Tenant && t.Created.Before(at) {
			at = t.Created
		}
	}
	return at
}

func (n *naive) dispatch(now time.Time) (admitted []string, again time.Duration) {
	for {
		t, found := n.next(now)
		if !found {
			for _, t := range n.waiting {
				if n.reason(t, now) == queue.RateLimited {
					return admitted, n.rateWait(now)
				}
			}
			return admitted, 0
		}
		tag := n.tag(t)
		n.virtual[t.Priority] = tag
		if n.tags[t.Priority] == nil {
			n.tags[t.Priority] = map[string]int{}
		}
		n.tags[t.Priority][t.Tenant] = tag + quarters/n.share(t.Tenant).Weight
		n.unwait(t)
		n.holders[t.ID] = t
		n.starts, n.unused[t.ID] = append(n.starts, now), now
		admitted = append(admitted, t.ID)
	}
}
