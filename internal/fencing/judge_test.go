package fencing

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var since = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const d = 30 * time.Second

func TestJudge(t *testing.T) {
	claim, submission := &Claim{Nonce: "n"}, &Submission{Outcome: Succeeded}
	tests := map[string]struct {
		term     Term
		age      time.Duration
		want     Verdict
		wantNext time.Duration
	}{
		"unclaimed, however old":         {Term{Holder: "p", Duration: d}, time.Hour, VerdictUnclaimed, 0},
		"held, just seen":                {Term{Holder: "p", Claim: claim, Duration: d}, 0, VerdictHeld, d},
		"held, one nanosecond left":      {Term{Holder: "p", Claim: claim, Duration: d}, d - 1, VerdictHeld, 1},
		"expired on the dot":             {Term{Holder: "p", Claim: claim, Duration: d}, d, VerdictExpired, 0},
		"held, observer's clock stepped": {Term{Holder: "p", Claim: claim, Duration: d}, -time.Second, VerdictHeld, d + time.Second},
		"duration edited to nothing":     {Term{Holder: "p", Claim: claim}, MinDuration - 1, VerdictHeld, 1},
		"submitted, however old":         {Term{Holder: "p", Claim: claim, Submission: submission, Duration: d}, time.Hour, VerdictSubmitted, 0},
		"submitted wins over revoked":    {Term{Claim: claim, Submission: submission, Duration: d}, time.Hour, VerdictSubmitted, 0},
		"revoked":                        {Term{Claim: claim, Duration: d}, time.Hour, VerdictRevoked, 0},
		"a renewTime from the future":    {Term{Holder: "p", Claim: claim, Duration: d, RenewTime: since.Add(time.Hour)}, d, VerdictExpired, 0},
		"a renewTime from long ago":      {Term{Holder: "p", Claim: claim, Duration: d, RenewTime: since.Add(-time.Hour)}, 0, VerdictHeld, d},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, next := Judge(&tc.term, since, since.Add(tc.age))
			if got != tc.want || next != tc.wantNext {
				t.Errorf("Judge() = %s, %s; want %s, %s", got, next, tc.want, tc.wantNext)
			}
		})
	}
}

func TestReleased(t *testing.T) {
	claim, submission := &Claim{Nonce: "n"}, &Submission{Outcome: Failed}
	tests := map[string]struct {
		term       Term
		terminated bool
		age        time.Duration
		want       Release
		wantNext   time.Duration
	}{
		"open and granted":                    {Term{Holder: "p", Duration: d}, false, time.Hour, NotReleased, 0},
		"open and claimed":                    {Term{Holder: "p", Claim: claim, Duration: d}, false, time.Hour, NotReleased, 0},
		"open, though its container has died": {Term{Holder: "p", Claim: claim, Duration: d}, true, time.Hour, NotReleased, 0},
		"submitted":                           {Term{Holder: "p", Claim: claim, Submission: submission, Duration: d}, false, 0, ReleasedSubmitted, 0},
		"revoked unclaimed":                   {Term{Duration: d}, false, 0, ReleasedUnclaimed, 0},
		"revoked, may still run":              {Term{Claim: claim, Duration: d}, false, 10 * time.Second, NotReleased, 20 * time.Second},
		"revoked, terminated":                 {Term{Claim: claim, Duration: d}, true, 0, ReleasedTerminated, 0},
		"revoked, one duration ago":           {Term{Claim: claim, Duration: d}, false, d, ReleasedElapsed, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, next := Released(&tc.term, tc.terminated, since, since.Add(tc.age))
			if got != tc.want || next != tc.wantNext {
				t.Errorf("Released() = %s, %s; want %s, %s", got, next, tc.want, tc.wantNext)
			}
		})
	}
}

// TestAWaitEndsWhenItSays: whoever looks again at the time that a verdict names finds another verdict.
func TestAWaitEndsWhenItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		term := Term{Claim: &Claim{Nonce: "n"}, Duration: time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "duration"))}
		now := since.Add(time.Duration(rapid.Int64Range(0, int64(2*time.Hour)).Draw(t, "age")))
		if release, next := Released(&term, false, since, now); release == NotReleased {
			if again, _ := Released(&term, false, since, now.Add(next)); again != ReleasedElapsed {
				t.Fatalf("after %s: %s", next, again)
			}
		}
		term.Holder = "p"
		if verdict, next := Judge(&term, since, now); verdict == VerdictHeld {
			if again, _ := Judge(&term, since, now.Add(next)); again != VerdictExpired {
				t.Fatalf("after %s: %s", next, again)
			}
		}
	})
}
