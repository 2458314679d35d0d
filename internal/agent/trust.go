package agent

import (
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

// trust is how long the agent may believe that its term stands, and when it renews next. It is counted from the start of
// the last successful request: the controller counts from when it observed the effect, which is later.
type trust struct {
	timing  fencing.Timing
	renewed Boot // start of the last successful renewal, or of the claim
	next    Boot // when the next try is due
}

// succeed records that the request begun at start was accepted. jitter in [0, 1) spreads a fleet that started together:
// the pause is at most p, and at least nine tenths of it.
func (t *trust) succeed(start Boot, jitter float64) {
	t.renewed = max(t.renewed, start)
	t.next = start.Add(spread(t.timing.Renew, 0.9, jitter))
}

// fail records that nobody knows what became of the request begun at start. From start to start it is at most q, so that a
// request that fails at once does not cost more than one that times out; after a timeout, the next try is due at once.
func (t *trust) fail(start Boot, jitter float64) {
	t.next = start.Add(spread(t.timing.RequestTimeout, 0.5, jitter))
}

// ends is when the agent must stop believing, unless it renews before.
func (t *trust) ends() Boot { return t.renewed.Add(t.timing.Trust()) }

// hasEnded reports whether the term may no longer be trusted.
func (t *trust) hasEnded(now Boot) bool { return now >= t.ends() }

// isFresh reports whether no renewal has to come first before something is begun: the gap since the last is at most p.
func (t *trust) isFresh(now Boot) bool { return now.Sub(t.renewed) <= t.timing.Renew }

// spread shortens d to between least*d and d.
func spread(d time.Duration, least, jitter float64) time.Duration {
	return time.Duration(float64(d) * (1 - (1-least)*jitter))
}
