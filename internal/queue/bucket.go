package queue

import (
	"math"
	"slices"
	"time"
)

// bucket is TokenBucket and LeakyBucket. The zero value is empty, and stays so.
//
// A start that is given back leaves it as if that had never been. To put the token in again is not enough: while it was out, the bucket may
// have earned what it would have had no room for, and what then started would be one more than the rate allows. So the starts since it was last
// full are kept, however long ago that was: while there is always somebody to start, it never is. Of a start before that, nothing is left.
type bucket struct {
	perSecond, burst float64
	tokens           float64 // after the last start, or change
	at               time.Time
	starts           []time.Time
}

// maxStarts bounds the starts that are kept, beside a burst. They are those of the last ten seconds even at a thousand in a second.
const maxStarts = 10_000

// change sets the limits. What was earned until now was at the old ones. Starts of before are not given back any more.
func (b *bucket) change(perSecond, burst float64, now time.Time) {
	b.tokens, b.at = b.level(now), now
	if perSecond != b.perSecond || burst != b.burst {
		b.perSecond, b.burst, b.starts = perSecond, burst, nil
	}
}

// earn is what tokens become in a time.
func (b *bucket) earn(tokens float64, passed time.Duration) float64 {
	return min(b.burst, tokens+b.perSecond*max(0, passed).Seconds())
}

func (b *bucket) level(now time.Time) float64 { return b.earn(b.tokens, now.Sub(b.at)) }

func (b *bucket) wait(now time.Time) time.Duration {
	missing := 1 - b.level(now)
	if missing <= 0 {
		return 0
	}
	return max(1, time.Duration(math.Ceil(missing/b.perSecond*float64(time.Second))))
}

func (b *bucket) take(now time.Time) time.Duration {
	if wait := b.wait(now); wait > 0 {
		return wait
	}
	level := b.level(now)
	b.tokens, b.at = level-1, now
	switch {
	case level == b.burst:
		b.starts = b.starts[:0]
	case len(b.starts) >= maxStarts+int(b.burst): // the cost of one that is given back after so many others is not known any more: it stays
		b.starts = b.starts[1:]
	}
	b.starts = append(b.starts, now)
	return 0
}

// giveBack gives a token back, but never more than is in a bucket that was full at that time.
func (b *bucket) giveBack(at time.Time) {
	later, _ := slices.BinarySearchFunc(b.starts, at, func(start, at time.Time) int {
		if start.After(at) {
			return 1
		}
		return -1
	})
	if later == 0 || !b.starts[later-1].Equal(at) {
		return // it is not known any more
	}
	full, since := b.burst, at
	for _, start := range b.starts[later:] {
		full, since = b.earn(full, start.Sub(since))-1, start
	}
	b.tokens = min(b.tokens+1, b.earn(full, b.at.Sub(since)))
	b.starts = slices.Delete(b.starts, later-1, later)
}
