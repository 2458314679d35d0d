package queue

import "time"

// BreakerSettings is what opens a breaker, and closes it again.
type BreakerSettings struct {
	FailurePercent int           // opens it: of the results in Window so many failed, and there are MinSamples; 0: never
	MinSamples     int           // 0: 1
	Window         time.Duration // how far back results count; 0: a minute
	SameFailures   int           // opens it, too: so many failures of one fingerprint in Window; 0: never
	OpenFor        time.Duration // how long it is open before probes may start; 0: a minute
	Probes         int           // how many may be under way while half-open, and have to succeed to close it; 0: 1
	Override       Override      // "": Auto
}

// Override is the word of a person. The values are those of the API.
type Override string

const (
	// OverrideAuto leaves it to the results.
	OverrideAuto Override = "Auto"
	// OverrideOpen lets nothing start. When it is over, probes come first.
	OverrideOpen Override = "Open"
	// OverrideClosed lets everything start. When it is over, counting begins afresh.
	OverrideClosed Override = "Closed"
)

// BreakerState is what a breaker lets start.
type BreakerState string

const (
	// Closed: everything.
	Closed BreakerState = "Closed"
	// Open: nothing.
	Open BreakerState = "Open"
	// HalfOpen: a few probes.
	HalfOpen BreakerState = "HalfOpen"
)

// Cause is what opened a breaker.
type Cause string

const (
	// CauseFailurePercent: too many of the results were failures.
	CauseFailurePercent Cause = "FailurePercent"
	// CauseSameFailures: too many failures were of one fingerprint.
	CauseSameFailures Cause = "SameFailures"
	// CauseProbeFailed: a probe failed.
	CauseProbeFailed Cause = "ProbeFailed"
	// CauseOverride: a person did.
	CauseOverride Cause = "Override"
)

// BreakerRecord is what has to be kept of a breaker so that another can go on. The zero value is a closed one that was never open.
// It is comparable: while it is equal, there is nothing to write.
type BreakerRecord struct {
	State       BreakerState // "": Closed
	Since       time.Time    // when the state began
	Cause       Cause        // what opened it last; "" while it is closed
	Fingerprint string       // of the failure that opened it: of the flood, or of the probe
	Successes   int          // of probes, while it is half-open
}

// Outcome is how an attempt ended, as far as it says something about what the tasks depend on.
type Outcome string

const (
	// Succeeded speaks for closing.
	Succeeded Outcome = "Succeeded"
	// Failed speaks for opening.
	Failed Outcome = "Failed"
	// Neither says nothing: cancelled, suspended, superseded.
	Neither Outcome = "Neither"
)

// Result is what became of one attempt.
type Result struct {
	ID          string // of the task
	Outcome     Outcome
	Fingerprint string    // of the failure
	Started     time.Time // when the attempt was dispatched
}
