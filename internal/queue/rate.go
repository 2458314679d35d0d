package queue

import (
	"cmp"
	"slices"
	"time"
)

// pacer says how soon the next start may be. Its times never step back: see steady.
type pacer interface {
	wait(now time.Time) time.Duration // until the next start; 0: now
	take(now time.Time) time.Duration // starts, if wait is 0
	giveBack(at time.Time)            // a start that was taken at that time is not made
}

// fee is what a turn has cost, and whom. The zero value: nothing.
type fee struct {
	to pacer
	at time.Time
}

// refund leaves the rate as if the turn had not been given.
func (f fee) refund() {
	if f.to != nil {
		f.to.giveBack(f.at)
	}
}

// paced is the pacer for a rate. A changed rate goes on from what the old one has seen; another algorithm begins afresh, and so does
// the first.
func paced(p pacer, r Rate, now time.Time) pacer {
	period := cmp.Or(max(0, r.Period), time.Second)
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
	b, goesOn := p.(*bucket)
	if !goesOn {
		b = &bucket{}
	}
	b.change(float64(r.Count)/period.Seconds(), float64(burst), now)
	return b
}

// window is SlidingWindow: never more than count starts in any period, half open: a start at t is no longer in it at t+period.
type window struct {
	count    int
	period   time.Duration
	starts   []time.Time // the last ones, as many as the highest count so far: a lower one does not forget them. A ring
	last     int         // in starts
	gone     time.Time   // the one before those, at the latest
	since    time.Time   // when the window began: full
	shortest time.Duration
}

// slot is where the n-th last start is kept, from 1.
func (w *window) slot(n int) int { return (w.last - n + 1 + len(w.starts)) % len(w.starts) }

// nth is when the n-th last start was.
func (w *window) nth(n int) time.Time { return w.starts[w.slot(n)] }

func (w *window) wait(now time.Time) time.Duration {
	return max(0, w.nth(w.count).Add(w.period).Sub(now))
}

func (w *window) take(now time.Time) time.Duration {
	if wait := w.wait(now); wait > 0 {
		return wait
	}
	w.last = (w.last + 1) % len(w.starts)
	w.gone, w.starts[w.last] = w.starts[w.last], now
	return 0
}

// giveBack forgets a start. In its stead the one before those that are kept comes in at the other end. If that is not known any more, it was
// at the latest the shortest period so far before the last one, which followed it by as many starts as are kept, by the limits of then.
func (w *window) giveBack(at time.Time) {
	kept := len(w.starts)
	unknown := w.nth(1).Add(-w.shortest)
	if w.gone.Before(unknown) {
		unknown = w.gone
	}
	for i := range kept {
		switch start := w.nth(i + 1); {
		case start.Before(at):
			return // it has left the window long since
		case start.Equal(at):
			for ; i > 0; i-- {
				w.starts[w.slot(i+1)] = w.nth(i)
			}
			w.gone, w.starts[w.last] = unknown, unknown
			w.last = w.slot(2)
			return
		}
	}
}

// change sets the limits. If the count rises above all earlier ones, more starts have to be known than were kept. Those were at the
// latest the shortest period so far before the ones that as many starts as were kept followed, by the limits of then; or before the
// window began. Nor were they after the ones that are known.
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
				starts[i] = slices.MinFunc([]time.Time{starts[i-1], w.gone, starts[i-old].Add(-w.shortest)}, time.Time.Compare)
				if starts[i].Before(w.since) {
					starts[i] = w.since
				}
			}
		}
		for i := range count / 2 {
			starts[i], starts[count-1-i] = starts[count-1-i], starts[i]
		}
		w.starts, w.last, w.gone = starts, count-1, starts[0]
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
