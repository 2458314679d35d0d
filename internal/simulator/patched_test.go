package simulator

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	coordinationv1 "k8s.io/api/coordination/v1"
	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// TestPatched holds the simulated API server's reading of a patch against a complete one, on Leases and patches that the
// protocol makes, in any order.
func TestPatched(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := agenttest.GrantedLease("lh", rapid.SampledFrom(holders).Draw(t, "granted to"), 10, 1)
		term := readLease(doc)
		for range rapid.IntRange(1, 12).Draw(t, "patches") {
			patch, isOperators := drawPatch(t, term)
			apply := agenttest.Apply
			if isOperators {
				apply = agenttest.ApplyOperator
			}
			next, code, body := apply(doc, patch)
			want := fencing.Classify(code, []byte(body))
			is, answer := answered(*term, patch, isOperators)
			if answer != want {
				t.Fatalf("%s of %+v\nby %s", answer, *term, patch)
			}
			if answer != fencing.Accepted {
				continue
			}
			doc, term = next, readLease(next)
			if diff := cmp.Diff(*term, is, cmpopts.EquateComparable(fencing.Claim{}), isSameStop); diff != "" {
				t.Fatalf("-complete +simulated:\n%s", diff)
			}
		}
	})
}

var isSameStop = cmp.Comparer(func(a, b fencing.Stop) bool { return a.String() == b.String() })

var holders = []string{"pod-1", "pod-2"}

func drawPatch(t *rapid.T, seen *fencing.Term) (patch []byte, isOperators bool) {
	holder := rapid.SampledFrom(holders).Draw(t, "holder")
	claim := fencing.Claim{Nonce: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "nonce"), Node: "node", PodUID: "uid-" + holder}
	at := time.Date(2026, 1, 1, 0, 0, 0, rapid.IntRange(0, 2).Draw(t, "microseconds")*1000, time.UTC)
	word := fencing.Submission{Token: 1, Outcome: fencing.Succeeded, Result: new(rapid.SampledFrom([]string{"one", "\"<é>"}).Draw(t, "result"))}
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 5:
		return fencing.StopPatch(seen, fencing.Stop{Reason: "Cancelled", GraceSeconds: rapid.Int32Range(1, 2).Draw(t, "grace"), Time: at}), true
	case 0:
		return fencing.ClaimPatch(holder, claim, at), false
	case 1:
		return fencing.RenewPatch(holder, claim, at), false
	case 2:
		return fencing.SubmitPatch(holder, claim, []byte(encoded(word))), false
	case 3:
		return fencing.RevokePatch(&fencing.Term{Holder: holder, Claim: &claim, RenewTime: at}, rapid.Bool().Draw(t, "expired")), true
	}
	return fencing.RevokePatch(seen, rapid.Bool().Draw(t, "expired")), true
}

func readLease(doc []byte) *fencing.Term {
	var lease coordinationv1.Lease
	if err := json.Unmarshal(doc, &lease); err != nil {
		panic(err)
	}
	return mailbox.Read(&lease)
}
