// Package mailbox translates between coordination/v1 Lease objects and the terms of package fencing. It stands apart so
// that the agent, which reads no Lease, stays small.
package mailbox

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

// TaskLabel marks a Lease as a term Lease; its value is the UID of the task. The admission policies read it.
const TaskLabel = "leasehold.io/task"

// TaskNameAnnotation names the task for people. It is always there, so that a JSON patch finds the annotations' map.
const TaskNameAnnotation = "leasehold.io/task-name"

// Name is the name of a task's term Lease: lh- and 16 hex digits of a hash of the task's UID.
func Name(taskUID string) string {
	sum := sha256.Sum256([]byte(taskUID))
	return "lh-" + hex.EncodeToString(sum[:8])
}

// Read translates a Lease into a term.
func Read(lease *coordinationv1.Lease) *fencing.Term {
	term := &fencing.Term{
		Namespace:       lease.Namespace,
		Name:            lease.Name,
		UID:             string(lease.UID),
		ResourceVersion: lease.ResourceVersion,
		Task:            lease.Labels[TaskLabel],
		Holder:          deref(lease.Spec.HolderIdentity),
		Duration:        time.Duration(deref(lease.Spec.LeaseDurationSeconds)) * time.Second,
		Attempt:         deref(lease.Spec.LeaseTransitions),
		GrantTime:       deref(lease.Spec.AcquireTime).Time,
		RenewTime:       deref(lease.Spec.RenewTime).Time,
	}
	if raw, ok := lease.Annotations[fencing.ClaimAnnotation]; ok && raw != "" {
		claim := fencing.ParseClaim(raw)
		term.Claim = &claim
	}
	if raw, ok := lease.Annotations[fencing.SubmissionAnnotation]; ok && raw != "" {
		submission := fencing.ParseSubmission(raw)
		term.Submission = &submission
	}
	if raw, ok := lease.Annotations[fencing.StopAnnotation]; ok && raw != "" {
		stop := fencing.ParseStop(raw)
		term.Stop = &stop
	}
	term.Ended = lease.Annotations[fencing.EndedAnnotation]
	term.Progress = fencing.ParseProgress(lease.Annotations[fencing.ProgressAnnotation])
	term.Checkpoint = fencing.ParseCheckpoint(lease.Annotations[fencing.CheckpointAnnotation])
	return term
}

// Grant is a new term, as the planner decided it.
type Grant struct {
	Holder   string
	Attempt  int32
	Duration time.Duration
	Time     time.Time
	// Over is the resourceVersion of the Lease whose term has ended; empty: there is no Lease yet.
	Over string
	// Checkpoint is what the attempt before left for this one; empty: nothing.
	Checkpoint string
}

// Lease renders a grant as the Lease object to create, or to update where Over names its resourceVersion. Claim, submission,
// stop and progress of the last term are absent, which clears them. owner must be the task, with its UID.
func (g Grant) Lease(namespace, taskName string, owner metav1.OwnerReference) *coordinationv1.Lease {
	uid := string(owner.UID)
	annotations := map[string]string{TaskNameAnnotation: taskName}
	if g.Checkpoint != "" {
		annotations[fencing.CheckpointAnnotation] = g.Checkpoint
	}
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       namespace,
			Name:            Name(uid),
			ResourceVersion: g.Over,
			Labels:          map[string]string{TaskLabel: uid},
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{owner},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       new(g.Holder),
			LeaseDurationSeconds: new(int32(g.Duration / time.Second)),
			AcquireTime:          new(metav1.NewMicroTime(g.Time)),
			LeaseTransitions:     new(g.Attempt),
		},
	}
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
