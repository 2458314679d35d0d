package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// fate is how attempt 1 ends, and all that has a say in what follows.
type fate struct {
	policy v1alpha1.LostAttemptPolicy
	end    string
	effect fencing.Effect
	rule   v1alpha1.RetryAction
	isLast bool   // its end uses up the budget
	asked  string // of the task: nothing, cancel, suspend
}

// ends are the ways in which attempt 1 may end.
var ends = map[string]struct {
	happens     func(*Snapshot)
	isClaimed   bool // as far as anybody can tell
	isSubmitted bool
	isStopped   bool
	isSuccess   bool
}{
	"succeeds":                 {happens: sayOnce(fencing.Succeeded), isClaimed: true, isSubmitted: true, isSuccess: true},
	"fails":                    {happens: sayOnce(fencing.Failed), isClaimed: true, isSubmitted: true},
	"fences itself":            {happens: sayOnce(fencing.Fenced), isClaimed: true, isSubmitted: true},
	"is interrupted":           {happens: sayOnce(fencing.Interrupted), isClaimed: true, isSubmitted: true},
	"is stopped":               {happens: stopOnce, isClaimed: true, isSubmitted: true, isStopped: true},
	"vanishes":                 {happens: func(s *Snapshot) { onRecord(s); workerDied(137, "Error", "")(s) }, isClaimed: true},
	"falls silent":             {happens: func(s *Snapshot) { onRecord(s); noPod(s); since(time.Minute)(s) }, isClaimed: true},
	"loses its Lease":          {happens: func(s *Snapshot) { onRecord(s); noPod(s); leaseGone(s) }, isClaimed: true},
	"loses its Lease, young":   {happens: func(s *Snapshot) { granted(s); noPod(s); leaseGone(s) }, isClaimed: true},
	"is revoked unclaimed":     {happens: func(s *Snapshot) { granted(s); noPod(s); revokedTerm(s) }},
	"is deleted before it ran": {happens: func(s *Snapshot) { granted(s); podDeleted(s) }},
}

func sayOnce(outcome fencing.Outcome) func(*Snapshot) {
	return func(s *Snapshot) { onRecord(s); noPod(s); submits(outcome)(s) }
}

func stopOnce(s *Snapshot) {
	sayOnce(fencing.Cancelled)(s)
	told(fencing.ReasonSuspended, 30, 0)(s)
}

// eachFate calls do for every combination that makes sense.
func eachFate(do func(fate)) {
	for _, policy := range []v1alpha1.LostAttemptPolicy{v1alpha1.LostAttemptRetry, v1alpha1.LostAttemptReconcile, v1alpha1.LostAttemptDeadLetter} {
		for end, how := range ends {
			for _, effect := range []fencing.Effect{"", fencing.EffectNone} {
				for _, rule := range []v1alpha1.RetryAction{"", v1alpha1.RetryActionRetry, v1alpha1.RetryActionIgnore, v1alpha1.RetryActionDeadLetter} {
					for _, asked := range []string{"", "cancel", "suspend"} {
						if effect == "" || how.isSubmitted && !how.isSuccess {
							do(fate{policy, end, effect, rule, false, asked})
							do(fate{policy, end, effect, rule, true, asked})
						}
					}
				}
			}
		}
	}
}

func (f fate) snapshot() *Snapshot {
	s := given(ends[f.end].happens, onTask(func(t *v1alpha1.LeasedTask) {
		if f.policy == v1alpha1.LostAttemptReconcile {
			reconcile(30)(&Snapshot{Task: t})
		}
		t.Spec.OnLostAttempt = f.policy
		t.Spec.Retry.Rules = nil
		if f.rule != "" { // it matches every end
			t.Spec.Retry.Rules = []v1alpha1.RetryRule{{Action: f.rule, OnReasons: []string{"Why", ReasonWorkerVanished, ReasonPodDeleted, ReasonLeaseDeleted, ReasonRevoked}}}
		}
		if f.isLast {
			t.Spec.Retry.MaxAttempts, t.Spec.Retry.MaxDisruptions = 1, new(int32(0))
		}
	}))
	if s.Term != nil && s.Term.Submission != nil {
		s.Term.Submission.Effect = f.effect
	}
	switch f.asked {
	case "cancel":
		cancel(s)
	case "suspend":
		suspend(s)
	}
	return s
}

