package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/queue"
)

// Turns keeps the queues in memory: who waits, who holds capacity, whose turn it is. Nothing of it is stored, so nothing can leak: who
// holds follows from the tasks and their Leases as passes see them, and a new leader reads them all before it lets anybody start.
//
// A queue lets tasks start, and counts each as a holder from then on. What becomes of it, its pass says: it is granted, and seen so
// in the very pass, before any cache shows it; or its plan is another one, and it gives its place back; or it asks again, right before the
// grant, and its turn is taken back, because the queue stands still since. What was read is ordered by resourceVersion: a cache that is
// late may keep a place taken for a moment, and never frees one.
type Turns struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	isSeeded bool
	later    map[types.NamespacedName]bool // tasks to wake once it is
	lines    map[types.NamespacedName]*line
	places   map[types.NamespacedName]*place // by the name of the task

	wakeTask  func(types.NamespacedName)
	tellQueue func(types.NamespacedName)
}

// NewTurns makes Turns that let nobody start until they are seeded.
func NewTurns(c clock.PassiveClock) *Turns {
	none := func(types.NamespacedName) {}
	return &Turns{clock: c, later: map[types.NamespacedName]bool{}, lines: map[types.NamespacedName]*line{},
		places: map[types.NamespacedName]*place{}, wakeTask: none, tellQueue: none}
}

// WakeWith sets what is called for a task whose turn has come.
func (t *Turns) WakeWith(wake func(types.NamespacedName)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wakeTask = wake
}

// TellWith sets what is called for a TaskQueue in which something has changed: it is to be learnt of again.
func (t *Turns) TellWith(tell func(types.NamespacedName)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tellQueue = tell
}

// See notes a task and its term as they were read; no term: whoever read has made sure that there is none. A task that takes up room
// in a queue has a place there from then on, one that no longer does has none.
func (t *Turns) See(task *v1alpha1.LeasedTask, term *fencing.Term) {
	name, in := client.ObjectKeyFromObject(task), queueOf(task)
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.places[name]
	if p != nil && (p.uid != string(task.UID) || p.line.name != in) {
		if !p.task.isBefore(task.ResourceVersion) {
			return
		}
		t.drop(p) // another task took the name, or it has gone to another queue
		p = nil
	}
	if p == nil {
		p = &place{name: name, uid: string(task.UID)}
		if p.note(task, term); !p.holds() || task.Spec.QueueName == "" {
			return
		}
		t.enter(p, in)
		p.line.queue.Hold(p.uid, name.Name, task.TenantName())
		t.tellQueue(in)
		return
	}
	held := p.holds()
	p.note(task, term)
	switch {
	case p.isOver, held && !p.holds():
		t.drop(p)
	case !held && p.holds():
		p.line.queue.Hold(p.uid, name.Name, task.TenantName())
		t.tellQueue(in)
	}
}

// Ask joins a task that waits for nothing but its turn to its queue, and says where it stands there. Each asks again with what was read for
// its grant: a turn of before a pause, or before the breaker opened, is none any more.
func (t *Turns) Ask(task *v1alpha1.LeasedTask, tq *v1alpha1.TaskQueue) *queue.Turn {
	name := client.ObjectKeyFromObject(task)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.isSeeded {
		t.later[name] = true
		return &queue.Turn{}
	}
	p := t.places[name]
	switch {
	case p == nil:
		p = &place{name: name, uid: string(task.UID)}
		p.note(task, nil)
		t.enter(p, queueOf(task))
	case p.uid != string(task.UID), p.line.name != queueOf(task):
		return &queue.Turn{} // by a cache that is late: another one has its name, or it has gone to another queue
	}
	now := t.clock.Now()
	p.line.learn(tq, now)
	p.line.queue.Join(queue.Task{ID: p.uid, Name: name.Name, Tenant: task.TenantName(), Priority: task.Spec.PriorityValue(),
		Created: plan.WaitsSince(task)}, now)
	t.dispatch(p.line, p)
	t.tellQueue(p.line.name)
	turn := p.line.queue.Turn(p.uid, now)
	return &turn
}

// Leave says that a task neither waits for its turn nor uses the one that it was given. What it holds, it keeps.
func (t *Turns) Leave(task *v1alpha1.LeasedTask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.places[client.ObjectKeyFromObject(task)]; p != nil && p.uid == string(task.UID) && !p.holds() {
		t.drop(p)
	}
}

// Forget drops what is known of a task that is gone.
func (t *Turns) Forget(task types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.places[task]; p != nil {
		t.drop(p)
	}
	if !t.isSeeded {
		t.later[task] = true // the seed may bring it back, then it is looked at again
	}
}

// IsGranted reports whether the task is known to have a term that is not over, by its Lease.
func (t *Turns) IsGranted(task *v1alpha1.LeasedTask) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.places[client.ObjectKeyFromObject(task)]
	return p != nil && p.uid == string(task.UID) && p.isTermOpen
}

// Learn notes a TaskQueue as it was read, lets start who may, and says what the queue does now. again is when to learn of it again,
// should nothing change before; 0: when something does. nil: nobody knows yet who holds capacity.
func (t *Turns) Learn(tq *v1alpha1.TaskQueue) (is *plan.QueueState, again time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	l := t.lineOf(client.ObjectKeyFromObject(tq))
	l.learn(tq, now)
	again = t.dispatch(l, nil)
	if !t.isSeeded {
		return nil, 0
	}
	is = &plan.QueueState{Counts: l.queue.Counts(now)}
	if l.breaker != nil {
		is.Breaker = new(l.breaker.Record(now))
		if n, until := l.breaker.Admits(now); n == 0 {
			again = sooner(again, until)
		}
	}
	return is, again
}

// Observe notes what became of an attempt. It comes before what is seen of the task then.
func (t *Turns) Observe(task *v1alpha1.LeasedTask, result queue.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lines[queueOf(task)]; l != nil && l.breaker != nil {
		l.breaker.Observe(result, t.clock.Now())
		t.tellQueue(l.name)
	}
}

// QueueGone notes that there is no TaskQueue of the name. Whoever holds capacity there goes on, and still does should it be made anew.
func (t *Turns) QueueGone(name types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lines[name]; l != nil {
		l.version = ""
		t.tidy(l)
	}
}

// dispatch wakes the tasks whose turn has come, but not the one that asks: it is at it.
func (t *Turns) dispatch(l *line, asking *place) (again time.Duration) {
	if !t.isSeeded || l.version == "" {
		return 0
	}
	admitted, again := l.queue.Dispatch(t.clock.Now())
	for _, uid := range admitted {
		if p := l.places[uid]; p != asking {
			t.wakeTask(p.name)
		}
	}
	return again
}

func (t *Turns) enter(p *place, in types.NamespacedName) {
	p.line = t.lineOf(in)
	p.line.places[p.uid], t.places[p.name] = p, p
}

func (t *Turns) drop(p *place) {
	p.line.queue.Leave(p.uid)
	delete(p.line.places, p.uid)
	delete(t.places, p.name)
	t.dispatch(p.line, nil)
	t.tellQueue(p.line.name)
	t.tidy(p.line)
}

// tidy drops a line of which nothing is left: neither a TaskQueue nor a task.
func (t *Turns) tidy(l *line) {
	if l.version == "" && len(l.places) == 0 {
		delete(t.lines, l.name)
	}
}

func (t *Turns) lineOf(name types.NamespacedName) *line {
	l := t.lines[name]
	if l == nil {
		l = newLine(name, t.clock.Now())
		t.lines[name] = l
	}
	return l
}
