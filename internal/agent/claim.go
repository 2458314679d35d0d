package agent

import (
	"context"
	"syscall"
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// claimPause is the first pause between two tries to claim; it doubles up to the request timeout.
const claimPause = 100 * time.Millisecond

// claim repeats the claim until it is known who holds the term, and returns the attempt that begins with it, or nil. stopped
// says that the Pod was told to stop meanwhile. It then goes on only while a claim may stand whose answer was lost: such a
// term must be ended by a submission, or it is waited for until it expires.
func (a *Agent) claim(ctx context.Context) (attempt *holder.Attempt, stopped bool) {
	c := holder.NewClaimant()
	for pause := claimPause; ; pause = min(2*pause, a.Config.Timing.RequestTimeout) {
		start := a.Clock.Boot()
		form := c.Form()
		reply := a.sendClaim(ctx, form)
		stopped = a.drainSignals() || stopped
		switch now := a.Clock.Boot(); c.Hear(reply.Answer, reply.IsDenied(), now) {
		case holder.ClaimHeld:
			a.Log.Info("Claimed", "lease", a.Config.Lease, "token", a.Config.Token)
			return a.begin(start, now, reply.Heard, stopped), stopped
		case holder.ClaimLost:
			a.Log.Error("Claim refused", "form", form, "status", reply.Code)
			return nil, stopped
		case holder.ClaimOpen:
			a.Log.Warn("Claim not settled", "form", form, "answer", reply.Answer, "detail", reply.Detail)
			stopped = a.waitUntil(ctx, start.Add(holder.Spread(pause, 0.5, a.Jitter())), stopped) || stopped
			if ctx.Err() != nil || (stopped && !c.MayStand()) {
				return nil, stopped
			}
		}
	}
}

// begin is the attempt of a claim that was sent at start and is known to stand at now. A repeated claim may find that the
// first one was told to stop. What the attempt before left for this one came with the same answer.
func (a *Agent) begin(start, now holder.Boot, heard fencing.Heard, stopped bool) *holder.Attempt {
	held := holder.NewTrust(a.Config.Timing, a.Config.OnRenewalFailure)
	held.Succeed(start, a.Jitter())
	attempt := holder.NewAttempt(held, a.Config.StopGrace)
	attempt.LimitTo(a.Config.AttemptLimit)
	if a.Config.Heartbeat == holder.Application {
		attempt.RequireHeartbeats()
	}
	a.notes.checkpoint = heard.Checkpoint
	if stopped {
		attempt.Stop(now)
	}
	if heard.Stop != nil {
		attempt.Order(*heard.Stop, now)
	}
	return attempt
}

// stamp is the renewTime of the next request. The loop takes it, not the request's own goroutine.
func (a *Agent) stamp() time.Time { return a.stamps.Next(a.Clock.Wall()) }

func (a *Agent) sendClaim(ctx context.Context, form holder.ClaimForm) Reply {
	ctx, cancel := context.WithTimeout(ctx, a.Config.Timing.RequestTimeout)
	defer cancel()
	var reply Reply
	if form == holder.ClaimRepeat {
		reply = a.Mailbox.Renew(ctx, a.stamp(), fencing.Note{})
	} else {
		reply = a.Mailbox.Claim(ctx, a.stamp())
	}
	if reply.Unread { // the checkpoint was in it, and the command must not begin without
		reply = Reply{Answer: fencing.Unavailable, Detail: "the answer was cut short"}
	}
	return reply
}

// waitUntil waits for a time, and reports whether a stop came first. With ignore, a stop does not end the wait.
func (a *Agent) waitUntil(ctx context.Context, at holder.Boot, ignore bool) bool {
	for a.Clock.Boot() < at {
		a.Alarm.Set(at)
		select {
		case sig := <-a.Signals:
			if isStop(sig.(syscall.Signal)) && !ignore {
				return true
			}
		case <-a.Alarm.C():
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// drainSignals takes the signals that have come while the agent was busy, and reports whether one was a stop. The others
// have nobody to go to yet.
func (a *Agent) drainSignals() (stopped bool) {
	for {
		select {
		case sig := <-a.Signals:
			stopped = stopped || isStop(sig.(syscall.Signal))
		default:
			return stopped
		}
	}
}