// certain is what follows an attempt of which it is known that it had no effect.
func (f fate) certain(isCharged bool) string {
	switch {
	case f.asked == "cancel":
		return "Cancelled"
	case f.rule == v1alpha1.RetryActionDeadLetter && isCharged:
		return "DeadLettered RetryRule"
	case f.isLast && isCharged:
		return "DeadLettered BudgetExceeded"
	}
	return "Available"
}

// isCharged reports whether the end uses a budget, and is judged by rules. One that nobody had claimed when suspend or cancel came is
// stopped.
func (f fate) isCharged() bool {
	how := ends[f.end]
	return !how.isStopped && (how.isClaimed || f.asked == "")
}

// want is what must follow, in the words of the documentation: docs/lost-attempts.md.
func (f fate) want() string {
	how := ends[f.end]
	isUncertain := how.isClaimed && f.effect != fencing.EffectNone
	switch {
	case how.isSuccess:
		return "Completed"
	case f.asked == "cancel", !isUncertain, f.policy == v1alpha1.LostAttemptRetry:
		return f.certain(f.isCharged())
	case f.policy == v1alpha1.LostAttemptDeadLetter:
		return "DeadLettered LostAttempt"
	}
	return "Probing"
}

// TestEveryFateOfAnAttempt: policy, end, effect, rule, budget, and what is asked of the task, in every combination.
func TestEveryFateOfAnAttempt(t *testing.T) {
	n := 0
	eachFate(func(f fate) {
		n++
		s := settledDown(t, f.snapshot())
		if got := outcomeOf(s); got != f.want() {
			t.Errorf("%+v: %s, want %s: %+v", f, got, f.want(), s.Task.Status)
		}
		isMarked := s.Task.Status.Uncertain.Attempt == 1
		isDoubtful := ends[f.end].isClaimed && !ends[f.end].isSuccess && f.effect == "" && f.policy != v1alpha1.LostAttemptRetry
		if isMarked != isDoubtful {
			t.Errorf("%+v: uncertain %+v", f, s.Task.Status.Uncertain)
		}
	})
	t.Logf("%d fates", n)
}

// probeEnds are the ways in which a probe may end, and what must follow for an attempt with the given fate.
var probeEnds = map[string]struct {
	happens func(*Snapshot)
	want    func(fate) string
}{
	"finds it":      {answers(fencing.Succeeded, fencing.ReasonCompleted, 0), func(fate) string { return "Completed" }},
	"finds nothing": {answers(fencing.Failed, fencing.ReasonNonZeroExit, 1), func(f fate) string { return f.certain(f.isCharged()) }},
	"cannot tell":   {answers(fencing.Failed, fencing.ReasonNonZeroExit, 2), func(fate) string { return "DeadLettered OutcomeUnknown" }},
	"is fenced":     {answers(fencing.Fenced, fencing.ReasonRenewalFailed, 1), func(fate) string { return "DeadLettered OutcomeUnknown" }},
	"vanishes":      {func(s *Snapshot) { s.Term.Claim = claimBy(s) }, func(fate) string { return "DeadLettered OutcomeUnknown" }},
	"never starts": {func(s *Snapshot) { s.PodRefusal = &PodRefusal{Kind: RefusedInvalid, Message: "no"} },
		func(fate) string { return "DeadLettered OutcomeUnknown" }},
}

func answers(outcome fencing.Outcome, reason string, code int32) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Term.Claim = claimBy(s)
		s.Term.Submission = &fencing.Submission{Token: fencing.Token(s.Task.Status.FencingToken), Outcome: outcome, Reason: reason, ExitCode: &code}
	}
}

func claimBy(s *Snapshot) *fencing.Claim {
	c := fencing.ParseClaim(fmt.Sprintf("nonce-%d/node-2/pod-uid-%d", s.Term.Attempt, s.Term.Attempt))
	return &c
}

