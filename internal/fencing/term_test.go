package fencing

import (
	"strings"
	"testing"
	"time"
)

func TestState(t *testing.T) {
	claim, submission := &Claim{Nonce: "n"}, &Submission{Outcome: Succeeded}
	tests := map[string]struct {
		term     Term
		want     State
		wantOpen bool
	}{
		"granted":                    {Term{Holder: "p"}, Granted, true},
		"claimed":                    {Term{Holder: "p", Claim: claim}, Claimed, true},
		"submitted":                  {Term{Holder: "p", Claim: claim, Submission: submission}, Submitted, false},
		"submitted, holder emptied":  {Term{Claim: claim, Submission: submission}, Submitted, false},
		"submitted without a claim":  {Term{Holder: "p", Submission: submission}, Submitted, false},
		"revoked unclaimed":          {Term{}, Revoked, false},
		"revoked while it was held":  {Term{Claim: claim}, Revoked, false},
		"claimed in a form not ours": {Term{Holder: "p", Claim: new(ParseClaim("x"))}, Claimed, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.term.State(); got != tc.want {
				t.Errorf("State() = %s, want %s", got, tc.want)
			}
			if got := tc.term.IsOpen(); got != tc.wantOpen {
				t.Errorf("IsOpen() = %t, want %t", got, tc.wantOpen)
			}
		})
	}
}

func TestMarkChangesWithEveryLifeSign(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	base := Term{UID: "u", Holder: "p", GrantTime: now, RenewTime: now}
	tests := map[string]struct {
		change      func(*Term)
		wantChanged bool
	}{
		"nothing":              {func(*Term) {}, false},
		"revoked":              {func(t *Term) { t.Holder = "" }, false},
		"another version":      {func(t *Term) { t.ResourceVersion = "2" }, false},
		"same time, elsewhere": {func(t *Term) { t.RenewTime = now.In(time.FixedZone("x", 3600)) }, false},
		"renewed":              {func(t *Term) { t.RenewTime = now.Add(time.Microsecond) }, true},
		"clock stepped back":   {func(t *Term) { t.RenewTime = now.Add(-time.Hour) }, true},
		"claimed":              {func(t *Term) { t.Claim = &Claim{Nonce: "n"} }, true},
		"granted again":        {func(t *Term) { t.GrantTime = now.Add(time.Second) }, true},
		"created again":        {func(t *Term) { t.UID = "v" }, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			changed := base
			tc.change(&changed)
			if got := changed.Mark() != base.Mark(); got != tc.wantChanged {
				t.Errorf("changed %t, want %t: %s", got, tc.wantChanged, changed.Mark())
			}
		})
	}
}

func TestParseClaim(t *testing.T) {
	tests := map[string]struct {
		stored            string
		nonce, node, podU string
	}{
		"ours":              {"n/node-1/uid", "n", "node-1", "uid"},
		"empty parts":       {"//uid", "", "", "uid"},
		"too few parts":     {"n/uid", "", "", ""},
		"too many parts":    {"n/a/b/uid", "", "", ""},
		"something else":    {"x", "", "", ""},
		"trailing and more": {"n/node-1/", "n", "node-1", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := ParseClaim(tc.stored)
			if got.Nonce != tc.nonce || got.Node != tc.node || got.PodUID != tc.podU {
				t.Errorf("ParseClaim(%q) = %+v", tc.stored, got)
			}
			if got.String() != tc.stored {
				t.Errorf("String() = %q, want what is stored: %q", got.String(), tc.stored)
			}
		})
	}
	if made := (Claim{Nonce: "n", Node: "node", PodUID: "uid"}); made.String() != "n/node/uid" || !strings.HasSuffix(made.String(), "/uid") {
		t.Errorf("String() = %q; the admission policy reads its last part", made.String())
	}
}
