package plan

import (
	"slices"
	"testing"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// TestALostRevisionChangesNoFate: onLostAttempt and the budgets are the queue's, and not known while the attempt ends. An attempt that may have had its
// effect is in doubt then, whatever the queue said, and nothing follows but a cancel; once it is known again, the same as ever does.
func TestALostRevisionChangesNoFate(t *testing.T) {
	eachFate(func(f fate) {
		s := f.snapshot()
		spec := &s.Task.Spec
		defaults := v1alpha1.TaskDefaults{OnLostAttempt: spec.OnLostAttempt, Reconcile: spec.Reconcile, Retry: spec.Retry}
		spec.QueueName, spec.OnLostAttempt, spec.Reconcile, spec.Retry = "mail", "", v1alpha1.ReconcileSpec{}, v1alpha1.RetrySpec{Rules: spec.Retry.Rules}
		lost(s)
		s = settledDown(t, s)
		isDoubtful := ends[f.end].isClaimed && !ends[f.end].isSuccess && f.effect != fencing.EffectNone
		if isMarked := s.Task.Status.Uncertain.Attempt == 1; isMarked != isDoubtful {
			t.Errorf("%+v: lost, uncertain %+v", f, s.Task.Status.Uncertain)
		}
		if got := outcomeOf(s); isDoubtful && f.asked != "cancel" && got != "Probing" {
			t.Errorf("%+v: lost, %s", f, got)
		}

		s.Task.Spec = s.Source.Own
		back(defaults)(s)
		s = driven(t, s, func(s *Snapshot) bool {
			return s.Task.Status.Phase.IsFinished() || isReady(s) && !slices.Contains([]Rule{RuleNoProbe, RuleBudgetUsedUp, RuleGiveUp}, Decide(s).Rule)
		})
		if got := outcomeOf(s); got != f.want() || s.Task.Status.Attempt != 1 {
			t.Errorf("%+v: %s, want %s: %+v", f, got, f.want(), s.Task.Status)
		}
		if s.Task.Status.Phase == v1alpha1.PhaseAvailable && isInDoubt(&s.Task.Status) {
			t.Errorf("%+v: it is to be tried again, and in doubt", f)
		}
	})
}
