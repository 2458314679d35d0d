package replay

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/kstatus"
)

// TestKstatusReadsADeadLetterAsItStands: at rest it is Current, so that a tool that applies none waits for none; a refused
// replay is a failure that somebody must look at.
func TestKstatusReadsADeadLetterAsItStands(t *testing.T) {
	created := Answer{Name: "order-r1", UID: "task-9"}
	tests := map[string]struct {
		given []func(*Snapshot)
		after func(*v1alpha1.DeadLetter)
		want  status.Status
	}{
		"at rest":                {want: status.CurrentStatus},
		"replayed":               {given: []func(*Snapshot){asks(1), says(created)}, want: status.CurrentStatus},
		"pending":                {given: []func(*Snapshot){asks(1), says(Answer{Refusal: "timeout"})}, want: status.InProgressStatus},
		"refused":                {given: []func(*Snapshot){asks(1), says(Answer{Refusal: "exceeded quota", IsFinal: true})}, want: status.FailedStatus},
		"replayed, then refused": {given: []func(*Snapshot){answered(1, v1alpha1.ReplayCreated), asks(2), says(Answer{Refusal: "no", IsFinal: true})}, want: status.FailedStatus},
		"asked, and not seen":    {after: func(d *v1alpha1.DeadLetter) { d.Generation++ }, want: status.InProgressStatus},
		"being deleted":          {after: func(d *v1alpha1.DeadLetter) { d.DeletionTimestamp = new(metav1.NewTime(now)) }, want: status.TerminatingStatus},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := given(test.given...)
			p := Decide(s)
			dead := s.DeadLetter.DeepCopy()
			dead.Status = *p.Status
			if test.after != nil {
				test.after(dead)
			}
			result := kstatus.Of(t, "DeadLetter", dead)
			if result.Status != test.want {
				t.Errorf("kstatus says %s, want %s: %s", result.Status, test.want, result.Message)
			}
		})
	}
}
