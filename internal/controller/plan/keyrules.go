package plan

import (
	"cmp"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
)

// keyPatience is when a task that waits for a key looks again, should nobody wake it: whoever frees a key wakes those that have
// waited longest, and not all.
const keyPatience = 2 * time.Minute

// keyConflict gives a task up whose key stands for other work. What the dead letter says is on record first, as always; no
// attempt was made, and no budget is charged.
func keyConflict(s *Snapshot) (Plan, bool) {
	k, verdict := s.nextKey()
	if verdict != key.Conflict {
		return Plan{}, false
	}
	other, uid := k.Lock.HolderName, k.Lock.HolderUID
	did := "has the same idempotency key and is under way"
	if a := k.Lock.Answer; a != nil {
		other, uid, did = a.Task, a.TaskUID, "has completed with the same idempotency key"
	}
	status := s.status()
	s.enter(status, v1alpha1.AttemptFailed, ReasonIdempotencyConflict,
		fmt.Sprintf("LeasedTask %s has another payload than LeasedTask %s, which %s; UID %s", s.Task.Name, other, did, uid))
	status.DeadLetterName = deadLetterName(s.Task)
	return s.write(status, deadLetterPending("it will be written next")), true
}

// attach completes a task whose work was done by another one.
func attach(s *Snapshot) (Plan, bool) {
	k, verdict := s.nextKey()
	if verdict != key.Finished {
		return Plan{}, false
	}
	a := k.Lock.Answer
	status := s.status()
	s.enter(status, v1alpha1.AttemptSucceeded, ReasonAttached,
		fmt.Sprintf("LeasedTask %s has completed with the same idempotency key and payload, at %s; its result is this task's, which did not run; UID %s",
			a.Task, a.Time.UTC().Format(time.RFC3339), a.TaskUID))
	takeResult(status, a.Result, a.ResultRef)
	return s.finish(status, v1alpha1.PhaseCompleted), true
}

// countAnswer completes a task whose success is on its key, while its term's Lease, which bore the submission, is gone: what was
// verified there counts, whatever would follow a lost attempt.
func (s *Snapshot) countAnswer(a *key.Answer) Plan {
	status, reason := s.status(), fencing.ReasonCompleted
	if status.Holder.ProbeFor > 0 {
		reason = ReasonEffectFound
	}
	s.record(status, end{outcome: v1alpha1.AttemptSucceeded, reason: reason, evidence: v1alpha1.EvidenceKey,
		message: "its success was on its key before its term's Lease was lost"})
	takeResult(status, a.Result, a.ResultRef)
	p := s.finish(status, v1alpha1.PhaseCompleted)
	last := lastOf(status.History)
	p.Counts = append([]Count{endCount(&last)}, p.Counts...)
	return p
}

// awaitKey waits for a key that another task, or a dead letter, has. With an idempotency key, the payload has to be compared with its
// holder's, or with what the task took the key for, which a cache does not hold.
func awaitKey(s *Snapshot) (Plan, bool) {
	k, verdict := s.nextKey()
	w := waiting{}
	switch verdict {
	case key.Busy:
		w = waiting{v1alpha1.WaitingKeyBusy, k.occupied()}
		if l := k.Lock; l.Newest != nil && l.Newest.UID == string(s.Task.UID) {
			w.message += "; this task is to have it next"
		}
	case key.Blocked:
		w = waiting{v1alpha1.WaitingKeyBlocked, k.occupied() + ": replay it with success, discard it, or delete it"}
	case key.Free, key.Expired, key.Inherited, key.Mine, key.Finished, key.Conflict, key.Replaceable, key.Superseded, key.Rejected:
		return Plan{}, false
	}
	p := s.write(s.status(), w)
	p.MustLook = k.Kind == key.Idempotency && verdict == key.Busy || k.Kind == key.Concurrency && s.idempotencyKey() != nil && s.isSpecNew()
	p.Requeue = keyPatience
	if k.IsEnding {
		p.Requeue = endingPatience
	}
	return p, true
}

// isSpecNew reports whether the spec was changed since the status was written.
func (s *Snapshot) isSpecNew() bool {
	seen := s.Task.Status.ObservedGeneration
	return seen == nil || *seen != s.Task.Generation
}

// takeKey takes what is free. The answer to the write goes into the snapshot, and the rules decide again: there may be another
// key.
func takeKey(s *Snapshot) (Plan, bool) {
	k, verdict := s.nextKey()
	switch {
	case !verdict.IsTakable(), s.isQueueMissing(): // who cannot start keeps nobody else from it
		return Plan{}, false
	case s.KeyRefusal != "":
		return s.awaitKeyLease(), true
	}
	return Plan{TakeKey: key.Take(k.Lock, k.Kind, k.Value, s.claimant(), s.Now)}, true
}

// awaitKeyLease keeps the task as it is while the API server does not take the Lease of its key.
func (s *Snapshot) awaitKeyLease() Plan {
	p := s.write(s.status(), waiting{v1alpha1.WaitingKeyRefused, s.KeyRefusal})
	p.Requeue = RefusedRetry
	return p
}

// String names the key for people.
func (k *Key) String() string {
	field := "idempotencyKey"
	if k.Kind == key.Concurrency {
		field = "concurrencyKey"
	}
	return fmt.Sprintf("%s %q", field, k.Value)
}

// enter adds an entry to the history for an end without an attempt. It has the number that the attempt would have had.
func (s *Snapshot) enter(status *v1alpha1.LeasedTaskStatus, outcome v1alpha1.AttemptOutcome, reason, message string) {
	status.History = append(status.History, v1alpha1.AttemptRecord{
		Attempt:  status.Attempt + 1,
		EndTime:  new(metav1.NewTime(s.Now)),
		Outcome:  outcome,
		Reason:   reason,
		Message:  fencing.Truncate(message, maxMessage),
		Evidence: v1alpha1.EvidenceKey,
	})
	status.History = trimmed(status.History, status.Uncertain.Attempt)
}

// endedByKey is the reason of a history's last entry, if it is one that no attempt made; empty: an attempt made it.
func endedByKey(status *v1alpha1.LeasedTaskStatus) string {
	last := lastOf(status.History)
	if last.Evidence != v1alpha1.EvidenceKey {
		return ""
	}
	return cmp.Or(last.Reason, ReasonUnspecified)
}
