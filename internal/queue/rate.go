package queue

import (
	"cmp"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// pacer says how soon the next start may be. Its times never step back: see steady.
type pacer interface {
	wait(now time.Time) time.Duration // until the next start; 0: now
	take(now time.Time) time.Duration // starts, if wait is 0
}

// paced is the pacer for a rate. A changed rate goes on from what the old one has seen; another algorithm begins afresh, and so does
// the first.
func paced(p pacer, r Rate, now time.Time) pacer {
	period := cmp.Or(max(0, r.Period), time.Second)
	perSecond := rate.Limit(float64(r.Count) / period.Seconds())
	burst := max(1, cmp.Or(r.Burst, r.Count))
	switch {
	case r.Count <= 0:
		return nil
	case r.Algorithm == SlidingWindow:
		w, goesOn := p.(*window)
		if !goesOn {
			w = &window{since: now, shortest: period}
		}
		w.change(r.Count, period)
		return w
	case r.Algorithm == LeakyBucket: // as a meter: a token bucket that holds one, and so never less than an interval between two
		burst = 1
	}
	b, goesOn := p.(bucket)
	if !goesOn {
		b = bucket{rate.NewLimiter(perSecond, burst)}
		b.AllowN(now, burst) // a Limiter begins full
	}
	b.SetLimitAt(now, perSecond) // what was earned until now was at the old limit
	b.SetBurstAt(now, burst)
	return b
}

// bucket is TokenBucket and LeakyBucket.
type bucket struct{ *rate.Limiter }

func (b bucket) wait(now time.Time) time.Duration {
	missing := 1 - b.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return max(1, time.Duration(math.Ceil(missing/float64(b.Limit())*float64(time.Second))))
}

func (b bucket) take(now time.Time) time.Duration {
	if b.AllowN(now, 1) {
		return 0
	}
	return b.wait(now)
}

// window is SlidingWindow: never more than count starts in any period, half open: a start at t is no longer in it at t+period.
type window struct {
	count    int
	period   time.Duration
	starts   []time.Time // the last ones, as many as the highest count so far: a lower one does not forget them. A ring
	last     int         // in starts
	since    time.Time   // when the window began: full
	shortest time.Duration
}

// nth is when the n-th last start was, from 1.
func (w *window) nth(n int) time.Time {
	return w.starts[(w.last-n+1+len(w.starts))%len(w.starts)]
}

func (w *window) wait(now time.Time) time.Duration {
	return max(0, w.nth(w.count).Add(w.period).Sub(now))
}

func (w *window) take(now time.Time) time.Duration {
	if wait := w.wait(now); wait > 0 {
		return wait
	}
	w.last = (w.last + 1) % len(w.starts)
	w.starts[w.last] = now
	return 0
}

// change sets the limits. If the count rises above all earlier ones, more starts have to be known than were kept. Those were at the
// latest the shortest period so far before the ones that as many starts as were kept followed, by the limits of then; or before the
// window began.
func (w *window) change(count int, period time.Duration) {
	if old := len(w.starts); count > old {
		starts := make([]time.Time, count) // the last one first, for now
		for i := range starts {
			switch {
			case i < old:
				starts[i] = w.nth(i + 1)
			case old == 0:
				starts[i] = w.since
			default:
				starts[i] = starts[i-old].Add(-w.shortest)
				if starts[i].Before(w.since) {
					starts[i] = w.since
				}
			}
		}
		for i := range count / 2 {
			starts[i], starts[count-1-i] = starts[count-1-i], starts[i]
		}
		w.starts, w.last = starts, count-1
	}
	w.count, w.period, w.shortest = count, period, min(w.shortest, period)
}

// jitter is how far times may be out of order without a step of the clock: those of calls that overtook one another.
const jitter = time.Second

// steady makes times that never step back of times that may. It stands still while they are behind by up to the jitter; a larger step
// back it takes for one of the clock, and goes on from where it was. A step forward cannot be told from time that has passed.
type steady struct {
	last   time.Time
	offset time.Duration
}

func (s *steady) at(now time.Time) time.Time {
	if behind := s.last.Sub(now.Add(s.offset)); behind > jitter {
		s.offset += behind
	}
	s.last = s.peek(now)
	return s.last
}

// peek is the same for a time that may be late by any length: it is not taken for a step of the clock.
func (s *steady) peek(now time.Time) time.Time {
	if t := now.Add(s.offset); t.After(s.last) {
		return t
	}
	return s.last
}
