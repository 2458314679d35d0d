package fencing_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 123456789, time.UTC)
	mine  = fencing.Claim{Nonce: "n1", Node: "node", PodUID: "uid-a"}
	other = fencing.Claim{Nonce: "n2", Node: "node", PodUID: "uid-a"}
)

// grant makes a Lease document as the controller writes it.
func grant(holder string, attempt int32) []byte {
	lease := mailbox.Grant{Holder: holder, Attempt: attempt, Duration: 30 * time.Second, Time: start}.
		Lease("default", "task", metav1.OwnerReference{UID: "task-uid"})
	raw, err := json.Marshal(lease)
	if err != nil {
		panic(err)
	}
	return raw
}

func read(doc []byte) *fencing.Term {
	var lease coordinationv1.Lease
	if err := json.Unmarshal(doc, &lease); err != nil {
		panic(err)
	}
	return mailbox.Read(&lease)
}

// after applies patches that must all be accepted.
func after(t *testing.T, doc []byte, patches ...[]byte) []byte {
	t.Helper()
	for _, patch := range patches {
		next, code, body := agenttest.Apply(doc, patch)
		if code != 200 {
			t.Fatalf("%s: %d %s", patch, code, body)
		}
		doc = next
	}
	return doc
}

func submission(t *testing.T, result string) []byte {
	t.Helper()
	raw, err := fencing.Submission{Token: 7, Outcome: fencing.Succeeded, Result: &result}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestClaimPatchBytes(t *testing.T) {
	const want = `[{"op":"test","path":"/spec/holderIdentity","value":"a"},` +
		`{"op":"test","path":"/metadata/annotations/leasehold.io~1claim","value":null},` +
		`{"op":"add","path":"/metadata/annotations/leasehold.io~1claim","value":"n1/node/uid-a"},` +
		`{"op":"add","path":"/spec/renewTime","value":"2026-01-01T00:00:00.123456Z"}]`
	if diff := cmp.Diff(want, string(fencing.ClaimPatch("a", mine, start))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestEveryPatchNamesItsTerm puts every patch of a's term to every state that the Lease can be in.
func TestEveryPatchNamesItsTerm(t *testing.T) {
	granted := grant("a", 1)
	claimed := after(t, granted, fencing.ClaimPatch("a", mine, start))
	renewed := after(t, claimed, fencing.RenewPatch("a", mine, start.Add(time.Second)))
	submitted := after(t, renewed, fencing.SubmitPatch("a", mine, submission(t, "r")))
	revoked := after(t, claimed, fencing.RevokePatch(read(claimed), false))
	unclaimed := after(t, granted, fencing.RevokePatch(read(granted), false))
	foreign := after(t, granted, fencing.ClaimPatch("a", other, start))
	next := grant("b", 2)
	states := map[string][]byte{"granted": granted, "claimed": claimed, "renewed": renewed, "submitted": submitted,
		"revoked": revoked, "unclaimed": unclaimed, "foreign": foreign, "next": next}

	tests := map[string]struct {
		patch []byte
		want  map[string]int // every other state: 422, a failed test
	}{
		"claim":                {fencing.ClaimPatch("a", mine, start), map[string]int{"granted": 200}},
		"renew":                {fencing.RenewPatch("a", mine, start.Add(time.Hour)), map[string]int{"claimed": 200, "renewed": 200, "submitted": 403}},
		"submit":               {fencing.SubmitPatch("a", mine, submission(t, "r")), map[string]int{"claimed": 200, "renewed": 200, "submitted": 200}},
		"submit another":       {fencing.SubmitPatch("a", mine, submission(t, "s")), map[string]int{"claimed": 200, "renewed": 200, "submitted": 403}},
		"revoke as granted":    {fencing.RevokePatch(read(granted), false), map[string]int{"granted": 200}},
		"revoke as claimed":    {fencing.RevokePatch(read(claimed), false), map[string]int{"claimed": 200, "renewed": 200}},
		"revoke as expired":    {fencing.RevokePatch(read(claimed), true), map[string]int{"claimed": 200}},
		"revoke unclaimed":     {fencing.RevokePatch(read(granted), true), map[string]int{"granted": 200}},
		"revoke as foreign":    {fencing.RevokePatch(read(foreign), false), map[string]int{"foreign": 200}},
		"renew with a foreign": {fencing.RenewPatch("a", other, start.Add(time.Hour)), map[string]int{"foreign": 200}},
	}
	for name, tc := range tests {
		for state, doc := range states {
			t.Run(name+" on "+state, func(t *testing.T) {
				want := 422
				if code, ok := tc.want[state]; ok {
					want = code
				}
				apply := agenttest.Apply
				if strings.HasPrefix(name, "revoke") {
					apply = agenttest.ApplyOperator
				}
				if _, code, body := apply(doc, tc.patch); code != want {
					t.Errorf("answered %d, want %d: %s", code, want, body)
				}
			})
		}
	}
}

func TestAnIdenticalSubmissionChangesNothing(t *testing.T) {
	claimed := after(t, grant("a", 1), fencing.ClaimPatch("a", mine, start))
	patch := fencing.SubmitPatch("a", mine, submission(t, `<"ü">`))
	once := after(t, claimed, patch)
	if diff := cmp.Diff(string(once), string(after(t, once, patch))); diff != "" {
		t.Errorf("-once +twice:\n%s", diff)
	}
	if got := read(once).Submission; got == nil || got.Result == nil || *got.Result != `<"ü">` {
		t.Errorf("read back %+v", got)
	}
}

// TestARenewalThatWasUndoneForbidsExpiry: a renewal that arrives twice puts back the renewTime that the controller had seen.
func TestARenewalThatWasUndoneForbidsExpiry(t *testing.T) {
	version := func(doc []byte, to string) []byte {
		return after(t, doc, []byte(`[{"op":"add","path":"/metadata/resourceVersion","value":"`+to+`"}]`))
	}
	seen := version(after(t, grant("a", 1), fencing.ClaimPatch("a", mine, start)), "5")
	expiry := fencing.RevokePatch(read(seen), true)
	later := version(after(t, seen, fencing.RenewPatch("a", mine, start.Add(time.Hour))), "6")
	undone := version(after(t, later, fencing.RenewPatch("a", mine, start)), "7")
	for name, tc := range map[string]struct {
		doc  []byte
		want int
	}{"unchanged": {seen, 200}, "renewed": {later, 422}, "renewed, and undone": {undone, 422}} {
		if _, code, _ := agenttest.ApplyOperator(tc.doc, expiry); code != tc.want {
			t.Errorf("%s: answered %d, want %d", name, code, tc.want)
		}
	}
	if got := read(after(t, seen, expiry)).Ended; got != "5" {
		t.Errorf("the Lease says that version %q was ended, want 5", got)
	}
	if got := read(after(t, seen, fencing.RevokePatch(read(seen), false))).Ended; got != "" {
		t.Errorf("a revoke that tests no version says that it ended %q", got)
	}
}

// TestRevokeNamesAClaimAsItStands: a child may have written a claim that no parser knows; it can be revoked all the same.
func TestRevokeNamesAClaimAsItStands(t *testing.T) {
	patch := []byte(`[{"op":"add","path":"/metadata/annotations/leasehold.io~1claim","value":"of/another/form/uid"}]`)
	doc := after(t, grant("a", 1), patch)
	term := read(after(t, doc, fencing.RevokePatch(read(doc), true)))
	if term.State() != fencing.Revoked || term.Claim.String() != "of/another/form/uid" {
		t.Errorf("state %s, claim %s", term.State(), term.Claim)
	}
}
