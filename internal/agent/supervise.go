package agent

import (
	"cmp"
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// rtmin3 is SIGRTMIN+3, which stops an init system; images that hold one name it as their stop signal.
const rtmin3 = syscall.Signal(37)

// stopSignals are those by which a runtime stops a container: SIGTERM, or what the image names instead.
var stopSignals = []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, rtmin3}

// ForwardedSignals are those that the agent takes in its command's stead.
func ForwardedSignals() []syscall.Signal {
	return append([]syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}, stopSignals...)
}

func isStop(sig syscall.Signal) bool { return slices.Contains(stopSignals, sig) }

// renewal is the answer to one renewal.
type renewal struct {
	start holder.Boot
	note  fencing.Note // what it carried
	reply Reply
}

// supervise starts the command, keeps the term while it runs, and kills what it leaves. It returns true once nothing of the
// tree is left, and false if that did not come about in time.
func (a *Agent) supervise(ctx context.Context, s *holder.Attempt) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a renewal under way is of no use to a submission
	renewals := make(chan renewal, 1)
	renewing := false
	for {
		now := a.Clock.Boot() // always first: whatever woke the loop, it may have slept far beyond that
		a.act(s, now)
		if s.HasNoTree() {
			return true
		}
		if s.IsLost(now) || ctx.Err() != nil {
			return false
		}
		if s.RenewDue(now) && !renewing {
			renewing = true
			known, stamp := a.notes, a.stamp()
			go func() { renewals <- a.renew(ctx, stamp, a.note(known, a.Config.FileWait)) }()
		}
		a.Alarm.Set(s.Wake(renewing))
		select {
		case r := <-renewals:
			renewing = false
			a.hear(s, r)
		case exit := <-a.Tree.Exited():
			s.End(a.Clock.Boot(), exit)
			a.Log.Info("Command ended", "exitCode", exit.Code, "signal", int(exit.Signal))
		case <-a.emptied(s):
			return true
		case sig := <-a.Signals:
			a.pass(s, sig.(syscall.Signal))
		case <-a.Alarm.C():
		case <-ctx.Done():
		}
	}
}

// act does what is due at now.
func (a *Agent) act(s *holder.Attempt, now holder.Boot) {
	s.Beat(a.words.lastBeat())
	s.Check(now)
	if s.TermDue() {
		a.socket.withdraw() // whoever is told, is not heard any more
		a.tellWhy(fencing.ReasonRenewalFailed, "", s.KillIn(now))
		a.Tree.Kill(syscall.SIGTERM)
		a.Log.Error("Fenced", "reason", s.Fenced())
	}
	if s.StopDue() {
		reason, message := s.Why()
		a.tellWhy(reason, message, s.KillIn(now))
		a.Tree.Signal(cmp.Or(a.stopSignal, syscall.SIGTERM), true)
		a.Log.Info("Told to stop", "reason", reason, "message", message, "signal", int(a.stopSignal))
	}
	if s.MayStart(now) {
		err := a.unheard // nobody could tell whether it works
		if err == nil {
			err = a.Tree.Start(deadlineOf(s, now, a.Clock.Wall(), a.Config.TaskDeadline))
		}
		s.Started(err)
		s.Beat(now)
		if err != nil {
			a.Log.Error("Command cannot be started", "error", err)
		} else {
			a.Log.Info("Command started")
		}
	}
	if s.KillDue(now) {
		a.Tree.Kill(syscall.SIGKILL)
	}
}

// emptied is the tree's end. It is heard only after the command's own end, which comes first and decides the outcome.
func (a *Agent) emptied(s *holder.Attempt) <-chan struct{} {
	if s.Exit() == nil {
		return nil
	}
	return a.Tree.Empty()
}

// renew is one try. It may take as long as a request may; that trust ends meanwhile is the loop's business.
func (a *Agent) renew(ctx context.Context, stamp time.Time, note fencing.Note) renewal {
	ctx, cancel := context.WithTimeout(ctx, a.Config.Timing.RequestTimeout)
	defer cancel()
	start := a.Clock.Boot()
	return renewal{start: start, note: note, reply: a.Mailbox.Renew(ctx, stamp, note)}
}

func (a *Agent) hear(s *holder.Attempt, r renewal) {
	a.notes.settle(r.note, r.reply.Answer)
	now := a.Clock.Boot()
	s.Hear(r.reply.Answer, r.reply.IsDenied(), r.start, now, a.Jitter())
	if r.reply.Heard.Stop != nil {
		s.Order(*r.reply.Heard.Stop, now)
	}
	if r.reply.Answer != fencing.Accepted {
		a.Log.Warn("Renewal failed", "answer", r.reply.Answer, "detail", r.reply.Detail)
	}
}

// pass hands a signal on to the command. One that is a stop is passed on once it is known what for: see act.
func (a *Agent) pass(s *holder.Attempt, sig syscall.Signal) {
	if !isStop(sig) {
		a.Tree.Signal(sig, false)
		return
	}
	a.stopSignal = cmp.Or(a.stopSignal, sig)
	s.Stop(a.Clock.Boot())
}
