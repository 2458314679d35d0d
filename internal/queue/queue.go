package queue

import (
	"maps"
	"slices"
	"time"
)

// Queue is the state of one TaskQueue.
type Queue struct {
	limits  Limits
	rate    pacer
	clock   steady
	breaker *Breaker

	members map[string]*member // by ID: who waits, and who holds capacity
	tenants map[string]*tenant // of the members, and those with a debt
	levels  []*level           // in which someone waits, the highest first
	holders []*member          // by name
	pending int
}

// member is a task that waits or holds capacity.
type member struct {
	Task
	tenant *tenant
	flow   *flow // in which it waits; nil: it holds capacity
	isUsed bool  // its turn was: it was seen to hold capacity
	fee    fee   // what its turn has cost
}

// New is an empty queue. Its bucket is empty, or its window full: what was started before is not known.
func New(limits Limits, now time.Time) *Queue {
	q := &Queue{members: map[string]*member{}, tenants: map[string]*tenant{}}
	q.Limit(limits, now)
	return q
}

// Limit takes a changed spec. It stops nothing.
func (q *Queue) Limit(limits Limits, now time.Time) {
	q.limits = limits
	q.rate = paced(q.rate, limits.Rate, q.clock.at(now))
	for _, name := range slices.Sorted(maps.Keys(q.tenants)) { // in order: how a ranking lies is seen by a Turn
		t := q.tenants[name]
		t.share = limits.share(name)
		t.place()
	}
}

// Guard puts the queue behind a breaker: Dispatch starts what it admits, and tells it of the probes. nil: none.
func (q *Queue) Guard(b *Breaker) { q.breaker = b }

// Join says that the task waits for its turn, since t.Created, or now if that is zero or to come. Said again, it updates priority
// and tenant, and the task keeps its place. It has no effect on a task that holds capacity or was admitted: Leave comes first. But a
// turn that was not used yet, and would not be given any more, is taken back: the task waits again, where it did.
func (q *Queue) Join(t Task, now time.Time) {
	if t.Created.IsZero() || t.Created.After(now) {
		t.Created = now
	}
	if m := q.members[t.ID]; m != nil {
		isSettled := m.flow != nil && m.Priority == t.Priority && m.Tenant == t.Tenant
		if isSettled || m.flow == nil && !q.takesBack(m, now) {
			return
		}
		t.Created = m.Created
		q.Leave(m.ID)
	}
	m := &member{Task: t, tenant: q.tenant(t.Tenant)}
	q.members[t.ID] = m
	q.wait(m)
}

// takesBack reports whether the turn of a task that holds capacity was not used yet, and is good no more: the queue is paused, or its
// breaker has opened. What could start in spite of that would be the attempts of seconds ago, and those are what a breaker stops.
func (q *Queue) takesBack(m *member, now time.Time) bool {
	return !m.isUsed && (q.limits.Paused || q.breaker != nil && !q.breaker.stands(m.ID, now))
}

// Hold says that the task was seen to hold capacity, whether the queue has admitted it or not.
func (q *Queue) Hold(id, name, tenant string) {
	m := q.members[id]
	if m != nil && m.flow == nil && m.Name == name && m.Tenant == tenant {
		m.isUsed = true
		return
	}
	if m != nil {
		q.remove(m)
	}
	m = &member{Task: Task{ID: id, Name: name, Tenant: tenant}, tenant: q.tenant(tenant), isUsed: true}
	q.members[id] = m
	q.hold(m)
}

// Leave says that the task neither waits nor holds capacity. If it was admitted and has not started, its turn costs the rate nothing.
func (q *Queue) Leave(id string) {
	if m := q.members[id]; m != nil {
		q.remove(m)
		if !m.isUsed {
			m.fee.refund()
		}
	}
	if q.breaker != nil {
		q.breaker.ended(id)
	}
}

// Dispatch admits what may start now, in the order in which it may. Each counts as a holder until Hold or Leave says what became of
// it. If again is not zero, there is more to do after that time, though nothing else changes. Limit and Dispatch take a now that was
// read under the owner's lock: one that is older than that of an earlier call by more than a second is a step of the clock to them.
func (q *Queue) Dispatch(now time.Time) (admitted []string, again time.Duration) {
	for !q.limits.Paused && !q.isFull() {
		f := q.next()
		if f == nil {
			break
		}
		if q.breaker != nil {
			if n, again := q.breaker.Admits(now); n == 0 {
				return admitted, again
			}
		}
		m := f.waiting[0]
		if q.rate != nil {
			at := q.clock.at(now)
			if wait := q.rate.take(at); wait > 0 {
				return admitted, wait
			}
			m.fee = fee{q.rate, at}
		}
		f.charge()
		q.hold(m) // first: its tenant is not without members in between
		q.unwait(m)
		if q.breaker != nil {
			q.breaker.began(m.ID, now)
		}
		admitted = append(admitted, m.ID)
	}
	return admitted, 0
}

func (q *Queue) isFull() bool {
	return q.limits.Concurrency > 0 && len(q.holders) >= q.limits.Concurrency
}

func (q *Queue) hold(m *member) {
	q.holders = insert(q.holders, m, byName)
	m.tenant.holders = insert(m.tenant.holders, m, byName)
	m.tenant.place()
}

// remove forgets a member, and its tenant with the last of it.
func (q *Queue) remove(m *member) {
	delete(q.members, m.ID)
	if m.flow != nil {
		q.unwait(m)
	} else {
		q.holders = without(q.holders, m, byName)
		m.tenant.holders = without(m.tenant.holders, m, byName)
		m.tenant.place()
	}
	q.forget(m.tenant)
}
