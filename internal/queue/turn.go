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

// sampled is at about how many lines, each of a tenant and priority, a position looks: of so many it is exact but for ageing and limits
// of tenants.
const sampled = 100

// position is about which start from now on is the task's own: 1 for the next. It takes it that nobody comes, and that no tenant
// reaches its limit or gets below it.
func (q *Queue) position(m *member) int {
	own, _ := slices.BinarySearchFunc(m.flow.waiting, m, byAge)
	tag := max(m.flow.tag, m.flow.level.now) + int64(own)*m.flow.perStart()
	position, lines := 1+own, 0
	for _, l := range q.levels {
		lines += len(l.ready.flows)
	}
	step := max(1, (lines+sampled-1)/sampled)
	for _, l := range q.levels {
		ahead, looked := 0, 0
		for i := 0; i < len(l.ready.flows); i += step {
			switch f := l.ready.flows[i]; {
			case l != m.flow.level:
				ahead += q.ahead(f.waiting, l.priority, m)
			case f != m.flow:
				ahead += f.before(tag, m)
			}
			looked++
		}
		if looked > 0 {
			position += ahead * len(l.ready.flows) / looked
		}
	}
	return min(position, q.pending)
}

// before is how many of the flow's tasks start before the one with the tag, of another tenant.
func (f *flow) before(tag int64, m *member) int {
	if tag < f.tag {
		return 0
	}
	each := f.perStart()
	n := int(min((tag-f.tag+each-1)/each, int64(len(f.waiting))))
	if n < len(f.waiting) && f.tag+int64(n)*each == tag && byAge(f.waiting[n], m) < 0 {
		n++
	}
	return n
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
	if higher < 0 {
		horizon = horizon.Add(1) // of equals the low ones are first
	}
	n, _ := slices.BinarySearchFunc(line, horizon, func(o *member, t time.Time) int { return o.Created.Compare(t) })
	return n
}

// Counts is what the queue does now.
func (q *Queue) Counts(now time.Time) Counts {
	c := Counts{Pending: q.pending, Running: len(q.holders)}
	for _, t := range q.tenants {
		n := TenantCount{Name: t.name, Running: len(t.holders)}
		for _, f := range t.flows {
			n.Pending += len(f.waiting)
			if len(f.waiting) > 0 && (c.Oldest.IsZero() || f.waiting[0].Created.Before(c.Oldest)) {
				c.Oldest = f.waiting[0].Created
			}
		}
		if n.Pending+n.Running > 0 {
			c.rank(n)
		}
	}
	if !c.Oldest.IsZero() {
		c.OldestAge = max(0, now.Sub(c.Oldest))
	}
	return c
}

// rank keeps the tenant if it is among the first so far. To sort thousands of them would take tens of milliseconds, and it is asked often.
func (c *Counts) rank(n TenantCount) {
	i, _ := slices.BinarySearchFunc(c.Tenants, n, func(a, b TenantCount) int {
		return cmp.Or(cmp.Compare(b.Pending+b.Running, a.Pending+a.Running), cmp.Compare(a.Name, b.Name))
	})
	if i < TopTenants {
		c.Tenants = slices.Insert(c.Tenants, i, n)
		c.Tenants = c.Tenants[:min(TopTenants, len(c.Tenants))]
	}
}
