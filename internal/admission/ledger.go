package admission

import (
	"cmp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/admission/gate"
)

// Ledger keeps a gate for each queue. It is safe for concurrent use.
type Ledger struct {
	mu     sync.Mutex
	queues map[types.NamespacedName]*entry
	isOpen bool
	// past are the tasks that were seen until the ledger is open: what was there when the watch began, and what was made meanwhile. They
	// are charged in the order of their times, for a bucket must not go back in time, and by the limits that are known only then.
	past map[types.NamespacedName][]gate.Past
}

// entry is one queue: of an object, or a name that tasks have.
type entry struct {
	*gate.Queue
	object *v1alpha1.TaskQueue // nil: there is none
}

// NewLedger is a ledger that has seen nothing.
func NewLedger() *Ledger {
	return &Ledger{queues: map[types.NamespacedName]*entry{}, past: map[types.NamespacedName][]gate.Past{}}
}

// Open tells that all has been seen that was there at the beginning. Before that no question can be answered.
func (l *Ledger) Open(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, tasks := range l.past {
		if e := l.queues[name]; e != nil {
			e.Restore(tasks, now)
		}
	}
	l.past, l.isOpen = nil, true
}

// IsOpen reports whether questions can be answered.
func (l *Ledger) IsOpen() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isOpen
}

// Ask judges a new task for a queue. A queue that does not exist takes every task; it waits there.
func (l *Ledger) Ask(name types.NamespacedName, t gate.Task, isDryRun bool, now time.Time) (gate.Verdict, v1alpha1.RefusalAnswer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.queues[name]
	if e == nil || e.object == nil {
		return gate.Verdict{}, ""
	}
	v := e.Ask(t, isDryRun, now)
	if !isDryRun {
		count(name, v.Reason)
	}
	return v, cmp.Or(e.object.Spec.Admission.RefuseWith, v1alpha1.RefuseTooManyRequests)
}

// SeeQueue tells what a queue allows from now on.
func (l *Ledger) SeeQueue(queue *v1alpha1.TaskQueue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entry(types.NamespacedName{Namespace: queue.Namespace, Name: queue.Name})
	e.object = queue
	e.Limit(limitsOf(queue))
}

// QueueGone tells that a queue was deleted.
func (l *Ledger) QueueGone(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.queues[name]; e != nil {
		e.object = nil
		e.Limit(gate.Limits{})
		l.drop(name)
	}
	forgetCounts(name) // under the lock: a question that comes later finds no object, and counts nothing
}

// sighting is what the ledger wants to know of a task.
type sighting struct {
	queue     types.NamespacedName // without a name: it is in none
	task      gate.Task
	created   time.Time
	isPending bool
}

// taskAdded tells that the watch shows a task for the first time. wasThere: it was there when the watch began.
func (l *Ledger) taskAdded(s sighting, wasThere bool, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entry(s.queue)
	at := now
	if wasThere {
		at = s.created
	}
	switch {
	case !l.isOpen:
		l.past[s.queue] = append(l.past[s.queue], gate.Past{Tenant: s.task.Tenant, At: at})
	case !wasThere:
		e.Created(s.task, now)
	}
	if s.isPending {
		e.Arrive(s.task.Tenant, now)
	}
	l.drop(s.queue)
}

// taskMoved tells that a task that was pending, or is now, has changed in that.
func (l *Ledger) taskMoved(was, is sighting, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if was.isPending {
		l.entry(was.queue).Leave(was.task.Tenant, now)
	}
	if is.isPending {
		l.entry(is.queue).Arrive(is.task.Tenant, now)
	}
	l.drop(was.queue)
}

func (l *Ledger) entry(name types.NamespacedName) *entry {
	e := l.queues[name]
	if e == nil {
		e = &entry{Queue: gate.New(gate.Limits{})}
		l.queues[name] = e
	}
	return e
}

// drop forgets a name that no queue and no pending task has.
func (l *Ledger) drop(name types.NamespacedName) {
	if e := l.queues[name]; e != nil && e.object == nil && e.IsEmpty() {
		delete(l.queues, name)
	}
}

func limitsOf(queue *v1alpha1.TaskQueue) gate.Limits {
	a := &queue.Spec.Admission
	limits := gate.Limits{
		Queue:   gate.Share{Rate: rateOf(a.Rate, a.PeriodSeconds, a.Burst), MaxPending: int(a.MaxPending)},
		Tenant:  gate.Share{Rate: rateOf(a.Tenant.Rate, a.Tenant.PeriodSeconds, a.Tenant.Burst), MaxPending: int(a.Tenant.MaxPending)},
		MaxWait: time.Duration(a.MaxWaitSeconds) * time.Second,
	}
	if whole, each := limits.Queue.Rate, &limits.Tenant.Rate; whole.Count > 0 && each.Count > 0 && each.Burst == 0 {
		each.Burst = min(each.Count, cmp.Or(whole.Burst, whole.Count)) // more than all of them no tenant can have
	}
	if a.WhileBreakerOpen == v1alpha1.BreakerRefuse {
		limits.Closed, limits.Reopens = isOpen(&queue.Spec.Breaker, &queue.Status.Breaker)
	}
	return limits
}

// isOpen is whether the breaker is open, and until when; zero: nobody knows. The word of a person counts before a leader has acted on it.
func isOpen(spec *v1alpha1.BreakerSpec, status *v1alpha1.BreakerStatus) (is bool, until time.Time) {
	switch {
	case spec.Override == v1alpha1.BreakerForcedOpen:
		return true, until
	case spec.Override == v1alpha1.BreakerForcedClosed, status.State != "Open":
		return false, until
	case status.Since != nil:
		until = status.Since.Add(spec.OpenFor())
	}
	return true, until
}

func rateOf(count, periodSeconds, burst int32) gate.Rate {
	if count == 0 {
		return gate.Rate{}
	}
	return gate.Rate{Count: int(count), Period: time.Duration(cmp.Or(periodSeconds, 1)) * time.Second, Burst: int(burst)}
}
