package postgres

import (
	"errors"

	"github.com/leasehold-io/leasehold/worker/outbox"
)

// tell logs when the sink begins to take nothing, and when it takes something again: two lines, however long that lasts and however many
// events wait for it. What is parked has a line of its own.
func (r *Relay) tell(round Round, lanes []lane) {
	reason := refusal(lanes)
	switch {
	case round.Delivered > 0 && r.refused:
		r.refused = false
		r.config.Log.Info("Sink takes events again")
	case round.Delivered == 0 && reason != nil && !r.refused:
		r.refused = true
		r.config.Log.Warn("Sink takes nothing, trying goes on", "error", storable(reason))
	}
}

// refusal is what the sink said of one of the events that it did not take.
func refusal(lanes []lane) error {
	for _, l := range lanes {
		if l.err != nil && !errors.Is(l.err, errRelayEnded) && outbox.Classify(l.err) != outbox.ClassRejected {
			return l.err
		}
	}
	return nil
}
