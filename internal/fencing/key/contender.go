package key

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Policy says what a claimant does about a concurrency key that it may not take. It is closed.
type Policy string

const (
	// PolicyQueue: it waits.
	PolicyQueue Policy = "Queue"
	// PolicyReplace: it waits, and whatever is older is superseded.
	PolicyReplace Policy = "Replace"
	// PolicyReject: it is rejected.
	PolicyReject Policy = "Reject"
)

// Contender is a task in the order of creation.
type Contender struct {
	Task    string      `json:"task"`
	UID     string      `json:"uid"`
	Created metav1.Time `json:"created"` // in whole seconds
}

// compare orders by creation. Of tasks that were made within one second nobody knows the order; that of their names is the same for
// whoever asks.
func (c *Contender) compare(other *Contender) int {
	return cmp.Or(c.Created.Compare(other.Created.Time), cmp.Compare(c.Task, other.Task), cmp.Compare(c.UID, other.UID))
}

func (c *Claimant) contender() *Contender {
	return &Contender{Task: c.Name, UID: c.UID, Created: metav1.NewTime(c.Created)}
}

// Supersedes reports whether a newer task is to have the key in the claimant's place, whether that holds it or waits.
func (l *Lock) Supersedes(c *Claimant) bool {
	return l.Newest != nil && c.contender().compare(l.Newest) < 0 && !l.isBlockedByWhatItReplays(c)
}

func (l *Lock) isBlockedByWhatItReplays(c *Claimant) bool {
	return c.Replays != "" && slices.Contains(l.BlockedBy, c.Replays)
}

// isReplacing reports whether the claimant is newer than the newest that the lock names, and says so.
func (c *Claimant) isReplacing(l *Lock) bool {
	return l.Kind == Concurrency && c.Policy == PolicyReplace && c.Replays == "" && (l.Newest == nil || l.Newest.compare(c.contender()) < 0)
}

// insist is the verdict for a claimant that may not take the key; without a policy of its own, it waits.
func (c *Claimant) insist(l *Lock, waits Verdict) Verdict {
	switch {
	case c.isReplacing(l):
		return Replaceable
	case l.Kind == Concurrency && c.Policy == PolicyReject && c.Replays == "":
		return Rejected
	}
	return waits
}

// Ask is the lock once the claimant is the newest that wants it.
func Ask(seen *Lock, by *Claimant) *Lock {
	l := *seen
	l.Newest = by.contender()
	return &l
}

// Promise is the lock once its holder has ended, and nothing blocks it, and the newest is to have it.
func Promise(seen *Lock) *Lock {
	l := *seen
	l.Holder, l.BlockedBy, l.BlocksWhenDead = "", nil, false
	return &l
}

func (c *Contender) encode() string {
	raw, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("texts and a time cannot fail to encode: %v", err)) // programming error
	}
	return string(raw)
}

// readContender is nil if there is none that can be read.
func readContender(raw string) *Contender {
	c := &Contender{}
	if raw == "" || json.Unmarshal([]byte(raw), c) != nil || c.UID == "" || c.Task == "" {
		return nil
	}
	return c
}