// TestEveryFateOfAProbe: every probe of a task ends in the same way, however the attempt ended, and whatever rules and budget say.
// No attempt is ever granted on the way.
func TestEveryFateOfAProbe(t *testing.T) {
	eachFate(func(f fate) {
		if f.want() != "Probing" || f.asked != "" {
			return
		}
		for name, end := range probeEnds {
			s := settledDown(t, f.snapshot())
			n := 0
			for ; outcomeOf(s) == "Probing"; n++ {
				s = probed(t, s, end.happens)
			}
			if got := outcomeOf(s); got != end.want(f) {
				t.Errorf("%+v, each probe %s: %s, want %s", f, name, got, end.want(f))
			}
			if isUnknown := strings.HasSuffix(end.want(f), "OutcomeUnknown"); isUnknown && n != v1alpha1.DefaultMaxProbes || !isUnknown && n != 1 {
				t.Errorf("%+v, each probe %s: %d probes", f, name, n)
			}
			if charged := s.Task.Status.Failures + s.Task.Status.Disruptions; charged > 1 {
				t.Errorf("%+v: probes are charged: %+v", f, s.Task.Status)
			}
		}
	})
}

// probed grants the next probe and lets it end.
func probed(t *testing.T, s *Snapshot, happens func(*Snapshot)) *Snapshot {
	t.Helper()
	s = driven(t, s, func(s *Snapshot) bool { return isProbing(&s.Task.Status) })
	happens(s)
	s = driven(t, s, func(s *Snapshot) bool { return !isOpen(s) })
	s.PodRefusal = nil
	return settledDown(t, s)
}

// outcomeOf is where a task has come to rest.
func outcomeOf(s *Snapshot) string {
	status := &s.Task.Status
	if status.Phase != v1alpha1.PhaseDeadLettered {
		return string(status.Phase)
	}
	reason, _ := s.deadLetterCause(status)
	return "DeadLettered " + reason
}

// settledDown goes on until nothing is open and nothing waits for a release or a dead letter.
func settledDown(t *testing.T, s *Snapshot) *Snapshot {
	t.Helper()
	return driven(t, s, func(s *Snapshot) bool { return s.Task.Status.Phase.IsFinished() || isReady(s) })
}

// driven carries out plan after plan, and lets the time pass that they ask for, until the snapshot is as wanted. A Pod never shows.
func driven(t *testing.T, s *Snapshot, is func(*Snapshot) bool) *Snapshot {
	t.Helper()
	for range 20 {
		if is(s) {
			return s
		}
		next := *s
		next.Task = s.Task.DeepCopy()
		p := Decide(s)
		switch {
		case p.Grant != nil:
			next.Task.Status = *Granted(s, p.Grant, "lease-1", fencing.Token(s.Task.Status.FencingToken+22))
			next.Term = termFor(p.Grant)
			next.Since, next.Pods = s.Now, nil
		case p.Status != nil:
			next.Task.Status = stored(t, p.Status)
		}
		if p.Revoke != nil {
			term := *s.Term
			term.Holder, next.Term = "", &term
		}
		if p.Grant == nil && !isChanged(&s.Task.Status, &next.Task.Status) {
			next.Now = s.Now.Add(max(p.Requeue, p.Watch, time.Second))
		}
		s = &next
	}
	t.Fatalf("does not get there: %+v", s.Task.Status)
	return nil
}

func isChanged(was, is *v1alpha1.LeasedTaskStatus) bool {
	return was.Phase != is.Phase || len(was.History) != len(is.History) || was.DeadLetterName != is.DeadLetterName
}

func termFor(g *mailbox.Grant) *fencing.Term {
	return &fencing.Term{Name: "lh-1", UID: "lease-1", ResourceVersion: fmt.Sprint(100 + g.Attempt), Task: "uid-1", Holder: g.Holder, Attempt: g.Attempt,
		Duration: g.Duration, GrantTime: g.Time}
}
