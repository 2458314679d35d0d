package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/queue"
)

func TestWhatATaskQueuesStatusSays(t *testing.T) {
	tests := map[string]struct {
		paused  v1alpha1.PauseMode
		running int
		breaker *queue.BreakerRecord
		want    string // True conditions with their reasons, and the reason of Ready
		events  string
	}{
		"it serves":                {running: 3, want: "Ready=True/Serving"},
		"it is on hold":            {paused: v1alpha1.PauseHold, running: 3, want: "Ready=True/HeldBack Paused/HeldBack", events: "HeldBack"},
		"it is being drained":      {paused: v1alpha1.PauseDrain, running: 3, want: "Ready=False/Draining Reconciling/Draining Paused/Draining", events: "Draining"},
		"it is drained":            {paused: v1alpha1.PauseDrain, want: "Ready=True/Drained Paused/Drained", events: "Drained"},
		"No is no pause":           {paused: v1alpha1.PauseNo, running: 1, want: "Ready=True/Serving"},
		"its breaker is closed":    {breaker: &queue.BreakerRecord{State: queue.Closed}, want: "Ready=True/Serving"},
		"its breaker is open":      {breaker: &queue.BreakerRecord{State: queue.Open, Cause: queue.CauseSameFailures, Fingerprint: "abc"}, want: "Ready=False/BreakerOpen BreakerOpen/SameFailures", events: "BreakerSameFailures!"},
		"its breaker is half-open": {breaker: &queue.BreakerRecord{State: queue.HalfOpen, Cause: queue.CauseProbeFailed}, want: "Ready=False/BreakerOpen BreakerOpen/HalfOpen", events: "BreakerHalfOpen!"},
		"both": {paused: v1alpha1.PauseHold, breaker: &queue.BreakerRecord{State: queue.Open, Cause: queue.CauseOverride},
			want: "Ready=False/HeldBack Paused/HeldBack BreakerOpen/Override", events: "HeldBack, BreakerOverride!"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tq := &v1alpha1.TaskQueue{Spec: v1alpha1.TaskQueueSpec{Paused: test.paused}}
			tq.Generation = 7
			is := &QueueState{Breaker: test.breaker, Counts: queue.Counts{Pending: 5, Running: test.running, Oldest: now.Add(-time.Minute),
				Tenants: []queue.TenantCount{{Name: "a", Pending: 5, Running: test.running}}}}
			p := DecideQueue(tq, is, now)
			if got := briefQueue(p.Status); got != test.want {
				t.Errorf("it says %q, want %q", got, test.want)
			}
			if got := briefEvents(p.Events); got != test.events {
				t.Errorf("events %q, want %q", got, test.events)
			}
			if *p.Status.Pending != 5 || *p.Status.ObservedGeneration != 7 || !p.Status.OldestPendingTime.Time.Equal(now.Add(-time.Minute)) || p.Status.Tenants[0].Name != "a" {
				t.Errorf("status %+v", p.Status)
			}
			if test.breaker != nil {
				if diff := cmp.Diff(*test.breaker, BreakerRecord(&p.Status.Breaker)); diff != "" {
					t.Errorf("another operator would go on from (-want +got):\n%s", diff)
				}
			}
			before := tq.DeepCopy()
			tq.Status = *p.Status
			if again := DecideQueue(tq, is, now.Add(time.Hour)); again.Status != nil || len(again.Events) > 0 {
				t.Errorf("it is written again: %s", cmp.Diff(tq.Status, again.Status))
			}
			// And back again.
			before.Status = *p.Status
			before.Spec.Paused = ""
			back := DecideQueue(before, &QueueState{Counts: queue.Counts{Running: 1}}, now)
			if got := briefQueue(back.Status); got != "Ready=True/Serving" {
				t.Errorf("back again: %q", got)
			}
		})
	}
}

func briefQueue(status *v1alpha1.TaskQueueStatus) string {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	said := []string{fmt.Sprintf("Ready=%s/%s", ready.Status, ready.Reason)}
	for _, kind := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionPaused, v1alpha1.ConditionBreakerOpen} {
		if meta.IsStatusConditionTrue(status.Conditions, kind) {
			said = append(said, kind+"/"+meta.FindStatusCondition(status.Conditions, kind).Reason)
		}
	}
	return strings.Join(said, " ")
}

func briefEvents(events []Event) string {
	var said []string
	for _, e := range events {
		if e.Warning {
			e.Reason += "!"
		}
		said = append(said, e.Reason)
	}
	return strings.Join(said, ", ")
}

// TestWhatABreakerIsTold: each attempt that has ended, once, as far as it says something.
func TestWhatABreakerIsTold(t *testing.T) {
	dispatched := now.Add(-time.Minute)
	tests := map[string]struct {
		given []func(*Snapshot)
		want  *queue.Result // but for the fingerprint
	}{
		"succeeded":               {[]func(*Snapshot){onRecord, queued, submits(fencing.Succeeded)}, &queue.Result{Outcome: queue.Succeeded, Started: dispatched}},
		"failed":                  {[]func(*Snapshot){onRecord, queued, submits(fencing.Failed)}, &queue.Result{Outcome: queue.Failed, Started: dispatched}},
		"disrupted":               {[]func(*Snapshot){onRecord, queued, podDeleted, submits(fencing.Interrupted)}, &queue.Result{Outcome: queue.Neither, Started: dispatched}},
		"expired":                 {[]func(*Snapshot){onRecord, podRuns, queued, since(time.Minute)}, &queue.Result{Outcome: queue.Failed, Started: dispatched}},
		"its Lease was lost":      {[]func(*Snapshot){onRecord, queued, leaseGone}, &queue.Result{Outcome: queue.Neither, Started: now.Add(-20 * time.Second)}},
		"a probe without answer":  {[]func(*Snapshot){probingOnRecord, noPod, queued, submits(fencing.Failed, probes)}, &queue.Result{Outcome: queue.Neither, Started: dispatched}},
		"nothing has ended":       {[]func(*Snapshot){claimed, podRuns, queued}, nil},
		"of no queue":             {[]func(*Snapshot){onRecord, submits(fencing.Failed)}, nil},
		"it was told so before":   {[]func(*Snapshot){expiredOnce, noPod, queued, since(time.Minute)}, nil},
		"another had its success": {[]func(*Snapshot){available, queued, keyed, live, attachable}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := given(test.given...)
			p := Decide(s)
			if p.Status == nil {
				t.Fatalf("rule %s writes nothing", p.Rule)
			}
			got := p.Result
			if got != nil {
				if (got.Fingerprint != "") != (got.Outcome == queue.Failed) || got.ID != "uid-1" {
					t.Errorf("result %+v", got)
				}
				got.Fingerprint, got.ID = "", ""
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("rule %s (-want +got):\n%s", p.Rule, diff)
			}
		})
	}
}
