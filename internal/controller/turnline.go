package controller

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/queue"
)

// line is a TaskQueue and the tasks that have a place there, or what is left of them after it is gone.
type line struct {
	name    types.NamespacedName
	queue   *queue.Queue
	places  map[string]*place // by the UID of the task
	breaker *queue.Breaker    // nil: it has none

	version    version // of the TaskQueue; empty: there is none
	uid        types.UID
	generation int64 // of what was learnt
}

func newLine(name types.NamespacedName, now time.Time) *line {
	return &line{name: name, queue: queue.New(queue.Limits{}, now), places: map[string]*place{}}
}

// learn takes the TaskQueue's limits, if they may have changed: its status is written every few seconds. Of one that was made anew the
// breaker is another, too.
func (l *line) learn(tq *v1alpha1.TaskQueue, now time.Time) {
	if !l.version.isBefore(tq.ResourceVersion) {
		return
	}
	isSame := l.version != "" && l.uid == tq.UID
	isLearnt := isSame && l.generation == tq.Generation
	l.version, l.uid, l.generation = version(tq.ResourceVersion), tq.UID, tq.Generation
	if isLearnt {
		return
	}
	if !isSame {
		l.breaker = nil
	}
	l.queue.Limit(limitsOf(&tq.Spec), now)
	l.guard(tq, now)
}

// guard takes the breaker's settings. A breaker that this process has not known goes on from what another has written of it.
func (l *line) guard(tq *v1alpha1.TaskQueue, now time.Time) {
	switch settings := breakerOf(&tq.Spec.Breaker); {
	case tq.Spec.Breaker == v1alpha1.BreakerSpec{}:
		l.breaker = nil
	case l.breaker == nil:
		l.breaker = queue.NewBreaker(settings, plan.BreakerRecord(&tq.Status.Breaker), now)
	default:
		l.breaker.Set(settings, now)
		return
	}
	l.queue.Guard(l.breaker)
}

// place is a task that waits in a line, was let start, or holds capacity. What was seen of the task and of its term is kept with the
// version that it was seen in.
type place struct {
	line *line
	name types.NamespacedName
	uid  string

	task, term version
	isOpen     bool // by the status
	isTermOpen bool // by the Lease
	isOver     bool // nothing of the task will start any more
}

func (p *place) holds() bool { return !p.isOver && (p.isOpen || p.isTermOpen) }

// note takes what is not older than what was seen before. Versions rise from one Lease of a name to the next.
func (p *place) note(task *v1alpha1.LeasedTask, term *fencing.Term) {
	if p.task.isBefore(task.ResourceVersion) {
		p.task = version(task.ResourceVersion)
		p.isOpen = plan.HoldsPlace(&task.Status)
		p.isOver = task.Status.Phase.IsFinished() || task.DeletionTimestamp != nil
	}
	switch {
	case term == nil:
		p.isTermOpen = false
	case p.term.isBefore(term.ResourceVersion):
		p.term, p.isTermOpen = version(term.ResourceVersion), term.IsOpen()
	}
}

// version is a resourceVersion; empty: it is before all others.
type version string

// isBefore reports whether the other version is later. One that cannot be compared counts as later: no API server has such.
func (v version) isBefore(other string) bool {
	order, err := resourceversion.CompareResourceVersion(string(v), other)
	return err != nil || order < 0
}

// limitsOf is what a TaskQueue's spec says, as its queue takes it.
func limitsOf(spec *v1alpha1.TaskQueueSpec) queue.Limits {
	limits := queue.Limits{
		Concurrency: int(spec.Concurrency),
		Default:     queue.Share{Concurrency: int(spec.Tenants.Concurrency), Weight: int(spec.Tenants.Weight)},
		Overrides:   map[string]queue.Share{},
		Rate: queue.Rate{Algorithm: queue.Algorithm(spec.Dispatch.Algorithm), Count: int(spec.Dispatch.Rate),
			Period: time.Duration(spec.Dispatch.PeriodSeconds) * time.Second, Burst: int(spec.Dispatch.Burst)},
		Ageing: time.Duration(spec.Dispatch.AgeingSeconds) * time.Second,
		Paused: spec.IsPaused(),
	}
	for _, o := range spec.Tenants.Overrides {
		limits.Overrides[o.Name] = queue.Share{Concurrency: int(o.Concurrency), Weight: int(o.Weight)}
	}
	return limits
}

// breakerOf is what a TaskQueue's spec says of its breaker.
func breakerOf(spec *v1alpha1.BreakerSpec) queue.BreakerSettings {
	return queue.BreakerSettings{
		FailurePercent: int(spec.FailurePercent),
		MinSamples:     int(cmp.Or(spec.MinSamples, v1alpha1.DefaultBreakerMinSamples)),
		Window:         time.Duration(spec.WindowSeconds) * time.Second,
		SameFailures:   int(spec.SameFailures),
		OpenFor:        spec.OpenFor(),
		Probes:         int(spec.Probes),
		Override:       queue.Override(spec.Override),
	}
}
