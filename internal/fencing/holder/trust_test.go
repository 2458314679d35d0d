package holder

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

func TestTrustIsCountedFromTheStartOfTheRequest(t *testing.T) {
	held := NewTrust(fencing.TimingFor(30*time.Second), Fence)
	held.Succeed(second(100), 0)
	tests := map[string]struct {
		now   float64
		ended bool
		fresh bool
	}{
		"at once":       {100, false, true},
		"one pause":     {107.5, false, true},
		"more than one": {107.6, false, false},
		"just before":   {122.4, false, false},
		"on the dot":    {122.5, true, false},
		"long after":    {1000, true, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := held.HasEnded(second(tc.now)); got != tc.ended {
				t.Errorf("hasEnded %t, want %t", got, tc.ended)
			}
			if got := held.IsFresh(second(tc.now)); got != tc.fresh {
				t.Errorf("isFresh %t, want %t", got, tc.fresh)
			}
		})
	}
}

func TestAnOldAnswerDoesNotShortenTrust(t *testing.T) {
	held := NewTrust(fencing.TimingFor(30*time.Second), Fence)
	held.Succeed(second(100), 0)
	held.Succeed(second(90), 0)
	if held.Ends() != second(122.5) {
		t.Errorf("ends %d", held.Ends())
	}
}

// TestMissedRenewalsAreHarmless: with every jitter, and every way to fail in up to q, the try after k failures still begins
// early enough to be answered before trust ends.
func TestMissedRenewalsAreHarmless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timing := fencing.TimingFor(time.Duration(rapid.Int64Range(10, 3600).Draw(t, "seconds")) * time.Second)
		jitter := func() float64 { return rapid.Float64Range(0, 0.999).Draw(t, "jitter") }
		held := NewTrust(timing, Fence)
		held.Succeed(0, jitter())
		for range fencing.MissedRenewals {
			begun := held.next
			took := time.Duration(rapid.Int64Range(0, int64(timing.RequestTimeout)).Draw(t, "took"))
			held.Fail(begun, jitter())
			held.next = max(held.next, begun.Add(took)) // the loop has one request under way
		}
		if answered := held.next.Add(timing.RequestTimeout); answered > held.Ends() {
			t.Fatalf("the last try may be answered %s after trust ended", answered.Sub(held.Ends()))
		}
	})
}

func TestPausesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timing := fencing.TimingFor(time.Duration(rapid.Int64Range(10, 3600).Draw(t, "seconds")) * time.Second)
		jitter := rapid.Float64Range(0, 0.999).Draw(t, "jitter")
		held := NewTrust(timing, Fence)
		held.Succeed(0, jitter)
		if pause := time.Duration(held.next); pause > timing.Renew || pause < timing.Renew*9/10-1 {
			t.Fatalf("%s after a success, p is %s", pause, timing.Renew)
		}
		held.Fail(0, jitter)
		if pause := time.Duration(held.next); pause > timing.RequestTimeout || pause < timing.RequestTimeout/2-1 {
			t.Fatalf("%s after a failure, q is %s", pause, timing.RequestTimeout)
		}
	})
}

// TestContinueOutlastsAnyOutage: no time ends trust, and nothing is slept through; a refusal still fences.
func TestContinueOutlastsAnyOutage(t *testing.T) {
	held := NewTrust(fencing.TimingFor(10*time.Second), Continue)
	held.Succeed(second(100), 0)
	a := NewAttempt(held, time.Second)
	a.Started(nil)
	for at := second(102.5); at < second(1000); at = a.Trust.Next() {
		a.Check(at)
		if a.Fenced() != "" || !a.RenewDue(at) {
			t.Fatalf("at %d: fenced %q, renewal due %t", at, a.Fenced(), a.RenewDue(at))
		}
		a.Hear(fencing.Unavailable, false, at, at, 0)
		if wake := a.Wake(false); wake != a.Trust.Next() || wake <= at {
			t.Fatalf("at %d: sleeps until %d, the next renewal is due at %d", at, wake, a.Trust.Next())
		}
	}
	a.Hear(fencing.Refused, false, second(1000), second(1000), 0)
	if a.LostWhileRunning() != WhyRefused {
		t.Errorf("fenced %q", a.Fenced())
	}
}
