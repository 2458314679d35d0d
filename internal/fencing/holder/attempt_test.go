package holder

import (
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

func running(stopGrace time.Duration) *Attempt {
	held := NewTrust(fencing.TimingFor(10*time.Second), Fence)
	held.Succeed(second(100), 0)
	a := NewAttempt(held, stopGrace)
	a.Started(nil)
	return a
}

// kills is when SIGKILL is due, and when a tree is given up; 0: never.
type kills struct{ Kill, Dead float64 }

func killsOf(a *Attempt) kills {
	in := func(b Boot) float64 {
		if b == Never {
			return 0
		}
		return time.Duration(b).Seconds()
	}
	return kills{in(a.killAt), in(a.deadAt)}
}

func TestWhenTheTreeIsKilled(t *testing.T) {
	tests := map[string]struct {
		grace time.Duration
		do    func(*Attempt)
		want  kills
	}{
		"it runs":             {30 * time.Second, func(*Attempt) {}, kills{}},
		"trust holds":         {30 * time.Second, func(a *Attempt) { a.Check(second(107.4)) }, kills{}},
		"trust ended":         {30 * time.Second, func(a *Attempt) { a.Check(second(107.5)) }, kills{108.5, 109}},
		"noticed late":        {30 * time.Second, func(a *Attempt) { a.Check(second(108.4)) }, kills{108.5, 109}},
		"noticed too late":    {30 * time.Second, func(a *Attempt) { a.Check(second(500)) }, kills{108.5, 501.5}},
		"revoked":             {30 * time.Second, func(a *Attempt) { a.fence(second(103), second(103), WhyRefused) }, kills{104, 104.5}},
		"revoked, then ended": {30 * time.Second, func(a *Attempt) { a.fence(second(103), second(103), WhyRefused); a.Check(second(108)) }, kills{104, 104.5}},
		"told to stop":        {30 * time.Second, func(a *Attempt) { a.Stop(second(101)) }, kills{131, 132.5}},
		"told twice":          {30 * time.Second, func(a *Attempt) { a.Stop(second(101)); a.Stop(second(110)) }, kills{131, 132.5}},
		"no grace at all":     {0, func(a *Attempt) { a.Stop(second(101)) }, kills{102, 103.5}},
		"stop, then fence":    {30 * time.Second, func(a *Attempt) { a.Stop(second(101)); a.Check(second(107.5)) }, kills{108.5, 109}},
		"fence, then stop":    {30 * time.Second, func(a *Attempt) { a.Check(second(107.5)); a.Stop(second(107.6)) }, kills{108.5, 109}},
		"the command ended":   {30 * time.Second, func(a *Attempt) { a.End(second(105), Exit{}) }, kills{105, 106.5}},
		"it died of a signal": {30 * time.Second, func(a *Attempt) { a.End(second(105), Exit{Signal: syscall.SIGSEGV}) }, kills{105, 106.5}},
		"a wrapper died of TERM": {30 * time.Second, func(a *Attempt) {
			a.Stop(second(101))
			a.Check(second(102.7)) // long enough for the Lease to say why
			a.StopDue()
			a.End(second(102.8), Exit{Signal: syscall.SIGTERM})
		}, kills{131, 132.5}},
		"it died of a signal before it was told": {30 * time.Second, func(a *Attempt) {
			a.Stop(second(101))
			a.End(second(101.1), Exit{Signal: syscall.SIGTERM})
		}, kills{101.1, 102.6}},
		"its time is over":        {30 * time.Second, func(a *Attempt) { a.LimitTo(5 * time.Second); a.Check(second(105)) }, kills{135, 136.5}},
		"its time is not over":    {30 * time.Second, func(a *Attempt) { a.LimitTo(5 * time.Second); a.Check(second(104.9)) }, kills{}},
		"told to stop, then late": {30 * time.Second, func(a *Attempt) { a.LimitTo(5 * time.Second); a.Stop(second(101)); a.Check(second(105)) }, kills{131, 132.5}},
		"late, then trust ends":   {30 * time.Second, func(a *Attempt) { a.LimitTo(5 * time.Second); a.Check(second(105)); a.Check(second(107.5)) }, kills{108.5, 109}},
		"it ended, then late":     {30 * time.Second, func(a *Attempt) { a.LimitTo(5 * time.Second); a.End(second(104), Exit{}); a.Check(second(105)) }, kills{104, 105.5}},
		"stopped, and it exited":  {30 * time.Second, func(a *Attempt) { a.Stop(second(101)); a.End(second(102), Exit{}) }, kills{102, 103.5}},
		"a wrapper died of the fence": {30 * time.Second, func(a *Attempt) {
			a.Check(second(107.5))
			a.End(second(107.6), Exit{Signal: syscall.SIGTERM})
		}, kills{108.5, 109}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := running(tc.grace)
			tc.do(a)
			if diff := cmp.Diff(tc.want, killsOf(a)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAnEndBeforeTheFenceCounts(t *testing.T) {
	a := running(0)
	a.End(second(105), Exit{})
	a.Check(second(108))
	if a.afterFence {
		t.Error("the command had ended while the term was held")
	}
	b := running(0)
	b.Check(second(108))
	b.End(second(108), Exit{})
	if !b.afterFence {
		t.Error("the command ended after the term was lost")
	}
}

func TestRoundsOfKilling(t *testing.T) {
	a := running(0)
	a.End(second(105), Exit{})
	for _, step := range []struct {
		at   float64
		want bool
	}{{104.9, false}, {105, true}, {105.01, false}, {105.05, true}, {105.06, false}} {
		if got := a.KillDue(second(step.at)); got != step.want {
			t.Errorf("at %v: %t, want %t", step.at, got, step.want)
		}
	}
}

func TestTermIsSentOnce(t *testing.T) {
	a := running(0)
	if a.TermDue() {
		t.Error("without a fence")
	}
	a.Check(second(108))
	if !a.TermDue() || a.TermDue() {
		t.Error("want it once")
	}
}

// TestADeniedRenewalIsNoRefusal: trust goes on to its end; where it has none, a 403 is believed after one duration without a break.
func TestADeniedRenewalIsNoRefusal(t *testing.T) {
	a := running(0)
	if a.Hear(fencing.Refused, true, second(102), second(102), 0); a.Fenced() != "" || a.Trust.Ends() != second(107.5) {
		t.Errorf("fenced %q, trust ends %d", a.Fenced(), a.Trust.Ends())
	}
	b := NewAttempt(NewTrust(fencing.TimingFor(10*time.Second), Continue), 0)
	b.Started(nil)
	b.Hear(fencing.Refused, true, second(102), second(102), 0)
	b.Hear(fencing.Unavailable, false, second(104), second(104), 0)
	if b.Hear(fencing.Refused, true, second(113), second(113), 0); b.Fenced() != "" {
		t.Error("there was another answer in between")
	}
	b.Hear(fencing.Refused, true, second(122), second(122), 0)
	if b.Hear(fencing.Refused, true, second(123), second(123), 0); b.Fenced() != WhyRefused {
		t.Errorf("fenced %q", b.Fenced())
	}
}

func TestARefusalHeardLateLeavesNoMoreTime(t *testing.T) {
	a := running(0)
	a.Hear(fencing.Refused, false, second(107), second(108), 0)
	if diff := cmp.Diff(kills{108.5, 109}, killsOf(a)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestADeniedSubmissionIsBelievedAfterOneDuration(t *testing.T) {
	a := running(0)
	if !a.IsFinal(fencing.Refused, false, second(105)) || a.IsFinal(fencing.Unavailable, false, second(105)) {
		t.Error("somebody else's write is final, no answer is not")
	}
	for at, want := range map[float64]bool{110: false, 119.9: false, 120: true} {
		b := running(0)
		b.IsFinal(fencing.Refused, true, second(110))
		if got := b.IsFinal(fencing.Refused, true, second(at)); got != want {
			t.Errorf("a 403 at %v, the first at 110: final %t, want %t", at, got, want)
		}
	}
	c := running(0)
	c.IsFinal(fencing.Refused, true, second(110))
	c.IsFinal(fencing.Unavailable, false, second(115))
	if c.IsFinal(fencing.Refused, true, second(121)) {
		t.Error("there was another answer in between")
	}
}

func TestADeadlineIsToldOnce(t *testing.T) {
	a := running(30 * time.Second)
	a.LimitTo(5 * time.Second)
	if wake := a.Wake(true); wake != second(105) {
		t.Errorf("sleeps until %d", wake)
	}
	if a.Check(second(104)); a.StopDue() || a.IsOverdue() {
		t.Error("before its time")
	}
	if a.Check(second(105)); !a.StopDue() || a.StopDue() || !a.IsOverdue() {
		t.Error("want it once")
	}
	if a.Wake(true) == second(105) {
		t.Error("wakes for a deadline that has passed")
	}
}

func TestADeadlineBeforeTheStartLeavesNothingToStart(t *testing.T) {
	held := NewTrust(fencing.TimingFor(10*time.Second), Fence)
	held.Succeed(second(100), 0)
	a := NewAttempt(held, time.Second)
	a.LimitTo(time.Second)
	if a.Check(second(101)); a.MayStart(second(101)) || !a.HasNoTree() || a.StopDue() {
		t.Error("nothing runs, nothing may be started, nobody is owed a signal")
	}
}

// TestNothingIsSleptThrough: whatever has happened, the loop wakes no later than the next thing that has to be done.
func TestNothingIsSleptThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := running(time.Duration(rapid.Int64Range(0, 60).Draw(t, "grace")) * time.Second)
		now := second(100)
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(4*time.Second)).Draw(t, "pause")))
			a.Check(now)
			a.KillDue(now)
			switch rapid.IntRange(0, 6).Draw(t, "event") {
			case 0:
				a.Stop(now)
			case 1:
				a.Hear(fencing.Accepted, false, now, now, 0.5)
			case 2:
				a.Hear(rapid.SampledFrom([]fencing.Answer{fencing.Unavailable, fencing.Invalid}).Draw(t, "answer"), false, now, now, 0.5)
			case 3:
				a.Hear(fencing.Refused, false, now, now, 0.5)
			case 4:
				if a.exit == nil {
					a.End(now, Exit{})
				}
			case 5:
				a.Order(fencing.Stop{Reason: "Why", GraceSeconds: rapid.Int32Range(0, 60).Draw(t, "seconds")}, now)
			}
			a.Check(now)
			if a.StopDue(); a.StopDue() {
				t.Fatal("told twice")
			}
			wake := a.Wake(rapid.Bool().Draw(t, "renewing"))
			if wake > a.killAt || wake > a.deadAt || (a.fenced == "" && wake > a.Trust.Ends()) {
				t.Fatalf("sleeps until %d; kill %d, dead %d, trust ends %d", wake, a.killAt, a.deadAt, a.Trust.Ends())
			}
			if a.fenced == "" && a.exit == nil && a.isStopping() && !a.stop.told && (a.killAt == Never || wake > a.stop.askUntil) {
				t.Fatalf("the command is to stop, and sleeps until %d untold; kill %d", wake, a.killAt)
			}
			if a.fenced == "" && a.Wake(false) > a.Trust.next {
				t.Fatal("sleeps beyond the next renewal")
			}
			if a.fenced != "" && a.exit == nil && a.killAt == Never {
				t.Fatal("fenced, and nobody will kill")
			}
		}
	})
}
