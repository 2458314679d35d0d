package holder

import (
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

// stop is what an attempt knows of why it is to end: a signal from outside says that the Pod is to, and only the Lease says
// what for.
type stop struct {
	ordered  *fencing.Stop // what the Lease bears; nil: nothing that was read
	signaled bool          // the Pod was told to stop
	since    Boot          // when
	askUntil Boot          // how long the command's SIGTERM waits for the Lease to say why; Never: it does not
	told     bool          // the command got its SIGTERM
}

func newStop() stop { return stop{askUntil: Never} }

// answered ends the wait with any answer to a request that was begun after the signal. Whoever signals has written to the Lease
// before, so an earlier request may have been answered too soon, and a failed one is not worth another.
func (s *stop) answered(start Boot) {
	if s.signaled && start >= s.since {
		s.askUntil = Never
	}
}

// lapse ends the wait when it has lasted long enough.
func (s *stop) lapse(now Boot) {
	if now >= s.askUntil {
		s.askUntil = Never
	}
}

// isAsking reports whether the command's SIGTERM waits for the Lease to say why.
func (s *stop) isAsking() bool { return s.askUntil != Never }

// Stop plans the end of the tree for a Pod that was told to stop. The Lease is asked why before the command is told: by one
// renewal, and for no longer than one request may take, or a quarter of the command's grace. After the command's own end there is
// nothing left to stop.
func (a *Attempt) Stop(now Boot) {
	if a.stop.signaled || a.exit != nil {
		return
	}
	a.stop.signaled, a.stop.since = true, now
	a.deadline = Never // what it ends for is settled
	if a.started && a.stop.ordered == nil && a.fenced == "" && !a.heart.missed {
		a.stop.askUntil = now.Add(min(a.Trust.timing.RequestTimeout, leastGrace(a.stopGrace)/4))
	}
	a.grace(now, a.stopGrace)
}

// Order plans the end of the tree for a stop that the Lease bears. It may be heard with every renewal; a later one can only
// shorten the grace. After the command's own end there is nothing left to stop.
func (a *Attempt) Order(s fencing.Stop, now Boot) {
	if a.exit != nil {
		return
	}
	a.stop.ordered, a.stop.askUntil = &s, Never
	a.deadline = Never // what it ends for is settled
	a.grace(now, s.Grace(a.stopGrace))
}

// grace gives the command some time to end by itself.
func (a *Attempt) grace(now Boot, d time.Duration) { a.kill(now.Add(leastGrace(d))) }

func leastGrace(d time.Duration) time.Duration { return max(d, minStopGrace) }

// StopDue reports, once, whether the command is owed its SIGTERM: nobody is told twice, whoever asks, and a fence tells the
// whole tree.
func (a *Attempt) StopDue() bool {
	due := a.isStopping() && a.started && a.exit == nil && a.fenced == "" && !a.stop.told && !a.stop.isAsking()
	a.stop.told = a.stop.told || due
	return due
}

func (a *Attempt) isStopping() bool {
	return a.stop.signaled || a.stop.ordered != nil || a.overdue || a.heart.missed
}

// Why is the reason for which the command is to stop, and what was said about it.
func (a *Attempt) Why() (reason, message string) {
	switch {
	case a.heart.missed:
		return fencing.ReasonHeartbeatMissed, ""
	case a.stop.ordered != nil:
		return a.stop.ordered.Reason, a.stop.ordered.Message
	case a.overdue:
		return fencing.ReasonDeadlineExceeded, ""
	default:
		return fencing.ReasonTerminated, ""
	}
}

// IsStopped reports whether the Pod was told to stop, and the command may have ended for that.
func (a *Attempt) IsStopped() bool { return a.stop.signaled }

// Ordered is the stop that the Lease bears; nil: none was read before the command ended.
func (a *Attempt) Ordered() *fencing.Stop { return a.stop.ordered }
