package key

import (
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

// TaskState is what the keeper has seen of the task that a lock names, by a live read. It is closed.
type TaskState string

const (
	// TaskUnfinished: it is there, and has not reached its final phase.
	TaskUnfinished TaskState = "Unfinished"
	// TaskCompleted: it has succeeded.
	TaskCompleted TaskState = "Completed"
	// TaskEnded: it has reached another final phase.
	TaskEnded TaskState = "Ended"
	// TaskGone: no task of that UID is there.
	TaskGone TaskState = "Gone"
)

// Seen is all that the keeper's decision rests on.
type Seen struct {
	Task TaskState
	// Since is, for a task that is gone, since when its term Lease was seen as it is: with HasTerm unchanged, without it gone; by
	// this process, on its own clock, by live reads.
	HasTerm bool
	Since   time.Time
	// Letters are the dead letters that are there, of those that would block the key (see [Lock.Letters]), in the same order.
	Letters []string
	// Next is what has become of the newest that has asked for the key; empty: none has, or it is the holder.
	Next TaskState
}

// Action is what the keeper does about a lock. It is closed.
type Action string

const (
	// Leave: there is nothing to do, or not yet.
	Leave Action = "Leave"
	// Delete: the key is free.
	Delete Action = "Delete"
	// BlockIt: the dead letters have the key.
	BlockIt Action = "Block"
	// PromiseIt: the newest that has asked for the key is to have it.
	PromiseIt Action = "Promise"
	// EndTerm: the term Lease of a task that is gone is deleted, exactly as it was seen: that is a revoke.
	EndTerm Action = "EndTerm"
)

// Ground is why, for logs and metrics. It is closed.
type Ground string

const (
	// GroundAnswerExpired: the retention of the answer is over.
	GroundAnswerExpired Ground = "AnswerExpired"
	// GroundFinished: the holder has finished.
	GroundFinished Ground = "HolderFinished"
	// GroundHolderGone: the holder was deleted, and nothing of it can run any more.
	GroundHolderGone Ground = "HolderGone"
	// GroundUnblocked: each of the dead letters is gone or discarded.
	GroundUnblocked Ground = "Unblocked"
	// GroundNextGone: the task that was to have the key has finished, or is gone.
	GroundNextGone Ground = "NextGone"
)

// Keeping is a decision of the keeper.
type Keeping struct {
	Action Action
	Ground Ground
	// After is when to look again; 0: when something happens.
	After time.Duration
}

// Keep says what becomes of a lock.
func Keep(l *Lock, s *Seen, now time.Time) Keeping {
	switch {
	case l.Answer != nil:
		if left := l.Answer.Expiry().Sub(now); left > 0 {
			return Keeping{Action: Leave, After: left}
		}
		return Keeping{Action: Delete, Ground: GroundAnswerExpired}
	case l.Holder == "":
		return keepUnheld(l, s)
	}
	switch s.Task {
	case TaskUnfinished:
		return Keeping{Action: Leave}
	case TaskCompleted:
		return free(s, GroundFinished)
	case TaskEnded:
		return release(s, GroundFinished)
	case TaskGone:
	}
	if left := fencing.TimingFor(l.Duration).Duration - now.Sub(s.Since); left > 0 {
		return Keeping{Action: Leave, After: left}
	}
	if s.HasTerm {
		return Keeping{Action: EndTerm, Ground: GroundHolderGone}
	}
	return release(s, GroundHolderGone)
}

func keepUnheld(l *Lock, s *Seen) Keeping {
	isPromised := len(l.BlockedBy) == 0 && l.Newest != nil
	switch {
	case len(s.Letters) > 0, isPromised && s.Next == TaskUnfinished:
		return Keeping{Action: Leave}
	case isPromised:
		return Keeping{Action: Delete, Ground: GroundNextGone}
	}
	return free(s, GroundUnblocked)
}

// release ends the hold of a task that did not succeed.
func release(s *Seen, why Ground) Keeping {
	if len(s.Letters) > 0 {
		return Keeping{Action: BlockIt, Ground: why}
	}
	return free(s, why)
}

// free lets the key go, to the newest that has asked for it, if it still wants it.
func free(s *Seen, why Ground) Keeping {
	if s.Next == TaskUnfinished {
		return Keeping{Action: PromiseIt, Ground: why}
	}
	return Keeping{Action: Delete, Ground: why}
}

// Letters are the dead letters that would block the key, should they be there. own is what the holder's dead letter is, or would
// be, called.
func (l *Lock) Letters(own string) []string {
	if !l.BlocksWhenDead || l.Holder == "" {
		return l.BlockedBy
	}
	return append([]string{own}, l.BlockedBy...)
}
