package gate

import (
	"fmt"
	"slices"
	"time"
)

// Queue is one queue, as one replica sees it. It is not safe for concurrent use.
type Queue struct {
	limits   Limits
	whole    share
	tenants  map[string]*share // those with something to remember
	swept    int               // how many there were after the last sweep
	accepted accepted
	flow     flow
}

// share is what is known of a queue, or of one tenant in it.
type share struct {
	bucket  *bucket
	waiting int // seen
	assumed int // accepted, and not seen yet
}

func (s *share) pending() int { return s.waiting + s.assumed }

// New is a queue in which nothing has happened yet.
func New(l Limits) *Queue {
	return &Queue{limits: l, whole: share{bucket: newBucket(l.Queue.Rate)}, tenants: map[string]*share{}, flow: newFlow(l.MaxWait)}
}

// Limit changes the limits. A rate that has changed begins with a full bucket.
func (q *Queue) Limit(l Limits) {
	was := q.limits
	q.limits = l
	if was.Queue.Rate != l.Queue.Rate {
		q.whole.bucket = newBucket(l.Queue.Rate)
	}
	if was.Tenant.Rate != l.Tenant.Rate {
		for _, tenant := range q.tenants {
			tenant.bucket = newBucket(l.Tenant.Rate)
		}
	}
	if was.MaxWait != l.MaxWait {
		since := q.flow.since
		q.flow = newFlow(l.MaxWait)
		q.flow.head, q.flow.since = since, since
	}
}

// Ask judges a new task. One that is admitted is charged, unless the request is a dry run.
func (q *Queue) Ask(t Task, isDryRun bool, now time.Time) Verdict {
	q.forget(now)
	if q.accepted.has(t.UID) {
		return Verdict{} // asked again: the answer was lost
	}
	v := q.judge(t, isDryRun, now)
	if v.Reason == Admitted && !isDryRun {
		tenant := q.tenant(t.Tenant, now)
		q.accepted.add(t, now)
		for _, s := range []*share{&q.whole, tenant} {
			s.bucket.charge(now)
			s.assumed++
		}
	}
	return v
}

// judge goes through the limits; the first that refuses decides.
func (q *Queue) judge(t Task, isDryRun bool, now time.Time) Verdict {
	l := q.limits
	tenant := q.tenants[t.Tenant]
	if tenant == nil { // nothing is remembered, and nothing will be if it is refused
		tenant = &share{bucket: newBucket(l.Tenant.Rate)}
	}
	pending := q.whole.pending()
	switch wait := q.flow.wait(pending, now); {
	case l.Closed && l.Reopens.IsZero():
		return refuse(Closed, "its breaker is held open (spec.breaker.override)", maxRetryAfter)
	case l.Closed:
		return refuse(Closed, "its breaker is open (spec.admission.whileBreakerOpen)", l.Reopens.Sub(now))
	case l.Queue.MaxPending > 0 && pending >= l.Queue.MaxPending:
		return refuse(Pending, fmt.Sprintf("%d tasks wait, and %d may (spec.admission.maxPending)", pending, l.Queue.MaxPending), q.flow.wait(pending-l.Queue.MaxPending+1, now))
	case l.Tenant.MaxPending > 0 && tenant.pending() >= l.Tenant.MaxPending:
		return refuse(TenantPending, fmt.Sprintf("%d tasks of tenant %q wait, and %d may (spec.admission.tenant.maxPending)", tenant.pending(), t.Tenant, l.Tenant.MaxPending),
			q.flow.wait(tenant.pending()-l.Tenant.MaxPending+1, now))
	case l.MaxWait > 0 && wait > l.MaxWait:
		return refuse(Wait, fmt.Sprintf("%d tasks wait, and the next one would for %s at the present pace; %s are allowed (spec.admission.maxWaitSeconds)",
			pending, wait.Round(time.Second), l.MaxWait), wait-l.MaxWait)
	case q.whole.bucket.wait(now) > 0:
		return refuse(RateLimit, l.Queue.Rate.words("", "spec.admission.rate"), q.whole.bucket.comeBack(isDryRun, now))
	case tenant.bucket.wait(now) > 0:
		return refuse(TenantRate, l.Tenant.Rate.words(fmt.Sprintf(" of tenant %q", t.Tenant), "spec.admission.tenant.rate"), tenant.bucket.comeBack(isDryRun, now))
	}
	return Verdict{}
}

func (r Rate) words(whose, field string) string {
	return fmt.Sprintf("more than %d tasks%s in %s (%s)", r.Count, whose, r.Period, field)
}

// comeBack is the place of one who is refused. A dry run takes none.
func (b *bucket) comeBack(isDryRun bool, now time.Time) time.Duration {
	if isDryRun {
		return b.wait(now)
	}
	return b.place(now)
}

// Created tells that the watch shows a new task. If another replica has accepted it, or nobody was asked, it is charged here.
func (q *Queue) Created(t Task, now time.Time) {
	q.forget(now)
	if q.settle(t.UID) {
		return
	}
	if q.whole.bucket != nil || q.limits.Tenant.Rate.Count > 0 {
		q.whole.bucket.charge(now)
		q.tenant(t.Tenant, now).bucket.charge(now)
	}
}

// Past is a task that was there before this replica.
type Past struct {
	Tenant string
	At     time.Time // when it was created
}

// Restore charges for tasks that were created before this replica began to watch, each at its time, so that a new replica has no new burst.
func (q *Queue) Restore(tasks []Past, now time.Time) {
	slices.SortFunc(tasks, func(a, b Past) int { return a.At.Compare(b.At) })
	for _, t := range tasks {
		at := t.At
		if at.After(now) { // by another clock
			at = now
		}
		q.Created(Task{Tenant: t.Tenant}, at)
	}
}

// Arrive tells that a task waits in the queue; Leave that it no longer does.
func (q *Queue) Arrive(tenant string, now time.Time) {
	if q.whole.waiting == 0 {
		q.flow.begin(now)
	}
	q.whole.waiting++
	q.tenant(tenant, now).waiting++
}

// Leave tells that a task no longer waits: it was started, or is gone.
func (q *Queue) Leave(tenant string, now time.Time) {
	q.whole.waiting--
	q.tenant(tenant, now).waiting--
	q.flow.leave(now)
	if q.whole.waiting == 0 {
		q.flow.end()
	}
}

// IsEmpty reports whether the queue is not needed any more once its object is gone.
func (q *Queue) IsEmpty() bool { return q.whole.waiting == 0 }

// settle ends the assumption about an accepted task, if there was one.
func (q *Queue) settle(uid string) bool {
	name, was := q.accepted.remove(uid)
	if was {
		q.whole.assumed--
		q.tenants[name].assumed--
	}
	return was
}

// forget gives up on accepted tasks that nobody has seen.
func (q *Queue) forget(now time.Time) {
	for {
		uid, is := q.accepted.overdue(now)
		if !is {
			return
		}
		q.settle(uid)
	}
}

// tenant is the share of a tenant, from now on remembered. Those with nothing to remember are dropped whenever their number
// could have doubled.
func (q *Queue) tenant(name string, now time.Time) *share {
	if s := q.tenants[name]; s != nil {
		return s
	}
	if len(q.tenants) >= 2*q.swept+16 {
		for other, s := range q.tenants {
			if s.pending() == 0 && s.bucket.isFull(now) {
				delete(q.tenants, other)
			}
		}
		q.swept = len(q.tenants)
	}
	s := &share{bucket: newBucket(q.limits.Tenant.Rate)}
	q.tenants[name] = s
	return s
}
