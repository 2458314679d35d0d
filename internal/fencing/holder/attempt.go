package holder

import (
	"syscall"
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/bug"
)

const (
	// minStopGrace is the least that the command gets after a stop.
	minStopGrace = time.Second
	// killAgain is the pause between two rounds of SIGKILL while something still lives.
	killAgain = 50 * time.Millisecond
)

// The grounds of a fence, as people read them.
const (
	WhyUntrusted = "the term could not be renewed in time"
	WhyRefused   = "a renewal was refused: the term was revoked, or its Lease is gone"
)

// Exit is how the command ended.
type Exit struct {
	Code   int            // exit code; 128 + n after signal n
	Signal syscall.Signal // the signal that ended it; 0: it exited
}

// Attempt is what a process knows of its attempt once it holds the term, and when something has to be done about it.
type Attempt struct {
	Trust     Trust
	stopGrace time.Duration // what the command gets; the Pod's own grace is longer, so that there is time to submit

	started  bool   // the command was started, or could not be
	startErr error  // why it could not be
	exit     *Exit  // how it ended; nil: it runs, or never ran
	overdue  bool   // it ran for as long as an attempt may
	fenced   string // why the tree must die; empty: it need not
	// afterFence: the command still ran when the term was lost, so that its end says nothing about its work.
	afterFence bool
	warned     bool // the tree got the fence's SIGTERM

	denial   denial // of the last requests
	deadline Boot   // when it is told to stop by itself
	stop     stop   // what is known of why it is to stop
	heart    heartbeat

	killAt Boot // next round of SIGKILL
	deadAt Boot // when a tree that still lives is left to the kernel, which kills it as the agent exits
}

// NewAttempt is the attempt of a process that has just claimed. stopGrace is what the command gets from a stop to SIGKILL.
func NewAttempt(t Trust, stopGrace time.Duration) *Attempt {
	return &Attempt{Trust: t, stopGrace: stopGrace, deadline: Never, stop: newStop(), killAt: Never, deadAt: Never}
}

// LimitTo bounds the time from the claim to the end of the command; 0: it is not bounded.
func (a *Attempt) LimitTo(limit time.Duration) {
	if limit > 0 {
		a.deadline = a.Trust.renewed.Add(limit)
	}
}

// Deadline is when the attempt's time is over; Never: it is not bounded, or what it ends for is settled.
func (a *Attempt) Deadline() Boot { return a.deadline }

// MayStart reports whether the command may be started now.
func (a *Attempt) MayStart(now Boot) bool {
	return !a.started && !a.isOver() && a.Trust.IsFresh(now)
}

// Started records that the command was started, or why it could not be.
func (a *Attempt) Started(err error) { a.started, a.startErr = true, err }

// isOver reports whether the command has ended, or must not be started any more.
func (a *Attempt) isOver() bool {
	return a.exit != nil || a.startErr != nil || a.fenced != "" || (a.isStopping() && !a.started)
}

// HasNoTree reports whether nothing was started, and nothing will be.
func (a *Attempt) HasNoTree() bool { return a.startErr != nil || (!a.started && a.isOver()) }

// Check fences when trust has ended, and begins the stop when the attempt's time is over.
func (a *Attempt) Check(now Boot) {
	a.stop.lapse(now)
	if now >= a.deadline && a.exit == nil {
		a.overdue, a.deadline = true, Never
		a.grace(now, a.stopGrace)
	}
	if a.Trust.HasEnded(now) {
		a.fence(a.Trust.Ends(), now, WhyUntrusted)
	}
	a.listen(now)
}

// TermDue reports, once, whether the tree is owed the SIGTERM of a fence.
func (a *Attempt) TermDue() bool {
	due := a.fenced != "" && !a.warned
	a.warned = a.warned || due
	return due
}

// fence plans the end of the tree for a term that was lost at one time and noticed at another. Whoever notices late kills
// earlier: the plan counts from when trust ended. Whoever notices so late that the tree should be dead by now was frozen,
// and keeps no deadline any more; it kills at once, and gets a whole budget to see that done and to say what happened.
func (a *Attempt) fence(at, noticed Boot, why string) {
	if a.fenced != "" {
		return
	}
	a.fenced, a.afterFence = why, a.exit == nil
	a.killAt = min(a.killAt, at.Add(a.Trust.timing.KillAfter()))
	a.deadAt = at.Add(a.Trust.timing.KillBudget)
	if noticed > at.Add(a.Trust.timing.KillAfter()) {
		a.deadAt = noticed.Add(a.Trust.timing.KillBudget)
	}
}

