package queue

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// named is how many holders a Turn names.
const named = 3

// Turn is where the task stands.
func (q *Queue) Turn(id string, now time.Time) Turn {
	m := q.members[id]
	switch {
	case m == nil:
		return Turn{}
	case m.flow == nil:
		return Turn{Admitted: true}
	}
	w := q.obstacle(m, now)
	if w.Reason == TenantConcurrency {
		w.Position = q.positionInTenant(m)
	} else {
		w.Position = q.position(m)
	}
	return Turn{Waiting: &w}
}

// obstacle is what keeps the task from starting even if it were the next.
func (q *Queue) obstacle(m *member, now time.Time) Waiting {
	switch {
	case q.limits.Paused:
		return Waiting{Reason: QueuePaused}
	case q.breaker != nil && !q.breaker.admits(now):
		return Waiting{Reason: BreakerOpen}
	case m.tenant.isFull():
		return held(TenantConcurrency, m.tenant.share.Concurrency, m.tenant.holders)
	case q.isFull():
		return held(QueueConcurrency, q.limits.Concurrency, q.holders)
	case q.rate != nil && q.rate.wait(q.clock.peek(now)) > 0:
		return Waiting{Reason: RateLimited, Limit: q.limits.Rate.Count, Period: cmp.Or(q.limits.Rate.Period, time.Second)}
	}
	return Waiting{Reason: Queued}
}

func held(reason Reason, limit int, holders []*member) Waiting {
	w := Waiting{Reason: reason, Limit: limit, HeldBy: len(holders)}
	for _, m := range holders[:min(named, len(holders))] {
		w.Holders = append(w.Holders, m.Name)
	}
	return w
}

// position is about how many starts there are until the task's own, as if all tenants could start all that waits, and nobody came.
// Its cost is of the number of priorities, not of tasks or tenants.
func (q *Queue) position(m *member) int {
	f, l := m.flow, m.flow.level
	own, _ := slices.BinarySearchFunc(f.waiting, m, byAge)
	perStart := unit / float64(f.tenant.share.Weight)
	ahead := float64(max(f.tag, l.now)-l.now) + float64(own)*perStart // virtual time until its start, in which each weight starts as much
	others := int(ahead / unit * float64(l.weight-f.weight))
	position := 1 + own + min(others, len(l.waiting)-len(f.waiting))
	for _, other := range q.levels {
		if other != l {
			position += q.ahead(other.waiting, other.priority, m)
		}
	}
	return position
}

// positionInTenant is the same among the tenant's own tasks.
func (q *Queue) positionInTenant(m *member) int {
	own, _ := slices.BinarySearchFunc(m.flow.waiting, m, byAge)
	position := 1 + own
	for _, f := range m.tenant.flows {
		if f != m.flow {
			position += q.ahead(f.waiting, f.level.priority, m)
		}
	}
	return position
}

// ahead is how many of a line of another priority come before the task: those that are older than it by what ageing makes of the
// difference.
func (q *Queue) ahead(line []*member, priority int32, m *member) int {
	higher, ageing := int64(priority)-int64(m.Priority), int64(max(0, q.limits.Ageing))
	if ageing == 0 || max(higher, -higher) > math.MaxInt64/ageing {
		if higher > 0 {
			return len(line)
		}
		return 0
	}
	horizon := m.Created.Add(time.Duration(higher * ageing))
	n, _ := slices.BinarySearchFunc(line, horizon, func(o *member, t time.Time) int { return o.Created.Compare(t) })
	return n
}

// Counts is what the queue does now.
func (q *Queue) Counts(now time.Time) Counts {
	c := Counts{Pending: q.pending, Running: len(q.holders)}
	for _, l := range q.levels {
		if first := l.waiting[0].Created; c.Oldest.IsZero() || first.Before(c.Oldest) {
			c.Oldest, c.OldestAge = first, max(0, now.Sub(first))
		}
	}
	for _, t := range q.tenants {
		n := TenantCount{Name: t.name, Running: len(t.holders)}
		for _, f := range t.flows {
			n.Pending += len(f.waiting)
		}
		if n.Pending+n.Running > 0 {
			c.Tenants = append(c.Tenants, n)
		}
	}
	slices.SortFunc(c.Tenants, func(a, b TenantCount) int {
		return cmp.Or(cmp.Compare(b.Pending+b.Running, a.Pending+a.Running), cmp.Compare(a.Name, b.Name))
	})
	c.Tenants = c.Tenants[:min(TopTenants, len(c.Tenants))]
	return c
}
