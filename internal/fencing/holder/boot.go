package holder

import (
	"math"
	"time"
)

// Boot is a reading of CLOCK_BOOTTIME: the time since the machine was booted, suspended time included.
type Boot time.Duration

// Never is a time that does not come.
const Never = Boot(math.MaxInt64)

// Add is the reading d later.
func (b Boot) Add(d time.Duration) Boot {
	if b == Never {
		return Never
	}
	return b + Boot(d)
}

// Sub is the time from o to b.
func (b Boot) Sub(o Boot) time.Duration { return time.Duration(b - o) }
