package controller

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// Observer remembers since when this process has seen each term's record unchanged, and wakes the task when one has stood
// unchanged for its duration. Renewals only move a timer here; they cost no pass. Every replica observes, the leader
// alone acts, so a change of leader does not restart the wait.
type Observer struct {
	clock clock.WithDelayedExecution
	sight *Sight

	mu    sync.Mutex
	seen  map[types.UID]*sighting
	wake  func(types.NamespacedName)
	names map[types.NamespacedName]types.UID
}

type sighting struct {
	task  types.NamespacedName
	mark  string
	held  string // the resourceVersion of a claimed term; empty: it is not claimed
	since time.Time
	timer clock.Timer

	claim first
	stop  first
}

// first is when a value was first seen as it is; empty: there is none.
type first struct {
	value string
	at    time.Time
}

func (f *first) see(value string, now time.Time) {
	if value != f.value {
		f.value, f.at = value, now
	}
}

// absence is the mark of a Lease that is not there, under the token that the task has on record meanwhile: that one was absent
// before its grant says nothing about when it was lost. Once a token is on record, an absence is always read live.
func absence(task *v1alpha1.LeasedTask) string {
	return fmt.Sprint("absent under ", task.Status.FencingToken)
}

// NewObserver makes an observer that trusts the given sight.
func NewObserver(c clock.WithDelayedExecution, sight *Sight) *Observer {
	return &Observer{clock: c, sight: sight, seen: map[types.UID]*sighting{}, names: map[types.NamespacedName]types.UID{},
		wake: func(types.NamespacedName) {}}
}

// WakeWith sets what is called for a task whose held term has not been renewed for its duration.
func (o *Observer) WakeWith(wake func(types.NamespacedName)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wake = wake
}

// See notes a record that was read, and says since when it has been seen as it is, by continuous sight. now is when the
// read was over: later than the write, which is the safe side.
func (o *Observer) See(task *v1alpha1.LeasedTask, term *fencing.Term, now time.Time) time.Time {
	key := types.NamespacedName{Namespace: task.Namespace, Name: task.Name}
	o.mu.Lock()
	defer o.mu.Unlock()
	if uid, ok := o.names[key]; ok && uid != task.UID {
		o.forget(uid) // another task took the name
	}
	o.names[key] = task.UID
	mark := absence(task)
	if term != nil {
		mark = term.Mark()
	}
	return o.sight.Clip(o.note(task.UID, key, term, mark, now).since, now)
}

// ClaimedSince is when this process first saw the task's present claim, on its own clock, by continuous sight; zero if there is none.
func (o *Observer) ClaimedSince(task *v1alpha1.LeasedTask, now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s, ok := o.seen[task.UID]; ok && s.claim.value != "" {
		return o.sight.Clip(s.claim.at, now)
	}
	return time.Time{}
}

// StoppedSince is when this process first saw the stop that the task's term bears, by continuous sight: whoever could not submit
// while nobody could see gets its time once more. Zero if there is none.
func (o *Observer) StoppedSince(task *v1alpha1.LeasedTask, now time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s, ok := o.seen[task.UID]; ok && s.stop.value != "" {
		return o.sight.Clip(s.stop.at, now)
	}
	return time.Time{}
}

// SeeLease is See for a record that a watch delivered.
func (o *Observer) SeeLease(taskUID types.UID, task types.NamespacedName, term *fencing.Term, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.note(taskUID, task, term, term.Mark(), now)
}

// LeaseGone notes that a watch saw a Lease deleted: what was seen of it is dropped. If its task is still there, the pass that
// follows sees the absence; if not, as on a standby that makes no passes, nobody would ever drop it.
func (o *Observer) LeaseGone(taskUID types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forget(taskUID)
}

func (o *Observer) note(uid types.UID, task types.NamespacedName, term *fencing.Term, mark string, now time.Time) *sighting {
	s, ok := o.seen[uid]
	if !ok {
		s = &sighting{task: task}
		o.seen[uid] = s
	}
	held := ""
	if term != nil && term.State() == fencing.Claimed {
		held = term.ResourceVersion
	}
	// A request that arrives twice may put an old renewTime over a younger one that this process never saw: to be unchanged, a
	// held term must be the same version. A revoke is no sign of life, if it ended the very version that was seen last.
	isWritten := held != "" && s.held != held
	isEndedUnseen := s.held != "" && term != nil && term.State() == fencing.Revoked && term.Ended != s.held
	s.claim.see(claimOf(term), now)
	s.stop.see(stopOf(term), now)
	if s.mark != mark || isWritten || isEndedUnseen {
		s.mark, s.since = mark, now
		s.disarm()
		if term != nil && term.State() == fencing.Claimed {
			o.arm(s, fencing.TimingFor(term.Duration).Duration)
		}
	}
	s.held = held
	return s
}

// claimOf identifies a claim across all terms; empty: there is none.
func claimOf(term *fencing.Term) string {
	if term == nil || term.Claim == nil {
		return ""
	}
	return term.UID + " " + term.Claim.String()
}

// stopOf identifies a stop across all claims; empty: there is none.
func stopOf(term *fencing.Term) string {
	if term == nil || term.Stop == nil {
		return ""
	}
	return claimOf(term) + " " + term.Stop.String()
}

// WakeIn wakes the task after d unless its term is renewed before.
func (o *Observer) WakeIn(task *v1alpha1.LeasedTask, d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s, ok := o.seen[task.UID]; ok {
		s.disarm()
		o.arm(s, d)
	}
}

// ForgetTask drops what is known of a task that is gone.
func (o *Observer) ForgetTask(task types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if uid, ok := o.names[task]; ok {
		o.forget(uid)
	}
	delete(o.names, task)
}

func (o *Observer) forget(uid types.UID) {
	if s, ok := o.seen[uid]; ok {
		s.disarm()
		delete(o.seen, uid)
	}
}

func (o *Observer) arm(s *sighting, d time.Duration) {
	s.timer = o.clock.AfterFunc(d, func() {
		o.mu.Lock()
		wake := o.wake
		o.mu.Unlock()
		wake(s.task)
	})
}

func (s *sighting) disarm() {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}
