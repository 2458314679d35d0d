package plan

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	return s.endAttempt(disruption(v1alpha1.EvidenceObservation, ReasonLeaseDeleted,
		"the term's Lease was deleted or replaced"), unreleased), true
}

func submitted(s *Snapshot) (Plan, bool) {
	if bug.Is(bug.GrantOverSubmission) && s.hasWorkerTerminated() {
		return s.endAttempt(s.lossEnd(), released), true
	}
	sub := s.Term.Submission.Verify(fencing.Token(s.Task.Status.FencingToken))
	e := s.submittedEnd(sub)
	if e.outcome != v1alpha1.AttemptSucceeded {
		return s.endAttempt(e, released), true
	}
	status := s.status()
	s.record(status, e)
	status.Result = sub.Result
	p := s.finish(status, v1alpha1.PhaseCompleted)
	p.Counts = append(append(s.claimCount(), Count{CountAttempt, string(e.outcome)}), p.Counts...)
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
		p.Revoke = &Revoke{Expired: true}
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
	p.Revoke = &Revoke{Expired: true} // of this very version, so that nothing is forgotten when it was last heard
	return p, true
}

func (s *Snapshot) overdueEnd() end {
	return failure(v1alpha1.EvidenceObservation, fencing.ReasonDeadlineExceeded,
		"the attempt ran longer than %s, and its agent did not end it", s.Task.Spec.AttemptLimit())
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
	if s.Task.Status.Phase != v1alpha1.PhaseClaimed || young <= 0 {
		return Plan{}, false
	}
	return s.hold(Plan{Requeue: young}), true
}

func running(s *Snapshot) (Plan, bool) {
	if s.Task.Status.Phase != v1alpha1.PhaseClaimed {
		return Plan{}, false
	}
	status := s.status()
	status.Phase = v1alpha1.PhaseRunning
	s.recordClaim(status)
	p := s.hold(s.write(status, waiting{}))
	p.Counts = s.claimCount()
	return p, true
}

func held(s *Snapshot) (Plan, bool) { return s.hold(s.write(s.status(), waiting{})), true }

// hold says when a held term has to be looked at again: when it will have expired, and when it will be overdue.
func (s *Snapshot) hold(p Plan) Plan {
	_, p.Watch = fencing.Judge(s.Term, s.Since, s.Now)
	if left, limited := s.untilOverdue(); limited {
		p.requeueWithin(left)
	}
	return p
}

// claimCount counts a claim with the write that first records it.
func (s *Snapshot) claimCount() []Count {
	if s.Task.Status.Phase != v1alpha1.PhaseClaimed || !s.hasClaim() {
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
	if last.Outcome != v1alpha1.AttemptStopped && !s.isOver(status) {
		pause := Backoff(&s.Task.Spec.Retry.Backoff, status.Failures+status.Disruptions, s.Jitter)
		status.NextAttemptTime = new(metav1.NewMicroTime(s.Now.Add(pause).Truncate(time.Microsecond)))
	}
	var p Plan
	if isReleased {
		p = s.settle(status)
	} else {
		status.Phase = v1alpha1.PhaseExpired
		p = s.write(status, waiting{v1alpha1.WaitingAwaitingRelease, fmt.Sprintf("the process of attempt %d may still run", status.Attempt)})
	}
	p.Counts = append(append(s.claimCount(), Count{CountAttempt, string(last.Outcome)}), p.Counts...)
	p.Events = append([]Event{{Warning: last.Outcome != v1alpha1.AttemptStopped, Reason: "Attempt" + string(last.Outcome), Action: "EndAttempt",
		Note: fmt.Sprintf("Attempt %d: %s: %s", status.Attempt, last.Reason, last.Message)}}, p.Events...)
	return p
}
