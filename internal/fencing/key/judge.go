package key

import (
	"slices"
	"time"
)

// Claimant is a task that wants a key.
type Claimant struct {
	UID  string
	Name string
	// Hash is that of its payload; empty: not known, and taken for the same as any.
	Hash string
	// Replays is the dead letter that it replays; empty: none.
	Replays        string
	Duration       time.Duration
	BlocksWhenDead bool
}

// Verdict is what a key Lease means for one claimant. It is closed: a switch on it lists every value.
type Verdict string

const (
	// Free: nobody has the key. It may be taken, after a live read.
	Free Verdict = "Free"
	// Expired: there is an answer, and its retention is over. It may be taken, after a live read.
	Expired Verdict = "Expired"
	// Inherited: the key is blocked by the dead letter that the claimant replays. It may be taken, after a live read.
	Inherited Verdict = "Inherited"
	// Mine: the claimant has the key.
	Mine Verdict = "Mine"
	// Busy: another task has the key.
	Busy Verdict = "Busy"
	// Blocked: a dead letter has the key, and the claimant is no replay of it.
	Blocked Verdict = "Blocked"
	// Finished: the work was done, for the same payload. Dangerous: the claimant is Completed without a run, after a live read.
	Finished Verdict = "Finished"
	// Conflict: the work was done, or is under way, for another payload. Dangerous: the claimant is dead-lettered, after a live
	// read.
	Conflict Verdict = "Conflict"
)

// Judge says what a key Lease means for a claimant; l is nil if there is none.
func Judge(l *Lock, me *Claimant, now time.Time) Verdict {
	switch {
	case l == nil:
		return Free
	case l.Answer != nil:
		return judgeAnswer(l.Answer, me, now)
	case l.Holder == me.UID:
		return Mine
	case l.Holder != "":
		// A replay waits: that its payload differs is somebody's repair, and the holder may yet fail.
		if l.Kind == Idempotency && me.Replays == "" && !isSame(l.Hash, me.Hash) {
			return Conflict
		}
		return Busy
	case len(l.BlockedBy) == 0:
		return Free
	case me.Replays != "" && slices.Contains(l.BlockedBy, me.Replays):
		return Inherited
	}
	return Blocked
}

func judgeAnswer(a *Answer, me *Claimant, now time.Time) Verdict {
	switch {
	case a.TaskUID == me.UID: // its own, recorded before a crash, and its term was lost since
		return Finished
	case !now.Before(a.Expiry()):
		return Expired
	case isSame(a.Hash, me.Hash):
		return Finished
	}
	return Conflict
}

func isSame(hash, other string) bool { return hash == other || hash == "" || other == "" }

// IsTakable reports whether the claimant may take the key.
func (v Verdict) IsTakable() bool { return v == Free || v == Expired || v == Inherited }
