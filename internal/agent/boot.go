package agent

import (
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// Clock tells the time.
type Clock interface {
	// Boot is what trust is counted on.
	Boot() holder.Boot
	// Wall is what people read in renewTime.
	Wall() time.Time
}

// Alarm wakes a loop at a time on the Boot clock. It may wake it early or twice; whoever is woken looks at the clock.
type Alarm interface {
	// Set replaces the time at which the alarm goes off. A time that has passed goes off at once.
	Set(at holder.Boot)
	// C receives when the alarm goes off.
	C() <-chan struct{}
}
