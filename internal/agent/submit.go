package agent

import (
	"context"
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// Pauses between two tries to submit double from the first to the second, or to the pause between renewals if that is
// shorter: after an outage every held term gets one duration, and in it the agent must have spoken.
const (
	submitPause    = 250 * time.Millisecond
	maxSubmitPause = 15 * time.Second
)

// submit gives the outcome to the API server until it is accepted or refused, and keeps the term meanwhile. The termination
// message says Unknown first, so that it tells the outcome even if the agent is killed before it has an answer.
func (a *Agent) submit(ctx context.Context, s *holder.Attempt, end ending) {
	submission := end.submission()
	a.report(reportOf(submission, fencing.DeliveryUnknown))
	note := a.note(a.notes, a.Config.Timing.RequestTimeout)
	longest := min(maxSubmitPause, a.Config.Timing.Renew)
	for pause := submitPause; ctx.Err() == nil && s.KeepsSubmitting(a.Clock.Boot()); pause = min(2*pause, longest) {
		start := a.Clock.Boot()
		reply := a.sendSubmission(ctx, submission, note)
		switch {
		case reply.Answer == fencing.Accepted:
			a.conclude(submission, fencing.DeliveryAccepted, reply)
			return
		case reply.Answer == fencing.Invalid && !note.IsEmpty():
			note = fencing.Note{} // a checkpoint must not cost the result
			continue
		case reply.Answer == fencing.Invalid && submission.Result != nil:
			submission = end.tooLarge() // for another limit than ours
			a.report(reportOf(submission, fencing.DeliveryUnknown))
			continue
		case s.IsFinal(reply.Answer, reply.IsDenied(), a.Clock.Boot()):
			a.conclude(submission, fencing.DeliveryRefused, reply)
			return
		}
		a.Log.Warn("Submission not settled", "answer", reply.Answer, "detail", reply.Detail)
		a.keep(ctx, s)
		a.waitUntil(ctx, start.Add(holder.Spread(pause, 0.5, a.Jitter())), true)
	}
}

func (a *Agent) sendSubmission(ctx context.Context, submission fencing.Submission, note fencing.Note) Reply {
	encoded, err := submission.Encode()
	if err != nil {
		return Reply{Answer: fencing.Invalid, Detail: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, a.Config.Timing.RequestTimeout)
	defer cancel()
	return a.Mailbox.Submit(ctx, encoded, note)
}

// keep renews the term if that is due. A refusal decides nothing here: it may be our own submission, whose answer was
// lost, that ended the term.
func (a *Agent) keep(ctx context.Context, s *holder.Attempt) {
	if a.Clock.Boot() < s.Trust.Next() {
		return
	}
	r := a.renew(ctx, a.stamp(), fencing.Note{})
	if r.reply.Answer == fencing.Accepted {
		s.Trust.Succeed(r.start, a.Jitter())
		return
	}
	s.Trust.Fail(r.start, a.Jitter())
}

func (a *Agent) conclude(submission fencing.Submission, delivery fencing.Delivery, reply Reply) {
	a.report(reportOf(submission, delivery))
	a.Log.Info("Submitted", "outcome", submission.Outcome, "reason", submission.Reason, "delivery", delivery,
		"token", submission.Token, "status", reply.Code)
}

func reportOf(s fencing.Submission, delivery fencing.Delivery) fencing.Report {
	return fencing.Report{Token: s.Token, Outcome: s.Outcome, Reason: s.Reason, Delivery: delivery, Message: s.Message}
}
