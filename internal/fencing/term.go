package fencing

import (
	"strings"
	"time"
)

// Term is what a term Lease says, in the protocol's words.
type Term struct {
	Namespace       string
	Name            string
	UID             string // of the Lease object
	ResourceVersion string
	Task            string // UID of the task

	Holder     string        // name of the attempt's Pod; empty: nobody
	Duration   time.Duration // D, as stored when the term was granted
	Attempt    int32         // 1-based
	GrantTime  time.Time     // controller's clock
	RenewTime  time.Time     // agent's clock; for people and for equality
	Claim      *Claim        // nil: not claimed
	Submission *Submission   // nil: nothing submitted
	Stop       *Stop         // nil: nobody asked the holder to end
	Progress   *Progress     // nil: the holder has said nothing
	Checkpoint string        // of the holder, or carried over from the term before
	Ended      string        // the version that a revoke ended, by its own account; empty: not revoked, or by another hand
}

// State is where a term stands. It is closed: a switch on it lists every value.
type State string

const (
	// Granted: a holder is named, nobody has claimed.
	Granted State = "Granted"
	// Claimed: the holder's process runs, or may run, or may have run.
	Claimed State = "Claimed"
	// Submitted: the agent has spoken its last word. The term is over, whatever the holder field says.
	Submitted State = "Submitted"
	// Revoked: the controller ended the term before anything was submitted.
	Revoked State = "Revoked"
)

// State derives the state of the term. The order matters: a submission that landed first wins over anything later.
func (t *Term) State() State {
	switch {
	case t.Submission != nil:
		return Submitted
	case t.Holder == "":
		return Revoked
	case t.Claim != nil:
		return Claimed
	default:
		return Granted
	}
}

// IsOpen reports whether somebody may still speak through the term.
func (t *Term) IsOpen() bool {
	state := t.State()
	return state == Granted || state == Claimed
}

// Mark fingerprints what a holder changes when it is alive. Two equal marks mean: not renewed in between.
// Neither a revoke nor a stop changes it: they tell nothing about when the holder was last alive. Nor are equal marks enough for
// that: see the package documentation.
func (t *Term) Mark() string {
	claim := ""
	if t.Claim != nil {
		claim = t.Claim.String()
	}
	return strings.Join([]string{t.UID, t.GrantTime.UTC().Format(time.RFC3339Nano), claim, t.RenewTime.UTC().Format(time.RFC3339Nano)}, "|")
}

// Claim names the one process that holds a term.
type Claim struct {
	Nonce  string // random, made by each agent process: a restarted container is another process
	Node   string
	PodUID string
	stored string // as read; a holder may have written another form, and tests must name it exactly
}

// String is the form stored on the Lease: <nonce>/<node>/<pod uid>. The admission policy reads its last part.
func (c Claim) String() string {
	if c.stored != "" {
		return c.stored
	}
	return c.Nonce + "/" + c.Node + "/" + c.PodUID
}

// ParseClaim reads the stored form. It never fails: a claim of another form names no Pod, and its term expires.
func ParseClaim(stored string) Claim {
	claim := Claim{stored: stored}
	if parts := strings.Split(stored, "/"); len(parts) == 3 {
		claim.Nonce, claim.Node, claim.PodUID = parts[0], parts[1], parts[2]
	}
	return claim
}
