package holder

import "time"

// Stamps makes the renewTimes of one process, for its claim and its renewals. Each is later than the last, also if the wall clock
// stands still or was set back: a renewal that changed nothing would be accepted and make no new version of the Lease, so that the
// holder went on trusting a term that nobody saw renewed.
type Stamps struct{ last time.Time }

// Next is the renewTime of a request that is made at the given time.
func (s *Stamps) Next(wall time.Time) time.Time {
	wall = wall.Truncate(time.Microsecond) // what a Lease keeps of it
	if !wall.After(s.last) {
		wall = s.last.Add(time.Microsecond)
	}
	s.last = wall
	return wall
}
