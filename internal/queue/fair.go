package queue

import (
	"container/heap"
	"slices"
	"time"
)

// unit is the virtual time of one start at weight 1. It is divided by weights; the error is below one in a million up to 1000.
const unit = 1 << 30

// maxDebts bounds the tenants of a level that are remembered for what they had, though none of their tasks waits: the smallest debts are let
// off. Names of tenants are made up by producers, and while each task brings a new one, no debt is ever paid.
const maxDebts = 1000

// level is one priority in which someone waits.
type level struct {
	priority int32
	now      int64   // virtual time: the tag of the last start
	pending  int     // tasks of all flows
	ready    ranking // flows whose head may start, by tag
	oldest   ranking // the same, by the age of the head
	idle     ranking // flows in which nobody waits, by tag: debts
}

// flow is what one tenant has in one level.
type flow struct {
	tenant  *tenant
	level   *level
	waiting []*member // by age
	tag     int64     // virtual time of its next start
	at      [3]int    // its places in the level's rankings, from 1; 0: none
}

// next is the flow whose head starts next, nil if none may.
func (q *Queue) next() *flow {
	var first *level
	for _, l := range q.levels {
		if l.ready.Len() > 0 && (first == nil || q.hasOvertaken(l, first)) {
			first = l
		}
	}
	if first == nil {
		return nil
	}
	return first.ready.flows[0]
}

// hasOvertaken reports whether waiting has raised the low level to the high one, or above it.
func (q *Queue) hasOvertaken(low, high *level) bool {
	if q.limits.Ageing <= 0 {
		return false
	}
	longer := high.oldestReady().Sub(low.oldestReady())
	return int64(longer/q.limits.Ageing) >= int64(high.priority)-int64(low.priority)
}

// oldestReady is since when the oldest task waits that may start; there has to be one.
func (l *level) oldestReady() time.Time { return l.oldest.flows[0].waiting[0].Created }

// charge is for the start of its head.
func (f *flow) charge() {
	f.level.now = f.tag
	f.tag += f.perStart()
}

func (f *flow) perStart() int64 { return max(1, unit/int64(f.tenant.share.Weight)) }

// wait puts a member into the flow of its tenant and priority.
func (q *Queue) wait(m *member) {
	f := m.tenant.flows[m.Priority]
	if f == nil {
		f = &flow{tenant: m.tenant, level: q.level(m.Priority)}
		m.tenant.flows[m.Priority] = f
	}
	m.flow = f
	f.waiting = insert(f.waiting, m, byAge)
	f.level.pending++
	q.pending++
	f.place()
}

// unwait takes it out again. Of the last one in a level, nothing is kept: who comes then finds equals.
func (q *Queue) unwait(m *member) {
	f, l := m.flow, m.flow.level
	m.flow = nil
	f.waiting = without(f.waiting, m, byAge)
	l.pending--
	q.pending--
	f.place()
	if l.pending == 0 {
		q.levels = slices.DeleteFunc(q.levels, func(other *level) bool { return other == l })
	}
	for l.idle.Len() > 0 && (l.pending == 0 || l.idle.flows[0].tag <= l.now || l.idle.Len() > maxDebts) {
		paid := heap.Pop(&l.idle).(*flow)
		delete(paid.tenant.flows, l.priority)
		q.forget(paid.tenant)
	}
}

func (q *Queue) level(priority int32) *level {
	i, found := slices.BinarySearchFunc(q.levels, priority, func(l *level, p int32) int { return int(p) - int(l.priority) })
	if !found {
		q.levels = slices.Insert(q.levels, i, &level{
			priority: priority,
			ready:    ranking{slot: 0, isBefore: func(a, b *flow) bool { return a.tag < b.tag || (a.tag == b.tag && isOlder(a, b)) }},
			oldest:   ranking{slot: 1, isBefore: isOlder},
			idle:     ranking{slot: 2, isBefore: func(a, b *flow) bool { return a.tag < b.tag }},
		})
	}
	return q.levels[i]
}

// isOlder reports whether the head of a has waited longer than that of b.
func isOlder(a, b *flow) bool { return byAge(a.waiting[0], b.waiting[0]) < 0 }
