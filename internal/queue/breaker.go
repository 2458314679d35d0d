package queue

import (
	"cmp"
	"math"
	"time"
)

// Breaker stops the starts of a queue while most of them would fail. It is pure, as the queue; not safe for concurrent use.
//
//	Closed    everything starts. It opens when too many of the results in the window are failures, or too many of those are the same
//	Open      nothing starts, for OpenFor; what runs goes on
//	HalfOpen  a few probes start. It closes when so many have succeeded, and is open again as soon as one fails
//
// A result counts only if its attempt was dispatched since the state began: what was dispatched before the breaker opened does not
// close it, nor, once it is closed, open it again. The results that a closed breaker has counted are not in its record: another that
// goes on from it counts afresh. One that goes on half-open may start all its probes anew.
type Breaker struct {
	settings BreakerSettings
	record   BreakerRecord
	clock    steady
	results  results
	probes   map[string]bool // by ID of the task: under way
}

// NewBreaker goes on from a record; the zero record is that of a new one.
func NewBreaker(settings BreakerSettings, record BreakerRecord, now time.Time) *Breaker {
	record.State = cmp.Or(record.State, Closed)
	b := &Breaker{record: record, probes: map[string]bool{}}
	b.Set(settings, now)
	return b
}

// Set takes changed settings.
func (b *Breaker) Set(settings BreakerSettings, now time.Time) {
	settings.Override = cmp.Or(settings.Override, OverrideAuto)
	settings.MinSamples = max(1, settings.MinSamples)
	settings.Window = cmp.Or(max(0, settings.Window), time.Minute)
	settings.OpenFor = max(time.Second, cmp.Or(settings.OpenFor, time.Minute))
	settings.Probes = max(1, settings.Probes)
	if settings.Override != b.settings.Override {
		b.results = results{}
	}
	b.settings = settings
	b.settle(now)
}

// Observe takes the result of an attempt, once.
func (b *Breaker) Observe(r Result, now time.Time) {
	b.settle(now)
	delete(b.probes, r.ID)
	if b.settings.Override != OverrideAuto || r.Outcome == Neither || r.Started.Before(b.record.Since) {
		return
	}
	switch b.record.State {
	case Open:
	case Closed:
		b.results.add(result{at: b.clock.at(now), isFailure: r.Outcome == Failed, fingerprint: r.Fingerprint}, b.settings.Window)
		if cause := b.alarm(r); cause != "" {
			b.enter(Open, cause, r.Fingerprint, now)
		}
	case HalfOpen:
		if r.Outcome == Failed {
			b.enter(Open, CauseProbeFailed, r.Fingerprint, now)
			return
		}
		b.record.Successes++
		b.settle(now)
	}
}

// alarm is why the results so far open the breaker, after this one; "" if they do not.
func (b *Breaker) alarm(r Result) Cause {
	s := b.settings
	switch {
	case r.Outcome != Failed:
	case s.SameFailures > 0 && r.Fingerprint != "" && b.results.same[r.Fingerprint] >= s.SameFailures:
		return CauseSameFailures
	case s.FailurePercent > 0 && len(b.results.all) >= s.MinSamples && b.results.failures*100 >= s.FailurePercent*len(b.results.all):
		return CauseFailurePercent
	}
	return ""
}

// State is what the breaker lets start now.
func (b *Breaker) State(now time.Time) BreakerState { return b.Record(now).State }

// Record is what has to be kept of the breaker.
func (b *Breaker) Record(now time.Time) BreakerRecord {
	b.settle(now)
	return b.record
}

// Admits is how many attempts may start now, and, if that is none, after how long to look again; 0: when something has changed.
func (b *Breaker) Admits(now time.Time) (n int, again time.Duration) {
	b.settle(now)
	switch b.record.State {
	case HalfOpen:
		return max(0, b.settings.Probes-b.record.Successes-len(b.probes)), 0
	case Open:
		if b.settings.Override == OverrideOpen {
			return 0, 0
		}
		return 0, max(1, b.record.Since.Add(b.settings.OpenFor).Sub(now))
	default:
		return math.MaxInt, 0
	}
}

func (b *Breaker) admits(now time.Time) bool {
	n, _ := b.Admits(now)
	return n > 0
}

// stands reports whether a turn that the task was given is still good: while half-open, that of a probe alone, since what was let start
// before has waited out an outage.
func (b *Breaker) stands(id string, now time.Time) bool {
	switch b.State(now) {
	case Open:
		return false
	case HalfOpen:
		return b.probes[id]
	default:
		return true
	}
}

// began says that the queue has started an attempt of the task.
func (b *Breaker) began(id string, now time.Time) {
	if b.State(now) == HalfOpen {
		b.probes[id] = true
	}
}

// ended says that the task holds no capacity: if it was a probe, another may start, whatever came of it.
func (b *Breaker) ended(id string) { delete(b.probes, id) }

// settle brings the state up to date: with the word of a person, and with the time.
func (b *Breaker) settle(now time.Time) {
	if b.record.Since.After(now) {
		b.record.Since = now.Truncate(time.Second) // the clock has stepped back, or is another: it is open for OpenFor from now at most
	}
	isOpen, isOverridden := b.record.State == Open, b.record.Cause == CauseOverride
	isProven := b.record.State == HalfOpen && b.record.Successes >= b.settings.Probes
	switch due := b.record.Since.Add(b.settings.OpenFor); {
	case b.settings.Override == OverrideOpen:
		if !isOpen || !isOverridden {
			b.enter(Open, CauseOverride, "", now)
		}
	case b.settings.Override == OverrideClosed:
		if b.record.State != Closed {
			b.enter(Closed, "", "", now)
		}
	case isOpen && isOverridden:
		b.enter(HalfOpen, CauseOverride, "", now)
	case isOpen && !now.Before(due):
		b.enter(HalfOpen, b.record.Cause, b.record.Fingerprint, due)
	case isProven:
		b.enter(Closed, "", "", now)
	}
}

// enter begins a state. Its time is in whole seconds, as the API keeps times: so a Started that was cut to them compares, and another
// breaker that goes on from the record is the same.
func (b *Breaker) enter(state BreakerState, cause Cause, fingerprint string, since time.Time) {
	b.record = BreakerRecord{State: state, Since: since.Truncate(time.Second), Cause: cause, Fingerprint: fingerprint}
	b.results, b.probes = results{}, map[string]bool{}
}
