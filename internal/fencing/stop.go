package fencing

import (
	"encoding/json"
	"time"
)

const (
	// maxStopBytes bounds a stop as it is read: far above what the controller writes.
	maxStopBytes = 8 << 10
	// stopReserve is what an agent has beyond its command's grace, to kill, to reap and to submit.
	stopReserve = 10 * time.Second
)

// Stop is the controller's word to the holder of a claimed term: end, for this reason, within this grace.
type Stop struct {
	// Reason is one word for programs; never empty on a stop that was read.
	Reason string `json:"reason"`
	// Message is for people, and for the worker: the words of whoever asked.
	Message string `json:"message,omitempty"`
	// GraceSeconds may shorten what the command gets from SIGTERM to SIGKILL; 0: it does not.
	GraceSeconds int32 `json:"graceSeconds,omitempty"`
	// Time is when it was decided, on the controller's clock. It is for people.
	Time time.Time `json:"time"`

	stored string // as read; a person may have written another form, and tests must name it exactly
}

// String is the form stored on the Lease.
func (s Stop) String() string {
	if s.stored != "" {
		return s.stored
	}
	s.Time = s.Time.UTC().Truncate(time.Microsecond)
	raw, err := json.Marshal(s)
	if err != nil {
		panic("a stop of strings cannot fail to encode: " + err.Error()) // programming error
	}
	return string(raw)
}

// ParseStop reads the stored form. It never fails: whatever stands there, its writer wants the holder to end.
func ParseStop(stored string) Stop {
	var s Stop
	if len(stored) > maxStopBytes || json.Unmarshal([]byte(stored), &s) != nil {
		s = Stop{}
	}
	if s.Reason == "" {
		s.Reason = ReasonStopped
	}
	s.Reason = Truncate(s.Reason, maxReasonBytes)
	s.Message = Truncate(s.Message, MaxMessageBytes)
	s.stored = stored
	return s
}

// StopIn finds the stop in a Lease, as the API server sends it with every accepted patch; nil: it bears none, or what was read
// is no Lease.
func StopIn(lease []byte) *Stop { return HeardIn(lease).Stop }

// Grace is what a command gets that has the given grace without the stop.
func (s *Stop) Grace(otherwise time.Duration) time.Duration {
	if s.GraceSeconds <= 0 {
		return otherwise
	}
	return min(otherwise, time.Duration(s.GraceSeconds)*time.Second)
}

// StopPatience is how long after a stop the controller waits for the submission of a holder that gives its command the grace.
func (t Timing) StopPatience(grace time.Duration) time.Duration { return t.Renew + grace + stopReserve }
