package api

import (
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// TestWhatAWorkerSaysReachesItsStatusAndItsSuccessor: with the rights that a worker's Pod has, against the shipped policy and CRD.
func TestWhatAWorkerSaysReachesItsStatusAndItsSuccessor(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("says")
	s.untilGranted(task, 1)
	a, worker := s.agentOf(task), s.speakerOf(s.untilPod(task))
	patch := func(raw []byte) error {
		return worker.Patch(t.Context(), a.lease(), client.RawPatch(types.JSONPatchType, raw))
	}
	s.ok(s.Poll(t.Context(), patience, func() error { // the RoleBinding is young
		return patch(fencing.ClaimPatch(task.Status.Holder.PodName, a.claim, time.Now()))
	}))
	largest := strings.Repeat("c", fencing.MaxCheckpointBytes)
	says := func(note fencing.Note) error {
		return patch(note.RenewPatch(task.Status.Holder.PodName, a.claim, time.Now()))
	}
	s.ok(says(fencing.Note{Progress: new(`{"current":0,"total":9,"message":"half"}`), Checkpoint: &largest}))
	if err := says(fencing.Note{Checkpoint: new(largest + "c")}); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("a checkpoint beyond the limit: %v", err)
	}
	s.until(task, "shown with its progress", func(task *v1alpha1.LeasedTask) bool {
		p := task.Status.Progress
		return p.Current != nil && *p.Current == 0 && p.Total == 9 && p.Message == "half" && p.RecordTime != nil
	})
	sub, err := fencing.Submission{Token: fencing.Token(task.Status.FencingToken), Outcome: fencing.Failed, Reason: "Quota", RetryAfterSeconds: new(int32(0))}.Encode()
	s.ok(err)
	s.ok(patch(fencing.Note{Checkpoint: new("row 41")}.SubmitPatch(task.Status.Holder.PodName, a.claim, sub)))

	s.untilGranted(task, 2)
	s.must(task.Status.Checkpoint == "row 41" && task.Status.Progress == v1alpha1.Progress{}, "status %+v", task.Status)
	next := s.agentOf(task)
	lease := &coordinationv1.Lease{}
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(next.lease()), lease))
	_, hasProgress := lease.Annotations[fencing.ProgressAnnotation]
	s.must(lease.Annotations[fencing.CheckpointAnnotation] == "row 41" && !hasProgress, "annotations %v", lease.Annotations)
	s.ok(next.claimTerm())
	s.ok(next.submit(fencing.Submission{Outcome: fencing.Failed, Reason: "BadInput", Retryable: new(false)}))
	s.until(task, "dead-lettered", in(v1alpha1.PhaseDeadLettered, 2))
	last := task.Status.History[1]
	s.must(last.Reason == "BadInput" && last.FailureClass == v1alpha1.FailurePermanent, "history %+v", last)
	dead := &v1alpha1.DeadLetter{}
	s.ok(admin.Get(t.Context(), types.NamespacedName{Namespace: s.namespace, Name: task.Status.DeadLetterName}, dead))
	s.must(dead.Spec.Reason == v1alpha1.ReasonNotRetryable, "dead letter %+v", dead.Spec)
}

func TestAReferenceIsTheResultAndStays(t *testing.T) {
	s := sideBySide(t, nil)
	task, a := s.claimed("refers")
	digest := "sha256:" + strings.Repeat("0123456789abcdef", 4)
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, ResultRef: &fencing.ResultRef{URI: "s3://bucket/key", Digest: digest}}))
	s.until(task, "completed", in(v1alpha1.PhaseCompleted, 1))
	ref := task.Status.ResultRef
	s.must(ref.URI == "s3://bucket/key" && ref.Digest == digest && *ref.SizeBytes == 0 && task.Status.Result == nil, "status %+v", task.Status)
	for _, change := range []string{`{"status":{"resultRef":{"uri":"s3://bucket/other"}}}`, `{"status":{"resultRef":null}}`, `{"status":{"result":"r"}}`} {
		err := admin.Status().Patch(t.Context(), task.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(change)))
		s.must(apierrors.IsInvalid(err) || apierrors.IsForbidden(err), "%s: %v", change, err)
	}
}
