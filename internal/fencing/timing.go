package fencing

import "time"

const (
	// MinDuration is the shortest lease. Below it, one request timeout would be shorter than a slow API server's answer.
	MinDuration = 10 * time.Second
	// MaxDuration is the longest lease: a lost worker is not noticed for that long.
	MaxDuration = time.Hour
	// DriftPercent is the relative clock drift allowed for over one lease duration. A slewing time daemon can reach 8 %.
	DriftPercent = 10
	// MissedRenewals is k: so many renewals in a row may fail without harm.
	MissedRenewals = 2
	// killReserve is the same for every duration: it does not take longer where more time is allowed.
	killReserve = 500 * time.Millisecond
)

// Timing holds the intervals of one term; each is derived from the lease duration. See the package documentation.
type Timing struct {
	Duration       time.Duration // D: the term is judged expired after so long without an observed renewal
	Renew          time.Duration // p: pause between renewals
	Margin         time.Duration // m: the agent stops trusting its term so long before D
	RequestTimeout time.Duration // q: timeout of one request
	KillBudget     time.Duration // G: from the end of trust to the death of the process tree
	KillReserve    time.Duration // the last part of G, kept for the kernel and the reaper after SIGKILL
}

// TimingFor derives the intervals from the lease duration. Durations outside [MinDuration, MaxDuration] are clamped:
// the API refuses them, and a Lease edited by hand must not stop the arithmetic.
func TimingFor(d time.Duration) Timing {
	d = min(max(d, MinDuration), MaxDuration)
	return Timing{
		Duration:       d,
		Renew:          d / 4,
		Margin:         d / 4,
		RequestTimeout: d / 6,
		KillBudget:     d/4 - d*DriftPercent/100,
		KillReserve:    killReserve,
	}
}

// Trust is how long, from the start of a successful renewal, an agent may believe that its term stands.
func (t Timing) Trust() time.Duration { return t.Duration - t.Margin }

// KillAfter is the pause between SIGTERM and SIGKILL once trust has ended.
func (t Timing) KillAfter() time.Duration { return t.KillBudget - t.KillReserve }

// IsSafe reports whether m >= G + r*D: the tree is dead before the controller may judge.
func (t Timing) IsSafe() bool {
	return t.Margin >= t.KillBudget+t.Duration*DriftPercent/100
}

// IsAlive reports whether p + (k+1)*q + m <= D: MissedRenewals failures in a row are harmless.
func (t Timing) IsAlive() bool {
	return t.Renew+(MissedRenewals+1)*t.RequestTimeout+t.Margin <= t.Duration
}
