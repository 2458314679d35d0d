package holder

import (
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/bug"
)

// deniedGrace is how long a 403 on a claim is taken for a role or a policy that has not reached every API server yet: the
// RoleBinding of a namespace may be younger than the Pod's first request. Nothing runs meanwhile.
const deniedGrace = 10 * time.Second

// maxNodeBytes bounds the node's name inside the claim, which the admission policy bounds to 256 bytes. It is for people.
const maxNodeBytes = 128

// ClaimOf names one process. nonce is random and new for every process: a container that is restarted in place, or rebuilt
// from a lost sandbox, has the same Pod and must not take the term of its predecessor for its own.
func ClaimOf(nonce, node, podUID string) fencing.Claim {
	if bug.Is(bug.NoNonce) {
		nonce = "same"
	}
	return fencing.Claim{Nonce: nonce, Node: fencing.Truncate(node, maxNodeBytes), PodUID: podUID}
}

// ClaimForm is the form in which a claim is sent.
type ClaimForm string

const (
	// ClaimFirst tests that nobody has claimed ([fencing.ClaimPatch]).
	ClaimFirst ClaimForm = "First"
	// ClaimRepeat tests that the claim that stands is this process's own ([fencing.RenewPatch]).
	ClaimRepeat ClaimForm = "Repeat"
)

// ClaimVerdict says who holds the term. It is closed: a switch on it lists every value.
type ClaimVerdict string

const (
	// ClaimHeld: this process does.
	ClaimHeld ClaimVerdict = "Held"
	// ClaimLost: this process does not, and never will. Final.
	ClaimLost ClaimVerdict = "Lost"
	// ClaimOpen: not known yet. Send the form again.
	ClaimOpen ClaimVerdict = "Open"
)

// Claimant decides what to send next until it is known who holds the term.
//
// While every answer arrived, one refusal is final. After a lost answer our claim may stand, or may yet land, so the
// refusal of the first form may be the work of our own claim: only if the repeat is refused *after* that, the claim that
// stands is another's, because a claim is written once.
type Claimant struct {
	form    ClaimForm
	lost    bool // an answer was lost
	refused bool // since then the first form was refused: some claim stands, or the term is gone
	denial  denial
}

// NewClaimant is one that has sent nothing yet.
func NewClaimant() Claimant { return Claimant{form: ClaimFirst} }

// Form is the form to send next.
func (c *Claimant) Form() ClaimForm { return c.form }

// MayStand reports whether a claim may stand whose answer was lost.
func (c *Claimant) MayStand() bool { return c.lost }

// Hear takes the answer to the current form, received at now. denied says that it was a 403: a role or a policy refused.
func (c *Claimant) Hear(answer fencing.Answer, denied bool, now Boot) ClaimVerdict {
	switch {
	case answer == fencing.Accepted:
		return ClaimHeld
	case denied && c.denial.isYoung(now, deniedGrace):
		return ClaimOpen
	case answer == fencing.Unavailable, answer == fencing.Unauthorized:
		c.lost = c.lost || c.form == ClaimFirst // a repeat cannot claim
		if c.form == ClaimFirst || c.refused {
			c.form = ClaimRepeat
		} else {
			c.form = ClaimFirst
		}
		return ClaimOpen
	case !c.lost:
		return ClaimLost
	case c.form == ClaimFirst:
		c.refused, c.form = true, ClaimRepeat
		return ClaimOpen
	case c.refused:
		return ClaimLost
	default:
		c.form = ClaimFirst
		return ClaimOpen
	}
}

// denial remembers the first 403: a role or a policy refused, and not somebody else's write.
type denial struct {
	isHeard bool
	since   Boot
}

// isYoung reports whether a 403 at now follows the first by less than the given time.
func (d *denial) isYoung(now Boot, grace time.Duration) bool {
	if !d.isHeard {
		d.isHeard, d.since = true, now
	}
	return now.Sub(d.since) < grace
}
