package plan

import (
	"testing"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// TestCase33TheTimeToLiveIsTheOutcomes: that of its outcome, if there is one, else the general one; from the end, which for a
// dead-lettered task is after its dead letter was made; whatever it says when the time has passed.
func TestCase33TheTimeToLiveIsTheOutcomes(t *testing.T) {
	all := v1alpha1.TTLSpec{CompletedSeconds: new(int32(100)), CancelledSeconds: new(int32(200)), DeadLetteredSeconds: new(int32(300))}
	phases := []v1alpha1.Phase{v1alpha1.PhaseCompleted, v1alpha1.PhaseCancelled, v1alpha1.PhaseDeadLettered}
	const stays = time.Duration(-1) // no time is set
	tests := map[string]struct {
		general *int32
		ttl     v1alpha1.TTLSpec
		want    [3]time.Duration // left, of a task that has ended ten seconds ago, by phase; 0: it is deleted
	}{
		"none":               {want: [3]time.Duration{stays, stays, stays}},
		"the general one":    {general: new(int32(60)), want: [3]time.Duration{50 * time.Second, 50 * time.Second, 50 * time.Second}},
		"one for each":       {ttl: all, want: [3]time.Duration{90 * time.Second, 190 * time.Second, 290 * time.Second}},
		"it goes before":     {general: new(int32(5)), ttl: all, want: [3]time.Duration{90 * time.Second, 190 * time.Second, 290 * time.Second}},
		"for one outcome":    {ttl: v1alpha1.TTLSpec{CancelledSeconds: new(int32(15))}, want: [3]time.Duration{stays, 5 * time.Second, stays}},
		"zero is at once":    {general: new(int32(60)), ttl: v1alpha1.TTLSpec{CompletedSeconds: new(int32(0))}, want: [3]time.Duration{0, 50 * time.Second, 50 * time.Second}},
		"lowered afterwards": {ttl: v1alpha1.TTLSpec{DeadLetteredSeconds: new(int32(10))}, want: [3]time.Duration{stays, stays, 0}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for i, phase := range phases {
				s := given(finishedAs(phase), func(s *Snapshot) {
					s.Task.Spec.TTLSecondsAfterFinished, s.Task.Spec.TTL = test.general, test.ttl
				})
				p := Decide(s)
				switch want := test.want[i]; {
				case p.Rule != RuleFinished, p.DeleteTask != (want == 0), want == stays && p.Requeue != 0, want > 0 && p.Requeue != want:
					t.Errorf("%s: rule %s, deleted %t, looks again in %s; want %s", phase, p.Rule, p.DeleteTask, p.Requeue, want)
				}
			}
		})
	}
}

// TestCase33NothingIsDeletedBeforeItsDeadLetterExists: a time to live does not begin before the final phase.
func TestCase33NothingIsDeletedBeforeItsDeadLetterExists(t *testing.T) {
	s := given(isOverFor(ReasonStartTimeout), notBuried("exceeded quota"), func(s *Snapshot) {
		s.Task.Spec.TTLSecondsAfterFinished, s.Task.Spec.TTL.DeadLetteredSeconds = new(int32(0)), new(int32(0))
	})
	if p := Decide(s); p.DeleteTask || p.Rule != RuleGiveUp {
		t.Errorf("rule %s, deleted %t", p.Rule, p.DeleteTask)
	}
}
