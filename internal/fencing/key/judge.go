package key

import "time"

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
	// Policy is for a concurrency key; empty: PolicyQueue.
	Policy Policy
	// Created is when the task was made.
	Created time.Time
}

// Verdict is what a key Lease means for one claimant. It is closed: a switch on it lists every value.
type Verdict string

const (
	// Free: nobody has the key, and to nobody else it is promised. It may be taken, after a live read.
	Free Verdict = "Free"
	// Expired: there is an answer, and its retention is over. It may be taken, after a live read.
	Expired Verdict = "Expired"
	// Inherited: the key is blocked by the dead letter that the claimant replays. It may be taken, after a live read.
	Inherited Verdict = "Inherited"
	// Mine: the claimant has the key.
	Mine Verdict = "Mine"
	// Busy: another task has the key, or it is promised to one.
	Busy Verdict = "Busy"
	// Blocked: a dead letter has the key, and the claimant is no replay of it.
	Blocked Verdict = "Blocked"
	// Finished: the work was done, for the same payload. Dangerous: the claimant is Completed without a run, after a live read.
	Finished Verdict = "Finished"
	// Conflict: the work was done, or is under way, for another payload. Dangerous: the claimant is dead-lettered, after a live
	// read.
	Conflict Verdict = "Conflict"
	// Replaceable: the claimant may not take the key, and is to replace whatever is older: it asks for it, after a live read.
	Replaceable Verdict = "Replaceable"
	// Superseded: a newer task replaces the claimant. Dangerous: the claimant is Cancelled, after a live read, and if it holds the
	// key, once it has stopped.
	Superseded Verdict = "Superseded"
	// Rejected: the claimant may not take the key, and is not to wait. Dangerous: it is dead-lettered, after a live read.
	Rejected Verdict = "Rejected"
)

// Judge says what a key Lease means for a claimant; l is nil if there is none.
func Judge(l *Lock, me *Claimant, now time.Time) Verdict {
	switch {
	case l == nil:
		return Free
	case l.Answer != nil:
		return judgeAnswer(l.Answer, me, now)
	case l.Supersedes(me):
		return Superseded
	case l.Holder == me.UID:
		return Mine
	case l.Holder != "":
		// A replay waits: that its payload differs is somebody's repair, and the holder may yet fail.
		if l.Kind == Idempotency && me.Replays == "" && !isSame(l.Hash, me.Hash) {
			return Conflict
		}
		return me.insist(l, Busy)
	case l.isBlockedByWhatItReplays(me):
		return Inherited
	case len(l.BlockedBy) > 0:
		return me.insist(l, Blocked)
	case l.Newest == nil, l.Newest.UID == me.UID, me.isReplacing(l):
		return Free
	}
	return me.insist(l, Busy)
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
