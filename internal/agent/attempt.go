package agent

import (
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

const (
	// minStopGrace is the least that the command gets after a stop.
	minStopGrace = time.Second
	// killAgain is the pause between two rounds of SIGKILL while something still lives.
	killAgain = 50 * time.Millisecond
)

// attempt is what the agent knows of its attempt once it holds the term, and when something has to be done about it.
type attempt struct {
	trust     trust
	stopGrace time.Duration // what the command gets; the Pod's own grace is longer, so that there is time to submit

	started  bool   // the command was started, or could not be
	startErr error  // why it could not be
	exit     *Exit  // how it ended; nil: it runs, or never ran
	stopped  bool   // the Pod was told to stop
	fenced   string // why the tree must die; empty: it need not
	// afterFence: the command still ran when the term was lost, so that its end says nothing about its work.
	afterFence bool
	warned     bool // the tree got the fence's SIGTERM

	killAt Boot // next round of SIGKILL
	deadAt Boot // when a tree that still lives is left to the kernel, which kills it as the agent exits
}

func newAttempt(t trust, stopGrace time.Duration) *attempt {
	return &attempt{trust: t, stopGrace: stopGrace, killAt: never, deadAt: never}
}

// mayStart reports whether the command may be started now.
func (a *attempt) mayStart(now Boot) bool {
	return !a.started && !a.isOver() && a.trust.isFresh(now)
}

// isOver reports whether the command has ended, or must not be started any more.
func (a *attempt) isOver() bool {
	return a.exit != nil || a.startErr != nil || a.fenced != "" || (a.stopped && !a.started)
}

// hasNoTree reports whether nothing was started, and nothing will be.
func (a *attempt) hasNoTree() bool { return a.startErr != nil || (!a.started && a.isOver()) }

// check fences when trust has ended.
func (a *attempt) check(now Boot) {
	if a.trust.hasEnded(now) {
		a.fence(a.trust.ends(), now, whyUntrusted)
	}
}

// termDue reports, once, whether the tree is owed the SIGTERM of a fence.
func (a *attempt) termDue() bool {
	due := a.fenced != "" && !a.warned
	a.warned = a.warned || due
	return due
}

// fence plans the end of the tree for a term that was lost at one time and noticed at another. Whoever notices late kills
// earlier: the plan counts from when trust ended. Whoever notices so late that the tree should be dead by now was frozen,
// and keeps no deadline any more; it kills at once, and gets a whole budget to see that done and to say what happened.
func (a *attempt) fence(at, noticed Boot, why string) {
	if a.fenced != "" {
		return
	}
	a.fenced, a.afterFence = why, a.exit == nil
	a.killAt = min(a.killAt, at.Add(a.trust.timing.KillAfter()))
	a.deadAt = at.Add(a.trust.timing.KillBudget)
	if noticed > at.Add(a.trust.timing.KillAfter()) {
		a.deadAt = noticed.Add(a.trust.timing.KillBudget)
	}
}

// stop plans the end of the tree for a Pod that was told to stop.
func (a *attempt) stop(now Boot) {
	if a.stopped {
		return
	}
	a.stopped = true
	a.killAt = min(a.killAt, now.Add(max(a.stopGrace, minStopGrace)))
}

// end records how the command ended. What it left is killed at once, as the kernel does when the first process of a
// container ends; only a wrapper that dies of the stop's own signal leaves its children the rest of the grace.
func (a *attempt) end(now Boot, exit Exit) {
	a.exit = &exit
	if wrapper := exit.Signal != 0 && (a.stopped || a.fenced != ""); !wrapper {
		a.killAt = now
	}
}

// killDue reports whether it is time for SIGKILL, and plans the next round.
func (a *attempt) killDue(now Boot) bool {
	if now < a.killAt {
		return false
	}
	a.killAt = now.Add(killAgain)
	return true
}

// renewDue reports whether it is time to renew: a lost term is not renewed while its tree is being killed.
func (a *attempt) renewDue(now Boot) bool { return a.fenced == "" && now >= a.trust.next }

// wake is when to look again if nothing happens before. renewing says that a request is under way.
func (a *attempt) wake(renewing bool) Boot {
	at := min(a.killAt, a.deadAt)
	if a.fenced != "" {
		return at
	}
	if !renewing {
		at = min(at, a.trust.next)
	}
	return min(at, a.trust.ends())
}

// The grounds of a fence, as people read them.
const (
	whyUntrusted = "the term could not be renewed in time"
	whyRefused   = "a renewal was refused: the term was revoked, or its Lease is gone"
)

// hear takes the answer to a renewal begun at start and received at now. Once fenced, there is no way back.
func (a *attempt) hear(answer fencing.Answer, start, now Boot, jitter float64) {
	switch answer {
	case fencing.Accepted:
		a.trust.succeed(start, jitter)
	case fencing.Refused:
		a.fence(now, now, whyRefused)
	case fencing.Invalid, fencing.Unauthorized, fencing.Unavailable:
		a.trust.fail(start, jitter)
	}
}
