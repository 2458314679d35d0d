package outbox

import (
	"errors"
	"time"
)

// Class is what a failed delivery says.
type Class int

// The classes. The zero value is the plain failure: a sink that does not know better is believed to have failed on the event.
const (
	ClassFailed Class = iota
	ClassRejected
	ClassUnavailable
)

type classified struct {
	class Class
	error
}

func (c classified) Unwrap() error { return c.error }

// Rejected marks an error of a sink that will never take the event: a payload that cannot be read, one that is too large.
func Rejected(err error) error { return classified{ClassRejected, err} }

// Unavailable marks an error that is not about the event: no connection, no answer in time, overload, wrong credentials.
func Unavailable(err error) error { return classified{ClassUnavailable, err} }

// Classify finds the class of a sink's error.
func Classify(err error) Class {
	var c classified
	if errors.As(err, &c) {
		return c.class
	}
	return ClassFailed
}

// Verdict is what becomes of an event whose delivery failed.
type Verdict int

// The verdicts.
const (
	Wait  Verdict = iota // an outage: nothing is counted, the relay as a whole waits
	Retry                // counted; the event's key waits
	Park                 // set aside; the key goes on without it
)

// Judge decides. attempts are the failures that were counted before this one; othersGotThrough says whether the sink took
// anything in the same round.
func Judge(class Class, attempts, maxAttempts int, othersGotThrough bool) Verdict {
	switch {
	case class == ClassRejected:
		return Park
	case class == ClassUnavailable && !othersGotThrough:
		return Wait
	case attempts+1 >= maxAttempts:
		return Park
	default:
		return Retry
	}
}

// Backoff is Full Jitter: sleep = random(0, min(cap, base * 2^n)), as named and measured in Marc Brooker, "Exponential
// Backoff And Jitter", AWS Architecture Blog, 2015. It spreads those that failed together over the whole time.
type Backoff struct {
	Base time.Duration // the bound of the first wait
	Cap  time.Duration // the bound of all waits
}

// Delay is the wait after n failures before this one. random is in [0, 1).
func (b Backoff) Delay(n int, random float64) time.Duration {
	bound := b.Base
	for range n { // doubling a step at a time cannot overflow: it stops at the cap
		if bound >= b.Cap {
			break
		}
		bound *= 2
	}
	return time.Duration(random * float64(min(bound, b.Cap)))
}
