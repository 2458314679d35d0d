package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// TestAMessageIsToldWhereItIsLookedFor, and not by every condition: `kubectl describe` prints them all.
func TestAMessageIsToldWhereItIsLookedFor(t *testing.T) {
	tests := map[string]struct {
		given []func(*Snapshot)
		want  []string // the conditions that have a message of their own or share the task's
	}{
		"waiting": {[]func(*Snapshot){backedOff}, []string{v1alpha1.ConditionWaiting, v1alpha1.ConditionReady, v1alpha1.ConditionReconciling}},
		"running": {[]func(*Snapshot){onRecord, podRuns}, []string{v1alpha1.ConditionLeaseHeld, v1alpha1.ConditionReady, v1alpha1.ConditionReconciling}},
		"given up": {[]func(*Snapshot){backedOff, totals(600), dueIn(-time.Second), namedDead}, []string{
			v1alpha1.ConditionFinished, v1alpha1.ConditionSucceeded, v1alpha1.ConditionReady, v1alpha1.ConditionStalled}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var told []string
			for _, c := range Decide(given(test.given...)).Status.Conditions {
				if c.Message != "" {
					told = append(told, c.Type)
				}
			}
			if diff := cmp.Diff(test.want, told); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