// kill plans SIGKILL, and when a tree that outlives it is left to the kernel.
func (a *Attempt) kill(at Boot) {
	a.killAt = min(a.killAt, at)
	a.deadAt = min(a.deadAt, at.Add(a.Trust.timing.KillBudget))
}

// End records how the command ended. What it left is killed at once, as the kernel does when the first process of a
// container ends; only a wrapper that dies of the stop's own signal leaves its children the rest of the grace. A command that exits 0
// before it was told of a signal has finished, and the signal came too late. One that fails then may have failed of what ends around
// it, and is stopped.
func (a *Attempt) End(now Boot, exit Exit) {
	a.exit = &exit
	if exit.Code == 0 && !a.stop.told {
		a.stop = newStop()
	}
	if wrapper := exit.Signal != 0 && (a.stop.told || a.fenced != ""); !wrapper {
		a.killAt = Never
		a.kill(now)
	}
}

// KillDue reports whether it is time for SIGKILL, and plans the next round.
func (a *Attempt) KillDue(now Boot) bool {
	if now < a.killAt {
		return false
	}
	a.killAt = now.Add(killAgain)
	return true
}

// IsLost reports whether a tree that still lives at now must be left to the kernel: a submission would claim that nothing
// runs any more.
func (a *Attempt) IsLost(now Boot) bool { return now >= a.deadAt }

// RenewDue reports whether it is time to renew: a lost term is not renewed while its tree is being killed, nor one whose command
// no longer says that it works.
func (a *Attempt) RenewDue(now Boot) bool {
	return a.fenced == "" && !a.heart.missed && (now >= a.Trust.next || a.stop.isAsking())
}

// Wake is when to look again if nothing happens before. renewing says that a request is under way.
func (a *Attempt) Wake(renewing bool) Boot {
	at := min(a.killAt, a.deadAt)
	if a.fenced != "" {
		return at
	}
	if !renewing && !a.heart.missed {
		at = min(at, a.Trust.next)
		if a.stop.isAsking() {
			at = min(at, a.stop.since)
		}
	}
	if a.exit == nil {
		at = min(at, a.deadline)
	}
	return min(at, a.stop.askUntil, a.heartDue(), a.Trust.Ends())
}

// Hear takes the answer to a renewal begun at start and received at now. Once fenced, there is no way back. denied says that it
// was a 403: a role or a policy refused, which may be missing or wrong for a moment, and says nothing about the term. It is
// believed once it has stood for D; trust, where it ends by time, ends before.
func (a *Attempt) Hear(answer fencing.Answer, denied bool, start, now Boot, jitter float64) {
	a.stop.answered(start)
	switch {
	case answer == fencing.Accepted:
		a.denial = denial{}
		a.Trust.Succeed(start, jitter)
	case a.IsFinal(answer, denied, now) && answer == fencing.Refused:
		a.fence(min(now, a.Trust.Ends()), now, WhyRefused)
	default:
		a.Trust.Fail(start, jitter)
	}
}

// KeepsSubmitting reports whether the last word is still to be delivered at now, while it was neither accepted nor refused:
// always. Trust bounds the command, not the submission.
func (a *Attempt) KeepsSubmitting(now Boot) bool {
	return !bug.Is(bug.SubmissionDropped) || !a.Trust.HasEnded(now)
}

// IsFinal reports whether an answer that is no acceptance, received at now, is a refusal to be believed. A 403 (denied) is once it
// has stood for D, with no other answer in between.
func (a *Attempt) IsFinal(answer fencing.Answer, denied bool, now Boot) bool {
	if !denied {
		a.denial = denial{}
		return answer == fencing.Refused || answer == fencing.Invalid
	}
	return !a.denial.isYoung(now, a.Trust.timing.Duration)
}

// Exit is how the command ended; nil: it never ran.
func (a *Attempt) Exit() *Exit { return a.exit }

// StartError is why the command could not be started.
func (a *Attempt) StartError() error { return a.startErr }

// KillIn is how long the tree has from now to SIGKILL; 0: no time, or nobody has planned any.
func (a *Attempt) KillIn(now Boot) time.Duration {
	if a.killAt == Never {
		return 0
	}
	return max(0, a.killAt.Sub(now))
}

// IsOverdue reports whether it ran for as long as an attempt may.
func (a *Attempt) IsOverdue() bool { return a.overdue }

// Fenced is why the tree must die; empty: it need not.
func (a *Attempt) Fenced() string { return a.fenced }

// LostWhileRunning is why the term was lost while the command ran, or before; empty: its end counts as its own.
func (a *Attempt) LostWhileRunning() string {
	if !a.afterFence {
		return ""
	}
	return a.fenced
}
