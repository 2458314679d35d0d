package fencing_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

var ordered = fencing.Stop{Reason: fencing.ReasonCancelled, Message: `"ünwanted" <b>`, GraceSeconds: 7, Time: start}

func TestStopPatchBytes(t *testing.T) {
	claimed := read(after(t, grant("a", 1), fencing.ClaimPatch("a", mine, start)))
	const want = `[{"op":"test","path":"/spec/holderIdentity","value":"a"},` +
		`{"op":"test","path":"/metadata/annotations/leasehold.io~1claim","value":"n1/node/uid-a"},` +
		`{"op":"test","path":"/metadata/annotations/leasehold.io~1submission","value":null},` +
		`{"op":"test","path":"/metadata/annotations/leasehold.io~1stop","value":null},` +
		`{"op":"add","path":"/metadata/annotations/leasehold.io~1stop","value":"{\"reason\":\"Suspended\",\"time\":\"2026-01-01T00:00:00.123456Z\"}"}]`
	if diff := cmp.Diff(want, string(fencing.StopPatch(claimed, fencing.Stop{Reason: fencing.ReasonSuspended, Time: start}))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestAStopChangesNothingButItself: neither the state of the term nor what its expiry is judged by; it is read back as written,
// by both ends, and the next grant clears it.
func TestAStopChangesNothingButItself(t *testing.T) {
	claimed := after(t, grant("a", 1), fencing.ClaimPatch("a", mine, start))
	stopped, code, body := agenttest.ApplyOperator(claimed, fencing.StopPatch(read(claimed), ordered))
	if code != 200 {
		t.Fatalf("%d: %s", code, body)
	}
	was, is := read(claimed), read(stopped)
	if was.State() != is.State() || was.Mark() != is.Mark() {
		t.Errorf("state %s, then %s; mark %s, then %s", was.State(), is.State(), was.Mark(), is.Mark())
	}
	for who, got := range map[string]*fencing.Stop{"controller": is.Stop, "agent": fencing.StopIn([]byte(body))} {
		if got == nil || got.Reason != ordered.Reason || got.Message != ordered.Message || got.GraceSeconds != 7 || !got.Time.Equal(start.Truncate(time.Microsecond)) {
			t.Errorf("the %s reads %+v", who, got)
		}
	}
	if next := read(grant("b", 2)); next.Stop != nil {
		t.Errorf("the next term bears %+v", next.Stop)
	}
}

// TestWhoComesSecondIsRefused: a stop and whatever ends or moves the term, in both orders.
func TestWhoComesSecondIsRefused(t *testing.T) {
	granted := grant("a", 1)
	claimed := after(t, granted, fencing.ClaimPatch("a", mine, start))
	stop := fencing.StopPatch(read(claimed), ordered)
	apply := func(doc, patch []byte) int { _, code, _ := agenttest.ApplyOperator(doc, patch); return code }
	first := map[string][]byte{
		"submitted":        after(t, claimed, fencing.SubmitPatch("a", mine, submission(t, "r"))),
		"revoked":          after(t, claimed, fencing.RevokePatch(read(claimed), false)),
		"not claimed":      granted,
		"another's claim":  after(t, granted, fencing.ClaimPatch("a", other, start)),
		"granted again":    grant("b", 2),
		"stopped by other": after(t, claimed, fencing.StopPatch(read(claimed), fencing.Stop{Reason: "Other"})),
	}
	for what, doc := range first {
		if code := apply(doc, stop); code != 422 {
			t.Errorf("%s, then stop: %d", what, code)
		}
	}
	stopped := after(t, claimed, stop)
	second := map[string][]byte{
		"renew":         fencing.RenewPatch("a", mine, start.Add(time.Hour)),
		"submit":        fencing.SubmitPatch("a", mine, submission(t, "r")),
		"revoke":        fencing.RevokePatch(read(claimed), false),
		"expire":        fencing.RevokePatch(read(claimed), true),
		"stop as found": fencing.StopPatch(read(stopped), fencing.Stop{Reason: "Sooner", GraceSeconds: 1}),
	}
	for what, patch := range second {
		if code := apply(stopped, patch); code != 200 {
			t.Errorf("stop, then %s: %d", what, code)
		}
	}
}

// TestAnyStopIsAStop: whoever wrote it, and however.
func TestAnyStopIsAStop(t *testing.T) {
	tests := map[string]struct {
		stored          string
		reason, message string
		grace           time.Duration // of 30 s
	}{
		"ours":                {ordered.String(), "Cancelled", ordered.Message, 7 * time.Second},
		"of a later version":  {`{"reason":"Drained","graceSeconds":5,"new":{}}`, "Drained", "", 5 * time.Second},
		"no JSON":             {"now!", "Stopped", "", 30 * time.Second},
		"no reason":           {`{"graceSeconds":5}`, "Stopped", "", 5 * time.Second},
		"of other types":      {`{"reason":7}`, "Stopped", "", 30 * time.Second},
		"a negative grace":    {`{"reason":"A","graceSeconds":-5}`, "A", "", 30 * time.Second},
		"a grace beyond ours": {`{"reason":"A","graceSeconds":31}`, "A", "", 30 * time.Second},
		"far too large":       {`{"reason":"A","message":"` + strings.Repeat("x", 9000) + `"}`, "Stopped", "", 30 * time.Second},
		"a long reason":       {`{"reason":"` + strings.Repeat("A", 100) + `"}`, strings.Repeat("A", 61) + "...", "", 30 * time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := fencing.ParseStop(tc.stored)
			if got.Reason != tc.reason || got.Message != tc.message || got.Grace(30*time.Second) != tc.grace || got.String() != tc.stored {
				t.Errorf("got %+v, grace %s", got, got.Grace(30*time.Second))
			}
			lease := fmt.Appendf(nil, `{"metadata":{"annotations":{"leasehold.io/stop":%q}}}`, tc.stored)
			if in := fencing.StopIn(lease); in == nil || in.Reason != tc.reason {
				t.Errorf("in a Lease: %+v", in)
			}
		})
	}
}

func TestNoStop(t *testing.T) {
	for name, lease := range map[string]string{
		"another annotation": `{"metadata":{"annotations":{"a":"b"}}}`,
		"no annotations":     `{"metadata":{}}`,
		"an empty one":       `{"metadata":{"annotations":{"leasehold.io/stop":""}}}`,
		"cut short":          `{"metadata":{"annotations":{"leasehold.io/stop":"{}"`,
		"nothing":            "",
		"something else":     "<html>",
	} {
		if got := fencing.StopIn([]byte(lease)); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestPatienceOutlastsAnAgentThatHeeds: by the pull alone, and whatever the duration.
func TestPatienceOutlastsAnAgentThatHeeds(t *testing.T) {
	for seconds := 10; seconds <= 3600; seconds++ {
		timing := fencing.TimingFor(time.Duration(seconds) * time.Second)
		for _, grace := range []time.Duration{time.Second, 30 * time.Second, time.Hour} {
			if heeds := timing.Renew + grace + 5*time.Second; timing.StopPatience(grace) <= heeds {
				t.Fatalf("D = %d s, grace %s: revoked after %s, and the agent may take %s", seconds, grace, timing.StopPatience(grace), heeds)
			}
		}
	}
}
