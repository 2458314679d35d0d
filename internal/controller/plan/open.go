package plan

import (
	"fmt"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/bug"
)

// runningAfter is how old a claim gets before it is put on record: a shorter task saves a write.
const runningAfter = 2 * time.Second

func leaseLost(s *Snapshot) (Plan, bool) {
	if s.isRecorded() {
		return Plan{}, false
	}
	if answer := s.ownAnswer(); answer != nil {
		return s.countAnswer(answer), true
	}
	return s.endAttempt(disruption(v1alpha1.EvidenceObservation, ReasonLeaseDeleted,
		"somebody deleted or replaced the term's Lease; leave Leases named lh-... to the operator"), unreleased), true
}

func submitted(s *Snapshot) (Plan, bool) {
	if bug.Is(bug.GrantOverSubmission) && s.hasWorkerTerminated() {
		return s.endAttempt(s.lossEnd(), released), true
	}
	sub := s.verified(s.Term.Submission.Verify(fencing.Token(s.Task.Status.FencingToken)))
	e := s.submittedEnd(sub)
	if e.outcome != v1alpha1.AttemptSucceeded {
		return s.endAttempt(e, released), true
	}
	if s.KeyRefusal != "" { // nothing is lost: the submission stands, and is counted with the record of it
		return s.awaitKeyLease(), true
	}
	status := s.status()
	s.record(status, e)
	takeResult(status, sub.Result, sub.ResultRef)
	p := s.finish(status, v1alpha1.PhaseCompleted)
	last := lastOf(status.History)
	p.Counts = append(append(s.claimCount(), endCount(&last)), p.Counts...)
	return p, true
}

func revoked(s *Snapshot) (Plan, bool) {
	e := s.lossEnd()
	if left, limited := s.untilOverdue(); limited && left <= 0 && s.Term.Stop == nil { // a crash between revoke and record
		e = s.overdueEnd()
	}
	return s.endAttempt(e, unreleased), true
}

func workerEnded(s *Snapshot) (Plan, bool) {
	if !s.hasWorkerTerminated() {
		return Plan{}, false
	}
	p := s.endAttempt(s.lossEnd(), unreleased)
	p.Revoke = &Revoke{}
	return p, true
}

func expired(s *Snapshot) (Plan, bool) {
	if verdict, _ := fencing.Judge(s.Term, s.Since, s.Now); verdict != fencing.VerdictExpired {
		return Plan{}, false
	}
	p := s.endAttempt(s.lossEnd(), unreleased)
	if !bug.Is(bug.GrantOverHeld) {
		p.Revoke = &Revoke{ThisVersion: true}
	}
	p.Counts = append(p.Counts, Count{Counter: CountExpiry})
	return p, true
}

// overdue is for an agent that does not do what it should: it ends its own attempt after attemptSeconds and the stop grace,
// and a whole duration on top is more than it needs to say so.
func overdue(s *Snapshot) (Plan, bool) {
	if left, limited := s.untilOverdue(); !limited || left > 0 {
		return Plan{}, false
	}
	p := s.endAttempt(s.overdueEnd(), unreleased)
	p.Revoke = &Revoke{ThisVersion: true} // it renews: when it was last heard counts
	return p, true
}

func (s *Snapshot) overdueEnd() end {
	return failure(v1alpha1.EvidenceObservation, fencing.ReasonDeadlineExceeded,
		"the attempt ran longer than timeouts.attemptSeconds (%s), and its agent did not end it", s.Task.Spec.AttemptLimit())
}

// untilOverdue is how long the claimed attempt may still run before the controller ends it; false: it is not limited.
func (s *Snapshot) untilOverdue() (time.Duration, bool) {
	spec := &s.Task.Spec
	if spec.AttemptLimit() == 0 || s.ClaimedSince.IsZero() {
		return 0, false
	}
	return spec.AttemptLimit() + spec.StopGrace() + spec.LeaseDuration() - s.Now.Sub(s.ClaimedSince), true
}

func claimSeen(s *Snapshot) (Plan, bool) {
	young := runningAfter - s.Now.Sub(s.Since)
	if s.isClaimKnown() || young <= 0 {
		return Plan{}, false
	}
	return s.hold(Plan{Requeue: young}), true
}

func running(s *Snapshot) (Plan, bool) {
	if s.isClaimKnown() {
		return Plan{}, false
	}
	status := s.status()
	if status.Phase == v1alpha1.PhaseClaimed {
		status.Phase = v1alpha1.PhaseRunning
	}
	s.recordClaim(status)
	s.recordNotes(status)
	p := s.hold(s.write(status, waiting{}))
	p.Counts = s.claimCount()
	return p, true
}

