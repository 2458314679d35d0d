package agent

import (
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

// deniedGrace is how long a 403 on a claim is taken for a role or a policy that has not reached every API server yet: the
// RoleBinding of a namespace may be younger than the Pod's first request. Nothing runs meanwhile.
const deniedGrace = 10 * time.Second

// claimForm is the form in which a claim is sent.
type claimForm string

const (
	// claimFirst tests that nobody has claimed.
	claimFirst claimForm = "First"
	// claimRepeat tests that the claim that stands is this process's own.
	claimRepeat claimForm = "Repeat"
)

// claimVerdict says who holds the term. It is closed: a switch on it lists every value.
type claimVerdict string

const (
	// claimHeld: this process does.
	claimHeld claimVerdict = "Held"
	// claimLost: this process does not, and never will. Final.
	claimLost claimVerdict = "Lost"
	// claimOpen: not known yet. Send the form again.
	claimOpen claimVerdict = "Open"
)

// claimant decides what to send next until it is known who holds the term.
//
// While every answer arrived, one refusal is final. After a lost answer our claim may stand, or may yet land, so the
// refusal of the first form may be the work of our own claim: only if the repeat is refused *after* that, the claim that
// stands is another's, because a claim is written once.
type claimant struct {
	form    claimForm
	lost    bool // an answer was lost
	refused bool // since then the first form was refused: some claim stands, or the term is gone
	denied  bool // the last answer was a 403
	since   Boot // of the first 403
}

// hear takes the answer to the current form, received at now.
func (c *claimant) hear(reply Reply, now Boot) claimVerdict {
	switch {
	case reply.Answer == fencing.Accepted:
		return claimHeld
	case reply.IsDenied() && c.isTolerated(now):
		return claimOpen
	case reply.Answer == fencing.Unavailable, reply.Answer == fencing.Unauthorized:
		c.lost = c.lost || c.form == claimFirst // a repeat cannot claim
		if c.form == claimFirst || c.refused {
			c.form = claimRepeat
		} else {
			c.form = claimFirst
		}
		return claimOpen
	case !c.lost:
		return claimLost
	case c.form == claimFirst:
		c.refused, c.form = true, claimRepeat
		return claimOpen
	case c.refused:
		return claimLost
	default:
		c.form = claimFirst
		return claimOpen
	}
}

// isTolerated reports whether a 403 at now is still young.
func (c *claimant) isTolerated(now Boot) bool {
	if !c.denied {
		c.denied, c.since = true, now
	}
	return now.Sub(c.since) < deniedGrace
}
