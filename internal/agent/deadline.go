package agent

import (
	"time"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// deadlineOf is the variable that tells the command when it will be told to stop, as far as that is known at its start: when the
// attempt's time is over, or the task's, if that comes first. It is always set, and empty if neither is bounded.
//
// The attempt's time is counted on the node's clock, from the claim. The task's is the operator's word and clock: the agent passes
// it on, and ends nothing for it.
func deadlineOf(s *holder.Attempt, boot holder.Boot, wall, ofTask time.Time) string {
	at := ofTask
	if end := s.Deadline(); end != holder.Never {
		if own := wall.Add(time.Duration(end - boot)); at.IsZero() || own.Before(at) {
			at = own
		}
	}
	if at.IsZero() {
		return env.Deadline + "="
	}
	return env.Deadline + "=" + at.UTC().Truncate(time.Second).Format(time.RFC3339)
}
