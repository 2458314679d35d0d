package fencing

import (
	"strconv"
	"testing"
	"time"
)

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// TestInequalities checks both promises for every duration that the API lets through.
func TestInequalities(t *testing.T) {
	for d := MinDuration; d <= MaxDuration; d += time.Second {
		timing := TimingFor(d)
		if timing.Duration != d {
			t.Fatalf("TimingFor(%s) has duration %s", d, timing.Duration)
		}
		if !timing.IsSafe() {
			t.Errorf("%s: not safe: %+v", d, timing)
		}
		if !timing.IsAlive() {
			t.Errorf("%s: not alive: %+v", d, timing)
		}
		if timing.KillAfter() < time.Second/2 {
			t.Errorf("%s: SIGTERM gives only %s before SIGKILL", d, timing.KillAfter())
		}
		// The same in numbers of its own: the worst controller clock runs r fast, and counts from the very start of the request.
		if judged := d * (100 - DriftPercent) / 100; timing.Trust()+timing.KillBudget > judged {
			t.Errorf("%s: the tree is dead after %s, the controller may judge after %s", d, timing.Trust()+timing.KillBudget, judged)
		}
	}
}

func TestInequalitiesCanFail(t *testing.T) {
	timing := TimingFor(30 * time.Second)
	timing.KillBudget++
	if timing.IsSafe() {
		t.Error("a longer kill budget is still called safe")
	}
	timing = TimingFor(30 * time.Second)
	timing.RequestTimeout += time.Millisecond
	if timing.IsAlive() {
		t.Error("a longer request timeout is still called alive")
	}
}

func TestTimingForClamps(t *testing.T) {
	tests := map[string]struct{ in, want time.Duration }{
		"absent":    {0, MinDuration},
		"negative":  {-time.Hour, MinDuration},
		"too short": {9 * time.Second, MinDuration},
		"too long":  {2 * time.Hour, MaxDuration},
		"default":   {30 * time.Second, 30 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := TimingFor(tc.in).Duration; got != tc.want {
				t.Errorf("TimingFor(%s).Duration = %s, want %s", tc.in, got, tc.want)
			}
		})
	}
}

func TestDocumentedIntervals(t *testing.T) {
	want := Timing{Duration: 30 * time.Second, Renew: 7500 * time.Millisecond, Margin: 7500 * time.Millisecond,
		RequestTimeout: 5 * time.Second, KillBudget: 4500 * time.Millisecond, KillReserve: 500 * time.Millisecond}
	got := TimingFor(30 * time.Second)
	if got != want {
		t.Errorf("TimingFor(30s) = %+v, want %+v", got, want)
	}
	if got.KillAfter() != 4*time.Second || got.Trust() != 22500*time.Millisecond {
		t.Errorf("KillAfter %s, Trust %s", got.KillAfter(), got.Trust())
	}
}
