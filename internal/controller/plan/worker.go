package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// progressPause is the shortest time between two status writes for progress alone. Writes that are made anyway carry it too.
const progressPause = 10 * time.Second

// workerWord is what the worker says of its failure. It is empty for any other end.
type workerWord struct {
	class      v1alpha1.FailureClass
	retryAfter *int32
}

// saidBy reads a verified submission: package fencing has bounded it.
func saidBy(sub *fencing.Submission) (s workerWord) {
	s.retryAfter = sub.RetryAfterSeconds
	switch {
	case sub.Retryable == nil:
	case *sub.Retryable:
		s.class = v1alpha1.FailureTransient
	default:
		s.class = v1alpha1.FailurePermanent
	}
	return s
}

// isPermanent reports whether the worker's word ends the task: it called its failure permanent, and no rule, which is asked first,
// said otherwise.
func isPermanent(entry *v1alpha1.AttemptRecord) bool {
	return entry.Action == "" && entry.Outcome == v1alpha1.AttemptFailed && entry.FailureClass == v1alpha1.FailurePermanent
}

// pauseAfter is the pause that follows the n-th end: before an attempt what the worker of the last one asked for, else the back-off's.
func (s *Snapshot) pauseAfter(status *v1alpha1.LeasedTaskStatus, n int32) time.Duration {
	if asked, ok := askedPause(status); ok {
		return asked
	}
	return Backoff(&s.Task.Spec.Retry.Backoff, n, s.Jitter)
}

// askedPause is the pause before the next attempt that the worker of the last one asked for; false: it asked for none, or a probe
// comes first.
func askedPause(status *v1alpha1.LeasedTaskStatus) (time.Duration, bool) {
	last := lastAttemptOf(status.History)
	if isInDoubt(status) || last.RetryAfterSeconds == nil {
		return 0, false
	}
	return time.Duration(*last.RetryAfterSeconds) * time.Second, true
}

// longestPause is the most that pauseAfter can have come to.
func (s *Snapshot) longestPause() time.Duration {
	if asked, ok := askedPause(&s.Task.Status); ok {
		return asked
	}
	return s.Task.Spec.Retry.Backoff.Max()
}

// resultRefOf is what takeResult put on record.
func resultRefOf(status *v1alpha1.LeasedTaskStatus) *fencing.ResultRef {
	ref := &status.ResultRef
	if ref.SizeBytes == nil {
		return nil
	}
	return &fencing.ResultRef{URI: ref.URI, Digest: ref.Digest, SizeBytes: *ref.SizeBytes}
}

// takeResult puts the result on record, or where it is.
func takeResult(status *v1alpha1.LeasedTaskStatus, result *string, ref *fencing.ResultRef) {
	status.Result = result
	if ref != nil {
		status.ResultRef = v1alpha1.ResultRef{URI: ref.URI, Digest: ref.Digest, SizeBytes: &ref.SizeBytes}
	}
}

// carriedCheckpoint is what the next attempt finds: what the last one left on the Lease, or on record, if somebody took the Lease.
func (s *Snapshot) carriedCheckpoint() string {
	if s.hasRecordedLease() {
		return s.Term.Checkpoint
	}
	return s.Task.Status.Checkpoint
}

// recordNotes puts on record how far the worker has come and what it leaves for the next attempt, as its Lease has it.
func (s *Snapshot) recordNotes(status *v1alpha1.LeasedTaskStatus) {
	if !s.isRecorded() || s.Term.Claim == nil {
		return
	}
	status.Checkpoint = s.Term.Checkpoint
	if s.hasNewProgress(status) {
		p := s.Term.Progress
		status.Progress = v1alpha1.Progress{Current: &p.Current, Total: p.Total, Message: p.Message, RecordTime: new(metav1.NewTime(s.Now.Truncate(time.Second)))}
	}
}

func (s *Snapshot) hasNewProgress(status *v1alpha1.LeasedTaskStatus) bool {
	is, stands := s.Term.Progress, &status.Progress
	return is != nil && (stands.Current == nil || *stands.Current != is.Current || stands.Total != is.Total || stands.Message != is.Message)
}

// untilProgress is how long new progress of a held term has to wait before it is worth a write of its own; false: there is none.
func (s *Snapshot) untilProgress() (time.Duration, bool) {
	status := &s.Task.Status
	if !s.isRecorded() || !s.hasNewProgress(status) {
		return 0, false
	}
	if status.Progress.RecordTime == nil {
		return 0, true
	}
	left := progressPause - s.Now.Sub(status.Progress.RecordTime.Time)
	if left > progressPause { // then a clock was set back
		left = 0
	}
	return max(left, 0), true
}
