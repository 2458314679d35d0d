package plan

import (
	"fmt"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/bug"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// grantRetry is the pause before a grant is tried again that something outside the task stood in the way of.
const grantRetry = 10 * time.Second

// recordPatience is how long a grant may stand unrecorded before it is revoked: it may be that of another controller, which is
// about to record it, and would be charged as an attempt that was revoked.
const recordPatience = 2 * time.Second

// unrecordedSubmission records, as a grant, a term that ran and ended unknown to the status. Its token is the one that
// the submission names, which must be new; the next pass then reads the submission as any other.
func unrecordedSubmission(s *Snapshot) (Plan, bool) {
	if s.Term == nil || s.Term.State() != fencing.Submitted || s.Term.Attempt <= s.Task.Status.Attempt ||
		int64(s.Term.Submission.Token) <= s.Task.Status.FencingToken {
		return Plan{}, false
	}
	grant := &mailbox.Grant{Holder: s.Term.Holder, Attempt: s.Term.Attempt}
	return Plan{Status: Granted(s, grant, s.Term.UID, s.Term.Submission.Token)}, true
}

func unrecordedClaim(s *Snapshot) (Plan, bool) {
	if s.Term == nil || s.Term.State() != fencing.Claimed || bug.Is(bug.GrantOverHeld) {
		return Plan{}, false
	}
	if verdict, left := fencing.Judge(s.Term, s.Since, s.Now); verdict != fencing.VerdictExpired {
		return Plan{Watch: left}, true
	}
	return Plan{Revoke: &Revoke{ThisVersion: true}}, true
}

func unrecordedGrant(s *Snapshot) (Plan, bool) {
	if s.Term == nil || s.Term.State() != fencing.Granted {
		return Plan{}, false
	}
	if young := recordPatience - s.Now.Sub(s.Since); young > 0 {
		return Plan{Requeue: young}, true
	}
	return Plan{Revoke: &Revoke{}}, true
}

func unrecordedRelease(s *Snapshot) (Plan, bool) {
	if s.Term == nil || s.Term.State() != fencing.Revoked || s.Term.Attempt == s.Task.Status.Attempt {
		return Plan{}, false
	}
	release, left := fencing.Released(s.Term, s.hasWorkerTerminated(), s.Since, s.Now)
	if release != fencing.NotReleased {
		return Plan{}, false
	}
	p := s.write(s.status(), waiting{v1alpha1.WaitingAwaitingRelease, "an earlier process may still run"})
	p.Requeue = left
	return p, true
}

func startingLater(s *Snapshot) (Plan, bool) {
	at := s.Task.Spec.StartAfter
	if at == nil || s.Task.Status.Attempt > 0 || !s.Now.Before(at.Time) {
		return Plan{}, false
	}
	p := s.write(s.status(), waiting{v1alpha1.WaitingStartAfter, "the first attempt starts after " + at.UTC().Format(time.RFC3339)})
	p.Requeue = at.Sub(s.Now)
	return p, true
}

func backingOff(s *Snapshot) (Plan, bool) {
	next := s.Task.Status.NextAttemptTime
	if next == nil {
		return Plan{}, false
	}
	// More than the longest pause cannot be left: then a clock was set back.
	if left := next.Sub(s.Now); left <= 0 || left > s.longestPause() {
		return Plan{}, false
	}
	p := s.write(s.status(), backoffOf(&s.Task.Status))
	p.Requeue = next.Sub(s.Now)
	return p, true
}

// grant is asked last: the term, if there is one, has ended, is on record, and is released.
func grant(s *Snapshot) (Plan, bool) {
	if s.GrantProblem != nil {
		p := s.write(s.status(), waiting{s.GrantProblem.Reason, s.GrantProblem.Message})
		p.Requeue = grantRetry
		return p, true
	}
	attempt, what := s.Task.Status.Attempt+1, nextTerm(&s.Task.Status)
	g := &mailbox.Grant{
		Holder:   PodName(s.Task.Name, attempt, s.Suffix),
		Attempt:  attempt,
		Duration: s.Task.Spec.LeaseDuration(),
		Time:     s.Now,

		Checkpoint: s.carriedCheckpoint(),
	}
	if s.Term != nil {
		g.Over = s.Term.ResourceVersion
	}
	return Plan{
		Grant:     g,
		CreatePod: true,
		KeepPlace: true,
		Counts:    []Count{{Counter: CountGrant}},
		Events: []Event{{Reason: "Granted", Action: "Grant",
			Note: fmt.Sprintf("%s granted to Pod %s", sentence(what), g.Holder)}},
	}, true
}
