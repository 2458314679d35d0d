package agent

import (
	"math"
	"time"
)

// Boot is a reading of CLOCK_BOOTTIME: the time since the machine was booted, suspended time included.
type Boot time.Duration

// never is a time that does not come.
const never = Boot(math.MaxInt64)

// Add is the reading d later.
func (b Boot) Add(d time.Duration) Boot {
	if b == never {
		return never
	}
	return b + Boot(d)
}

// Sub is the time from o to b.
func (b Boot) Sub(o Boot) time.Duration { return time.Duration(b - o) }

// Clock tells the time.
type Clock interface {
	// Boot is what trust is counted on.
	Boot() Boot
	// Wall is what people read in renewTime.
	Wall() time.Time
}

// Alarm wakes a loop at a time on the Boot clock. It may wake it early or twice; whoever is woken looks at the clock.
type Alarm interface {
	// Set replaces the time at which the alarm goes off. A time that has passed goes off at once.
	Set(at Boot)
	// C receives when the alarm goes off.
	C() <-chan struct{}
}
