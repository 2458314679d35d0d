package api

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// TestAnAgentReadsItsStopAndCannotTouchIt: with the rights that a worker's Pod has, it comes with the answer to a renewal.
func TestAnAgentReadsItsStopAndCannotTouchIt(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("told")
	s.until(task, "granted", in(v1alpha1.PhaseClaimed, 1))
	a, worker := s.agentOf(task), s.speakerOf(s.untilPod(task))
	patch := func(raw string) (string, error) {
		lease := a.lease()
		err := worker.Patch(t.Context(), lease, client.RawPatch(types.JSONPatchType, []byte(raw)))
		return lease.Annotations[fencing.StopAnnotation], err
	}
	s.ok(s.Poll(t.Context(), patience, func() error { // the RoleBinding is young
		_, err := patch(string(fencing.ClaimPatch(task.Status.Holder.PodName, a.claim, task.CreationTimestamp.Time)))
		return err
	}))
	const path = `"path":"/metadata/annotations/leasehold.io~1stop"`
	forged := `[{"op":"add",` + path + `,"value":"{\"reason\":\"Cancelled\"}"}]`
	if _, err := patch(forged); !apierrors.IsForbidden(err) {
		t.Errorf("an agent may tell itself to stop: %v", err)
	}
	s.ok(s.edit(task, suspended(true)))
	a.untilTold(fencing.ReasonSuspended)
	for what, raw := range map[string]string{
		"replace": forged,
		"empty":   `[{"op":"add",` + path + `,"value":""}]`,
		"remove":  `[{"op":"remove",` + path + `}]`,
	} {
		if _, err := patch(raw); !apierrors.IsForbidden(err) {
			t.Errorf("an agent may %s its stop: %v", what, err)
		}
	}
	renewed, err := patch(string(fencing.RenewPatch(task.Status.Holder.PodName, a.claim, task.CreationTimestamp.Add(1))))
	if err != nil || fencing.ParseStop(renewed).Reason != fencing.ReasonSuspended {
		t.Errorf("a renewal is answered with %q: %v", renewed, err)
	}
	sub, err := fencing.Submission{Token: fencing.Token(task.Status.FencingToken), Outcome: fencing.Cancelled, Reason: fencing.ReasonSuspended}.Encode()
	s.ok(err)
	_, err = patch(string(fencing.SubmitPatch(task.Status.Holder.PodName, a.claim, sub)))
	s.ok(err)
	s.until(task, "suspended", waitsFor(v1alpha1.WaitingSuspended, ""))
}
