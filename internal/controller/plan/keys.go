package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
)

// Key is one of the task's keys, and its Lease as it was seen.
type Key struct {
	Kind  key.Kind
	Value string
	// Lock is what the Lease says; nil: there is none.
	Lock *key.Lock
	// IsEnding: who has the key by what the Lease says is finished or gone, so that the key will be free. Looked up for a live decision
	// on whether to reject the task only.
	IsEnding bool
}

// KeysOf are the keys that other tasks may have too, in the order in which they are taken: the same for all tasks, so that no two
// wait for each other.
func KeysOf(task *v1alpha1.LeasedTask) (keys []Key) {
	if value := task.Spec.SharedIdempotencyKey(); value != "" {
		keys = append(keys, Key{Kind: key.Idempotency, Value: value})
	}
	if value := task.Spec.ConcurrencyKey; value != "" {
		keys = append(keys, Key{Kind: key.Concurrency, Value: value})
	}
	return keys
}

// IsReadyForKeys reports whether the task would take its keys now, if they were free.
func IsReadyForKeys(task *v1alpha1.LeasedTask, now time.Time) bool {
	spec := &task.Spec
	return task.Status.Phase == v1alpha1.PhaseAvailable && task.DeletionTimestamp == nil && !spec.IsSuspended() && !spec.IsCancelled() &&
		(spec.StartAfter == nil || !now.Before(spec.StartAfter.Time))
}

// PayloadHash is what tells two payloads apart: a hash of the payload's exact bytes, and of the reference to one if the task has
// that instead. What a reference points to is not in it: it may change, and the task would be another one.
func PayloadHash(spec *v1alpha1.LeasedTaskSpec) string {
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("a spec that was decoded from JSON cannot fail to encode: %v", err)) // programming error
	}
	return hashOfPayload(raw)
}

func hashOfPayload(spec []byte) string {
	input := struct {
		Payload     string          `json:"payload"`
		PayloadFrom json.RawMessage `json:"payloadFrom,omitempty"`
	}{}
	if err := json.Unmarshal(spec, &input); err != nil {
		panic(fmt.Sprintf("a spec that was just encoded cannot fail to decode: %v", err)) // programming error
	}
	sum := sha256.New()
	sum.Write(input.PayloadFrom) // in the order of the fields of its type
	sum.Write([]byte{0})         // which is not in JSON
	sum.Write([]byte(input.Payload))
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// claimantOf is a task as its keys' Leases name it, but for its payload. What has begun is not rejected: that its key was lost is
// somebody else's doing.
func claimantOf(task *v1alpha1.LeasedTask) *key.Claimant {
	spec := &task.Spec
	c := &key.Claimant{
		UID:            string(task.UID),
		Name:           task.Name,
		Created:        task.CreationTimestamp.Time,
		Replays:        spec.ReplayOf.DeadLetterName,
		Duration:       spec.LeaseDuration(),
		BlocksWhenDead: spec.OnDeadLetter == v1alpha1.DeadLetterBlockKey,
		Policy:         key.PolicyQueue,
	}
	switch {
	case spec.KeyPolicy == v1alpha1.KeyPolicyReplace:
		c.Policy = key.PolicyReplace
	case spec.KeyPolicy == v1alpha1.KeyPolicyReject && task.Status.Attempt == 0:
		c.Policy = key.PolicyReject
	}
	return c
}

// MayBeRejected reports whether the task is rejected, and does not wait, if the key is not free.
func MayBeRejected(task *v1alpha1.LeasedTask, k *Key) bool {
	return k.Lock != nil && key.Judge(k.Lock, claimantOf(task), time.Time{}) == key.Rejected // a concurrency key knows no time
}

// IsSuperseded reports whether a newer task is to have the key of the Lease in the task's place.
func IsSuperseded(task *v1alpha1.LeasedTask, lock *key.Lock) bool {
	return lock.Supersedes(claimantOf(task))
}

// claimant is the task as its keys' Leases name it. A cache holds no payload.
func (s *Snapshot) claimant() *key.Claimant {
	c, spec := claimantOf(s.Task), &s.Task.Spec
	if s.Live && s.idempotencyKey() != nil {
		c.Hash = PayloadHash(spec)
	}
	return c
}

// nextKey is the first key that the task does not have yet, and what stands in the way; nil: it has them all. One that it took for a
// payload that was changed since, as may be until the first grant, is taken again: by what stands there others are told that they
// are in conflict.
func (s *Snapshot) nextKey() (*Key, key.Verdict) {
	me := s.claimant()
	for i := range s.Keys {
		k := &s.Keys[i]
		verdict := key.Judge(k.Lock, me, s.Now)
		switch {
		case verdict == key.Rejected && k.IsEnding:
			return k, key.Busy
		case verdict != key.Mine:
			return k, verdict
		case k.Kind == key.Idempotency && me.Hash != "" && k.Lock.Hash != "" && k.Lock.Hash != me.Hash:
			return k, key.Free
		case k.Lock.Duration < me.Duration: // the lease was made longer since, and may be until the first grant: a holder that is gone is waited for
			return k, key.Free
		}
	}
	return nil, key.Mine
}

// answer is the Lease of the task's idempotency key as it is to stand before the given status says Completed; nil: there is
// nothing to record, or no more, or another task has the key: somebody deleted its Lease while this one ran. A task that
// has succeeded is Completed all the same.
func (s *Snapshot) answer(status *v1alpha1.LeasedTaskStatus) *key.Lock {
	k := s.idempotencyKey()
	if k == nil {
		return nil
	}
	me := s.claimant()
	switch key.Judge(k.Lock, me, s.Now) {
	case key.Finished, key.Conflict, key.Busy, key.Blocked:
		return nil
	case key.Mine, key.Free, key.Expired, key.Inherited:
	case key.Replaceable, key.Superseded, key.Rejected: // of concurrency keys alone
	}
	return key.Record(k.Lock, k.Value, me, &key.Answer{
		Task: me.Name, TaskUID: me.UID, Hash: me.Hash, Result: status.Result, ResultRef: resultRefOf(status),
		Time: *status.CompletionTime, RetentionSeconds: s.Task.Spec.IdempotencyRetention(),
	})
}

// isAnswered reports whether the task's own success is on the Lease of its key already.
func (s *Snapshot) isAnswered() bool { return s.idempotencyKey() == nil || s.ownAnswer() != nil }

// ownAnswer is the task's own success, as it is on the Lease of its key; nil: it is not.
func (s *Snapshot) ownAnswer() *key.Answer {
	if k := s.idempotencyKey(); k != nil && k.Lock != nil && k.Lock.Answer != nil && k.Lock.Answer.TaskUID == string(s.Task.UID) {
		return k.Lock.Answer
	}
	return nil
}

func (s *Snapshot) idempotencyKey() *Key {
	for i := range s.Keys {
		if s.Keys[i].Kind == key.Idempotency {
			return &s.Keys[i]
		}
	}
	return nil
}
