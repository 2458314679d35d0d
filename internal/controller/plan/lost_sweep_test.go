package plan

import (
	"testing"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// TestALostRevisionChangesNoFate: onLostAttempt is the queue's, and not known while the attempt ends. An attempt that may have had its
// effect is in doubt then, whatever the queue said, and nothing follows but a cancel; once it is known again, the same as ever does.
func TestALostRevisionChangesNoFate(t *testing.T) {
	eachFate(func(f fate) {
		s := f.snapshot()
		defaults := v1alpha1.TaskDefaults{OnLostAttempt: s.Task.Spec.OnLostAttempt, Reconcile: s.Task.Spec.Reconcile}
		s.Task.Spec.QueueName, s.Task.Spec.OnLostAttempt, s.Task.Spec.Reconcile = "mail", "", v1alpha1.ReconcileSpec{}
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
			return s.Task.Status.Phase.IsFinished() || isReady(s) && Decide(s).Rule != RuleNoProbe
		})
		if got := outcomeOf(s); got != f.want() || s.Task.Status.Attempt != 1 {
			t.Errorf("%+v: %s, want %s: %+v", f, got, f.want(), s.Task.Status)
		}
		if s.Task.Status.Phase == v1alpha1.PhaseAvailable && isInDoubt(&s.Task.Status) {
			t.Errorf("%+v: it is to be tried again, and in doubt", f)
		}
	})
}
