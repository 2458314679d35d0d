package holder

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

// TestNoRenewTimeComesTwice: as it is stored, whatever the wall clock does.
func TestNoRenewTimeComesTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stamps Stamps
		wall, last := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), ""
		for range 20 {
			wall = wall.Add(time.Duration(rapid.SampledFrom([]int64{0, 1, 999, 1000, -1, -1000, -3600e9, 2500e6}).Draw(t, "step")))
			got := stamps.Next(wall)
			if stored := got.UTC().Format(fencing.TimeFormat); stored <= last {
				t.Fatalf("%s after %s", stored, last)
			} else {
				last = stored
			}
		}
	})
}
