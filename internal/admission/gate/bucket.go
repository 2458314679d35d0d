package gate

import (
	"cmp"
	"time"

	"golang.org/x/time/rate"
)

// bucket is a token bucket whose debts are paid: it can be charged for what others have accepted.
type bucket struct {
	tokens *rate.Limiter
	places *rate.Limiter // gives those who are refused places in time, at the rate at which they can be served
	floor  float64       // of tokens: no debt is higher
}

// debtTime is how long a debt keeps a queue closed at most, or two bursts if these take longer. What is created past the webhook, while
// no replica can be reached, is charged as well, and without a bound would close the queue for as long as it takes to make up for it.
const debtTime = time.Minute

// newBucket is a full bucket, or nil where nothing limits.
func newBucket(r Rate) *bucket {
	if r.Count == 0 {
		return nil
	}
	perSecond := rate.Limit(float64(r.Count) / r.Period.Seconds())
	burst := cmp.Or(r.Burst, r.Count)
	return &bucket{
		tokens: rate.NewLimiter(perSecond, burst),
		places: rate.NewLimiter(perSecond, 1),
		floor:  -max(2*float64(burst), debtTime.Seconds()*float64(perSecond)),
	}
}

// almost makes up for the rounding of fractions: who comes after the time that it was told gets its token.
const almost = 1e-6

// wait is how long it takes until there is a token.
func (b *bucket) wait(now time.Time) time.Duration {
	if b == nil {
		return 0
	}
	missing := 1 - b.tokens.TokensAt(now)
	if missing < almost {
		return 0
	}
	return time.Duration(missing / float64(b.tokens.Limit()) * float64(time.Second))
}

// charge takes a token, also one that is not there yet.
func (b *bucket) charge(now time.Time) {
	if b != nil && b.tokens.TokensAt(now) > b.floor {
		b.tokens.ReserveN(now, 1)
	}
}

// place is when to come back for one who is refused: each gets a place of its own, so that they do not all come back at once. When a minute
// is full, places are given from its beginning again.
func (b *bucket) place(now time.Time) time.Duration {
	wait := b.wait(now)
	place := b.places.ReserveN(now, 1).DelayFrom(now)
	if wait+place > maxRetryAfter {
		b.places = rate.NewLimiter(b.places.Limit(), 1)
		return wait
	}
	return wait + place
}

// isFull reports whether the bucket is like a new one.
func (b *bucket) isFull(now time.Time) bool {
	return b == nil || b.tokens.TokensAt(now) >= float64(b.tokens.Burst())
}
