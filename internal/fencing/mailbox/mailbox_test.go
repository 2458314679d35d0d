package mailbox

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

var (
	granted = time.Date(2026, 1, 1, 12, 0, 0, 123456000, time.UTC)
	owner   = metav1.OwnerReference{APIVersion: "leasehold.io/v1alpha1", Kind: "LeasedTask", Name: "t", UID: "task-uid"}
)

func termLease() *coordinationv1.Lease {
	return Grant{Holder: "pod", Attempt: 3, Duration: 30 * time.Second, Time: granted, Over: "41"}.Lease("ns", "t", owner)
}

// stored is a Lease as it comes back from the API server, after the given patches.
func stored(t *testing.T, patches ...[]byte) *coordinationv1.Lease {
	t.Helper()
	doc, err := json.Marshal(termLease())
	if err != nil {
		t.Fatal(err)
	}
	for _, patch := range patches {
		next, code, body := agenttest.Apply(doc, patch)
		if code != 200 {
			t.Fatalf("%d %s", code, body)
		}
		doc = next
	}
	var lease coordinationv1.Lease
	if err := json.Unmarshal(doc, &lease); err != nil {
		t.Fatal(err)
	}
	return &lease
}

func TestReadWhatWasGranted(t *testing.T) {
	want := &fencing.Term{Namespace: "ns", Name: Name("task-uid"), ResourceVersion: "41", Task: "task-uid",
		Holder: "pod", Duration: 30 * time.Second, Attempt: 3, GrantTime: granted}
	got := Read(stored(t))
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(fencing.Claim{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got.State() != fencing.Granted {
		t.Errorf("state %s", got.State())
	}
}

func TestReadWhatAnAgentWrote(t *testing.T) {
	claim := fencing.Claim{Nonce: "n", Node: "node", PodUID: "pod-uid"}
	submission := fencing.Submission{Token: 7, Outcome: fencing.Succeeded, ExitCode: new(int32(0)), Result: new("line\n\"ü\"")}
	encoded, err := submission.Encode()
	if err != nil {
		t.Fatal(err)
	}
	renewed := granted.Add(time.Minute)
	term := Read(stored(t, fencing.ClaimPatch("pod", claim, granted), fencing.RenewPatch("pod", claim, renewed),
		fencing.SubmitPatch("pod", claim, encoded)))
	if term.State() != fencing.Submitted {
		t.Errorf("state %s", term.State())
	}
	if diff := cmp.Diff(&submission, term.Submission); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if term.Claim.String() != claim.String() || term.Claim.PodUID != "pod-uid" || !term.RenewTime.Equal(renewed) {
		t.Errorf("claim %s, renewed %s", term.Claim, term.RenewTime)
	}
}

func TestGrantClearsTheLastTerm(t *testing.T) {
	lease := termLease()
	for _, name := range []string{fencing.ClaimAnnotation, fencing.SubmissionAnnotation, fencing.StopAnnotation} {
		if _, ok := lease.Annotations[name]; ok {
			t.Errorf("a grant carries %s", name)
		}
	}
	if lease.Spec.RenewTime != nil {
		t.Error("a grant carries a renewTime; only its holder renews")
	}
	if lease.ResourceVersion != "41" || lease.Labels[TaskLabel] != "task-uid" || len(lease.OwnerReferences) != 1 {
		t.Errorf("unexpected metadata: %+v", lease.ObjectMeta)
	}
	if len(lease.Annotations) == 0 {
		t.Error("no annotations: a JSON patch would not find the map")
	}
}

func TestReadSurvivesALeaseEditedByHand(t *testing.T) {
	tests := map[string]struct {
		lease coordinationv1.Lease
		want  fencing.State
	}{
		"empty":             {coordinationv1.Lease{}, fencing.Revoked},
		"empty annotations": {coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fencing.ClaimAnnotation: "", fencing.SubmissionAnnotation: ""}}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("p")}}, fencing.Granted},
		"a strange claim":   {coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fencing.ClaimAnnotation: "x"}}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("p")}}, fencing.Claimed},
		"strange words":     {coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fencing.SubmissionAnnotation: "x"}}}, fencing.Submitted},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Read(&tc.lease).State(); got != tc.want {
				t.Errorf("state %s, want %s", got, tc.want)
			}
		})
	}
}

func TestName(t *testing.T) {
	name := Name("0b1c2d3e-0000-4000-8000-000000000000")
	if !regexp.MustCompile(`^lh-[0-9a-f]{16}$`).MatchString(name) {
		t.Errorf("name %q", name)
	}
	if name == Name("another") || name != Name("0b1c2d3e-0000-4000-8000-000000000000") {
		t.Error("a name is a function of the UID")
	}
}
