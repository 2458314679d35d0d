package holder

import (
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

// beating is an attempt at D = 10 s that has claimed at 100 s, and whose command was started at 101 s and has to say that it works.
func beating() *Attempt {
	a := running(30 * time.Second)
	a.RequireHeartbeats()
	a.Beat(second(101))
	return a
}

// renewAt lets the term stand.
func renewAt(a *Attempt, at float64) {
	a.Hear(fencing.Accepted, false, second(at), second(at), 0)
}

func TestWhenSilenceEndsTheCommand(t *testing.T) {
	tests := map[string]struct {
		do     func(*Attempt)
		at     float64
		missed bool
	}{
		"its start counts":                       {func(*Attempt) {}, 108.4, false},
		"silent since its start":                 {func(*Attempt) {}, 108.5, true},
		"heard":                                  {func(a *Attempt) { a.Beat(second(105)) }, 112.4, false},
		"heard, and silent since":                {func(a *Attempt) { a.Beat(second(105)) }, 112.5, true},
		"heard out of order":                     {func(a *Attempt) { a.Beat(second(105)); a.Beat(second(102)) }, 112.4, false},
		"it does not have to":                    {func(a *Attempt) { a.heart.required = false }, 1000, false},
		"told to stop: it has its grace":         {func(a *Attempt) { a.Stop(second(102)) }, 109, false},
		"stopped by its Lease: the same":         {func(a *Attempt) { a.Order(suspend, second(102)) }, 109, false},
		"its time is over: the same":             {func(a *Attempt) { a.LimitTo(5 * time.Second); a.Check(second(106)) }, 109, false},
		"it has ended, and what it left has not": {func(a *Attempt) { a.End(second(102), Exit{Signal: syscall.SIGTERM}) }, 109, false},
		"fenced":                                 {func(a *Attempt) { a.fence(second(102), second(102), WhyRefused) }, 109, false},
		"it is not started":                      {func(a *Attempt) { a.started = false }, 109, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := beating()
			tc.do(a)
			if a.fenced == "" {
				renewAt(a, tc.at-0.1)
			}
			a.Check(second(tc.at))
			if a.IsHeartbeatMissed() != tc.missed {
				t.Fatalf("missed: %t, want %t", a.IsHeartbeatMissed(), tc.missed)
			}
		})
	}
}

func TestWhatFollowsSilence(t *testing.T) {
	a := beating()
	renewAt(a, 108)
	a.Check(second(108.5))
	if !a.StopDue() || a.StopDue() || a.TermDue() {
		t.Error("the command is told once, and nothing else of the tree")
	}
	if reason, _ := a.Why(); reason != fencing.ReasonHeartbeatMissed {
		t.Errorf("told because of %s", reason)
	}
	if got := killsOf(a); got != (kills{109.5, 111}) {
		t.Errorf("killed at %+v: hung work has ended within D of the last word", got)
	}
	if a.RenewDue(second(111)) {
		t.Error("a term whose command is silent is renewed")
	}
	a.Beat(second(108.6))
	if !a.IsHeartbeatMissed() {
		t.Error("a word that comes too late takes it back")
	}
	a.Order(suspend, second(108.7))
	a.Stop(second(108.8))
	if reason, _ := a.Why(); reason != fencing.ReasonHeartbeatMissed || a.killAt != second(109.5) || a.Wake(false) > second(109.5) {
		t.Errorf("a stop that follows changes it: %s, killed at %s, woken at %s", reason, time.Duration(a.killAt), time.Duration(a.Wake(false)))
	}
	if left := a.KillIn(second(108.5)); left != time.Second {
		t.Errorf("it has %s", left)
	}
}

// TestTrustEndsBeforeSilenceIsJudged: on a machine that stood still, nobody could have said anything.
func TestTrustEndsBeforeSilenceIsJudged(t *testing.T) {
	a := beating()
	a.Check(second(500))
	if a.IsHeartbeatMissed() || a.Fenced() == "" {
		t.Errorf("missed: %t, fenced: %q", a.IsHeartbeatMissed(), a.Fenced())
	}
}

// TestSilenceIsNeverForgivenAndNeverInvented walks random seconds of words, renewals and looks: a command is ended if and only if
// some look finds that it has been silent for three quarters of D, and whoever sleeps until Wake finds that at once.
func TestSilenceIsNeverForgivenAndNeverInvented(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := beating()
		limit := a.Trust.timing.Trust()
		now, last := second(101), second(101)
		for !a.IsHeartbeatMissed() && now < second(160) {
			switch next := now.Add(time.Duration(rapid.IntRange(1, 30).Draw(t, "tenths")) * 100 * time.Millisecond); {
			case rapid.Bool().Draw(t, "speaks"):
				now = min(next, a.Wake(false))
				a.Beat(now)
				last = now
			default:
				now = min(next, a.Wake(false))
			}
			a.Check(now)
			if silent := now.Sub(last) >= limit; silent != a.IsHeartbeatMissed() {
				t.Fatalf("silent for %s, missed: %t", now.Sub(last), a.IsHeartbeatMissed())
			}
			if a.IsHeartbeatMissed() && now.Sub(last) > limit {
				t.Fatalf("woken %s late", now.Sub(last)-limit)
			}
			if a.RenewDue(now) {
				a.Hear(fencing.Accepted, false, now, now, 0)
			}
		}
		if a.Fenced() != "" {
			t.Fatal("fenced while every renewal was accepted")
		}
	})
}