func held(s *Snapshot) (Plan, bool) {
	status := s.status()
	left, isNew := s.untilProgress()
	if isNew && left == 0 {
		s.recordNotes(status)
	}
	p := s.hold(s.write(status, waiting{}))
	if left > 0 {
		p.requeueWithin(left)
	}
	return p, true
}

// hold says when a held term has to be looked at again: when it will have expired, and when it will be overdue.
func (s *Snapshot) hold(p Plan) Plan {
	_, p.Watch = fencing.Judge(s.Term, s.Since, s.Now)
	if left, limited := s.untilOverdue(); limited {
		p.requeueWithin(left)
	}
	return p
}

// isClaimKnown reports whether the open term's claim is on record.
func (s *Snapshot) isClaimKnown() bool {
	status := &s.Task.Status
	return status.Phase == v1alpha1.PhaseRunning || status.Phase == v1alpha1.PhaseProbing && status.Holder.ClaimTime != nil
}

// claimCount counts a claim with the write that first records it.
func (s *Snapshot) claimCount() []Count {
	if s.isClaimKnown() || !s.hasClaim() {
		return nil
	}
	return []Count{{Counter: CountClaim}}
}

const (
	released   = true
	unreleased = false
)

// endAttempt records an attempt that ended without counting. Where its process is known to be over, the same write
// settles what becomes of the task; else it waits in Expired for the release. After its last attempt it always stops there: what
// the dead letter says is on record before it is made, so that nobody who makes it again, after a crash say, makes another.
func (s *Snapshot) endAttempt(e end, isReleased bool) Plan {
	status := s.status()
	s.record(status, e)
	last := lastOf(status.History) // with the outcome that the task's rules made of it
	s.pause(status)
	var p Plan
	if isReleased {
		p = s.settle(status)
	} else {
		status.Phase = v1alpha1.PhaseExpired
		p = s.write(status, waiting{v1alpha1.WaitingAwaitingRelease, "the process of " + termOf(status) + " may still run"})
	}
	p.Counts = append(append(s.claimCount(), endCount(&last)), p.Counts...)
	p.Events = append([]Event{endEvent(&last)}, p.Events...)
	return p
}

// pause sets when the next term may start, after the end that is last on record.
func (s *Snapshot) pause(status *v1alpha1.LeasedTaskStatus) {
	if n, pauses := s.endsBefore(status); pauses {
		status.NextAttemptTime = s.in(s.pauseAfter(status, n))
	}
}

// endsBefore says whether the end that is last on record is followed by a pause, and after how many it is the pause. The end of an
// attempt that is in doubt is not: its pause follows once a probe has answered.
func (s *Snapshot) endsBefore(status *v1alpha1.LeasedTaskStatus) (n int32, pauses bool) {
	last := lastOf(status.History)
	switch {
	case last.Outcome == v1alpha1.AttemptStopped, s.isOver(status):
		return 0, false
	case isInDoubt(status):
		return status.Uncertain.Probes, last.ProbeFor > 0
	}
	return status.Failures + status.Disruptions, true
}

// endCount counts an end by what it was the end of.
func endCount(entry *v1alpha1.AttemptRecord) Count {
	if entry.ProbeFor == 0 {
		return Count{CountAttempt, string(entry.Outcome)}
	}
	if entry.Outcome == v1alpha1.AttemptSucceeded {
		return Count{CountProbe, entry.Reason} // EffectFound or NoEffect
	}
	return Count{CountProbe, string(entry.Outcome)}
}

func endEvent(entry *v1alpha1.AttemptRecord) Event {
	event := Event{Reason: "Attempt" + string(entry.Outcome), Action: "EndAttempt",
		Warning: entry.Outcome == v1alpha1.AttemptFailed || entry.Outcome == v1alpha1.AttemptDisrupted,
		Note:    fmt.Sprintf("Attempt %d: %s: %s", entry.Attempt, entry.Reason, entry.Message)}
	if entry.ProbeFor > 0 {
		event.Reason, event.Action = "Probe"+string(entry.Outcome), "EndProbe"
		event.Note = fmt.Sprintf("Probe %d for attempt %d: %s: %s", entry.Attempt, entry.ProbeFor, entry.Reason, entry.Message)
	}
	return event
}
