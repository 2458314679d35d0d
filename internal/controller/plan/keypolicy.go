package plan

import (
	"fmt"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
)

// endingPatience is when a task looks again that is not rejected because the key it wants is about to be free.
const endingPatience = 5 * time.Second

// keyRejected gives a task up that is not to wait for its key. What the dead letter says is on record first, as always; no attempt
// was made, and no budget is charged.
func keyRejected(s *Snapshot) (Plan, bool) {
	k, verdict := s.nextKey()
	if verdict != key.Rejected {
		return Plan{}, false
	}
	status := s.status()
	s.enter(status, v1alpha1.AttemptFailed, ReasonKeyRejected, fmt.Sprintf("keyPolicy is Reject, and %s", k.occupied()))
	status.DeadLetterName = deadLetterName(s.Task)
	return s.write(status, deadLetterPending("it will be written next")), true
}

// superseded ends a task that waits for its key, and is older than another one that replaces it.
func superseded(s *Snapshot) (Plan, bool) {
	k, verdict := s.nextKey()
	if verdict != key.Superseded {
		return Plan{}, false
	}
	return s.yield(s.status(), k), true
}

// replaced ends a task that has its key, and whose process is over, or never was. It is asked when no term is open and the last
// one is released: the task may be suspended, or in back-off.
func replaced(s *Snapshot) (Plan, bool) {
	k := s.lostKey()
	if k == nil {
		return Plan{}, false
	}
	return s.yield(s.status(), k), true
}

// lostKey is the key that the task has, and that a newer task is to have in its place; nil: there is none.
func (s *Snapshot) lostKey() *Key {
	for i := range s.Keys {
		if k := &s.Keys[i]; k.Lock != nil && k.Lock.Holder == string(s.Task.UID) && k.Lock.Supersedes(s.claimant()) {
			return k
		}
	}
	return nil
}

// yield is the end of a superseded task. Why it ended is the last entry of its history, so that its conditions need not look at
// the key again, which others have by then.
func (s *Snapshot) yield(status *v1alpha1.LeasedTaskStatus, k *Key) Plan {
	if !isSuperseded(status) {
		s.enter(status, v1alpha1.AttemptStopped, fencing.ReasonSuperseded, k.lostTo())
	}
	return s.finish(status, v1alpha1.PhaseCancelled)
}

// isSuperseded reports whether the last that happened to the task is that it was superseded. A worker may give any reason; that it
// was stopped is the controller's word.
func isSuperseded(status *v1alpha1.LeasedTaskStatus) bool {
	last := lastOf(status.History)
	return last.Outcome == v1alpha1.AttemptStopped && last.Reason == fencing.ReasonSuperseded
}

// lostTo says who is to have the key.
func (k *Key) lostTo() string {
	return fmt.Sprintf("LeasedTask %s, which is newer, replaces it: both have the %s", k.Lock.Newest.Task, k)
}

// occupied says who has the key.
func (k *Key) occupied() string {
	switch {
	case k.Lock.Holder != "":
		return fmt.Sprintf("LeasedTask %s has the %s", k.Lock.HolderName, k)
	case len(k.Lock.BlockedBy) > 0:
		return fmt.Sprintf("DeadLetter %s blocks the %s", k.Lock.BlockedBy[0], k)
	}
	return fmt.Sprintf("LeasedTask %s is to have the %s next", k.Lock.Newest.Task, k)
}

// askForKey has the key's Lease say that the task replaces whatever is older. The answer to the write goes into the snapshot, and
// the rules decide again: the task waits.
func askForKey(s *Snapshot) (Plan, bool) {
	k, verdict := s.nextKey()
	switch {
	case verdict != key.Replaceable, s.isQueueMissing():
		return Plan{}, false
	case s.KeyRefusal != "":
		return s.awaitKeyLease(), true
	}
	return Plan{TakeKey: key.Ask(k.Lock, s.claimant())}, true
}
