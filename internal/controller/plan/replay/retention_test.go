package replay

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

func discarded(s *Snapshot) {
	s.DeadLetter.Generation++
	s.DeadLetter.Spec.Discard = v1alpha1.DiscardSpec{Reason: "the customer is gone"}
}

// since is a discard that was put on record a while ago.
func since(d time.Duration) func(*Snapshot) {
	return func(s *Snapshot) {
		discarded(s)
		s.DeadLetter.Status.DiscardTime = new(metav1.NewTime(now.Add(-d)))
		s.DeadLetter.Status = *Decide(s).Status // with the conditions of that
	}
}

func retains(own *int32, otherwise time.Duration) func(*Snapshot) {
	return func(s *Snapshot) { s.DeadLetter.Spec.RetentionSeconds, s.Retention = own, otherwise }
}

// replayed is a request that was answered a while ago.
func replayed(outcome v1alpha1.ReplayOutcome, ago time.Duration) func(*Snapshot) {
	return func(s *Snapshot) {
		request := s.DeadLetter.Status.LastRequest + 1
		asks(request)(s)
		answered(request, outcome)(s)
		s.DeadLetter.Status.Replays[len(s.DeadLetter.Status.Replays)-1].Time = new(metav1.NewTime(now.Add(-ago)))
		s.DeadLetter.Status = *Decide(s).Status
	}
}

// TestADiscardIsPutOnRecordOnce, with an event and a count, and a dead letter at rest, whatever came of its replays.
func TestADiscardIsPutOnRecordOnce(t *testing.T) {
	for name, edits := range map[string][]func(*Snapshot){
		"never replayed":         {fromCache, discarded},
		"replayed":               {replayed(v1alpha1.ReplayCreated, time.Hour), discarded},
		"after a refused replay": {replayed(v1alpha1.ReplayRefused, time.Hour), discarded},
	} {
		t.Run(name, func(t *testing.T) {
			s := given(edits...)
			p := Decide(s)
			if p.Status == nil || !p.Status.DiscardTime.Time.Equal(now) || len(p.Counts) != 1 || p.Counts[0].Counter != CountDiscard ||
				len(p.Events) != 1 || p.Events[0].Note != "the customer is gone" || p.Create != nil || p.Delete {
				t.Fatalf("plan %+v", p)
			}
			if s.Retention = time.Hour; Decide(s).Requeue != time.Hour {
				t.Errorf("its retention is not waited for: %+v", Decide(s))
			}
			s.Retention = 0
			for kind, want := range map[string]string{v1alpha1.ConditionDiscarded: "True/Discarded", v1alpha1.ConditionReady: "True/Discarded",
				v1alpha1.ConditionReconciling: "False/NotReconciling", v1alpha1.ConditionStalled: "False/NotStalled"} {
				c := meta.FindStatusCondition(p.Status.Conditions, kind)
				if c == nil || string(c.Status)+"/"+c.Reason != want {
					t.Errorf("condition %s: %+v, want %s", kind, c, want)
				}
			}
			s.DeadLetter.Status, s.Now = *p.Status, now.Add(time.Minute)
			if p = Decide(s); p.Status != nil || len(p.Events)+len(p.Counts) > 0 {
				t.Errorf("and again: %+v", p)
			}
		})
	}
}

// TestCase30ADeadLetterGoesOnlyOnceItIsSettledAndItsRetentionIsOver, and not in silence.
func TestCase30ADeadLetterGoesOnlyOnceItIsSettledAndItsRetentionIsOver(t *testing.T) {
	hour := new(int32(3600))
	tests := map[string]struct {
		given   []func(*Snapshot)
		why     string        // the label of the count, if it is deleted
		requeue time.Duration // if it is to be
	}{
		"undecided: it waits for somebody, however long": {given: []func(*Snapshot){func(s *Snapshot) { s.DeadLetter.Status = *Decide(s).Status }, retains(hour, time.Minute)}},
		"discarded, and nothing says how long":           {given: []func(*Snapshot){since(1000 * time.Hour), retains(nil, 0)}},
		"discarded, by the operator's default":           {given: []func(*Snapshot){since(time.Hour), retains(nil, 90*time.Minute)}, requeue: 30 * time.Minute},
		"its own goes before":                            {given: []func(*Snapshot){since(30 * time.Minute), retains(hour, time.Minute)}, requeue: 30 * time.Minute},
		"its own alone":                                  {given: []func(*Snapshot){since(time.Hour), retains(hour, 0)}, why: "Discarded"},
		"0 is at once":                                   {given: []func(*Snapshot){since(0), retains(new(int32(0)), 0)}, why: "Discarded"},
		"replayed":                                       {given: []func(*Snapshot){replayed(v1alpha1.ReplayCreated, 2*time.Hour), retains(hour, 0)}, why: "Replayed"},
		"replayed, from the last one": {given: []func(*Snapshot){replayed(v1alpha1.ReplayCreated, 2*time.Hour), replayed(v1alpha1.ReplayCreated, time.Minute), retains(hour, 0)},
			requeue: 59 * time.Minute},
		"whose last replay was refused: it waits for somebody": {given: []func(*Snapshot){
			replayed(v1alpha1.ReplayCreated, 3*time.Hour), replayed(v1alpha1.ReplayRefused, 2*time.Hour), retains(hour, 0)}},
		"replayed, then discarded": {given: []func(*Snapshot){replayed(v1alpha1.ReplayCreated, 3*time.Hour), since(time.Minute), retains(hour, 0)}, requeue: 59 * time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := given(test.given...)
			s.Live = false
			p := Decide(s)
			if p.Delete || p.NeedsLive != (test.why != "") || p.Requeue != test.requeue {
				t.Fatalf("from a cache: %+v", p)
			}
			s.Live = true
			p = Decide(s)
			if p.Delete != (test.why != "") || p.Requeue != test.requeue {
				t.Fatalf("%+v", p)
			}
			s.DeadLetter.Generation++ // somebody changes something: that is acknowledged first, and then it goes
			if p := Decide(s); p.Delete || p.Status == nil || (p.Requeue > 0) != (test.why != "" || test.requeue > 0) {
				t.Errorf("after a change: %+v", p)
			}
			if p.Delete && (len(p.Counts) != 1 || p.Counts[0].Label != test.why || p.Counts[0].Counter != CountExpired || len(p.Events) != 1) {
				t.Errorf("it goes in silence: %+v", p)
			}
		})
	}
}

// TestAnOpenRequestKeepsADeadLetterWhoseRetentionIsOver: it is answered first.
func TestAnOpenRequestKeepsADeadLetterWhoseRetentionIsOver(t *testing.T) {
	s := given(replayed(v1alpha1.ReplayCreated, time.Hour), retains(new(int32(60)), 0), asks(9))
	if p := Decide(s); p.Delete || p.Create == nil {
		t.Errorf("%+v", p)
	}
}
