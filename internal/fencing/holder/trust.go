package holder

import (
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/bug"
)

// OnRenewalFailure says what a worker does that cannot renew. It is closed.
type OnRenewalFailure string

const (
	// Fence: trust ends by time, and the command with it. Attempts do not overlap.
	Fence OnRenewalFailure = "Fence"
	// Continue: only a refusal ends trust. The command runs through an outage, and beside its successor if it was taken for
	// dead meanwhile: what it does then, the store refuses by its token.
	Continue OnRenewalFailure = "Continue"
)

// Trust is how long a process may believe that its term stands, and when it renews next.
type Trust struct {
	timing    fencing.Timing
	onFailure OnRenewalFailure
	renewed   Boot // start of the last successful renewal, or of the claim
	next      Boot // when the next try is due
}

// NewTrust begins without trust: a first success gives it.
func NewTrust(timing fencing.Timing, onFailure OnRenewalFailure) Trust {
	return Trust{timing: timing, onFailure: onFailure}
}

// Succeed records that the request begun at start was accepted. jitter in [0, 1) spreads a fleet that started together:
// the pause is at most p, and at least nine tenths of it.
func (t *Trust) Succeed(start Boot, jitter float64) {
	t.renewed = max(t.renewed, start)
	t.next = start.Add(Spread(t.timing.Renew, 0.9, jitter))
}

// Fail records that nobody knows what became of the request begun at start. From start to start it is at most q, so that a
// request that fails at once does not cost more than one that times out; after a timeout, the next try is due at once.
func (t *Trust) Fail(start Boot, jitter float64) {
	t.next = start.Add(Spread(t.timing.RequestTimeout, 0.5, jitter))
}

// Next is when the next renewal is due.
func (t *Trust) Next() Boot { return t.next }

// Ends is when the process must stop believing, unless it renews before.
func (t *Trust) Ends() Boot {
	if t.onFailure == Continue || bug.Is(bug.NoSelfFence) {
		return Never
	}
	return t.renewed.Add(t.timing.Trust())
}

// HasEnded reports whether the term may no longer be trusted.
func (t *Trust) HasEnded(now Boot) bool { return now >= t.Ends() }

// IsFresh reports whether no renewal has to come first before something is begun: the gap since the last is at most p.
func (t *Trust) IsFresh(now Boot) bool { return now.Sub(t.renewed) <= t.timing.Renew }

// Spread shortens d to between least*d and d.
func Spread(d time.Duration, least, jitter float64) time.Duration {
	return time.Duration(float64(d) * (1 - (1-least)*jitter))
}
