package plan

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/kstatus"
)

// TestKstatusReadsEveryStateAsTheDesignSays takes every status that the tables' plans write, in every phase and with every reason
// to wait, as the API server serves it, and asks the library that kubectl, Flux, Argo CD and Helm's --wait go by.
func TestKstatusReadsEveryStateAsTheDesignSays(t *testing.T) {
	seen := map[string]bool{}
	for name, table := range tables {
		for row, test := range table {
			s := given(test.given...)
			p := Decide(s)
			written := p.Status
			if p.Grant != nil {
				written = Granted(s, p.Grant, "lease-1", fencing.Token(s.Task.Status.FencingToken)+1)
			}
			if written == nil || len(written.Conditions) == 0 {
				continue // nothing is written, or only a late submission is added
			}
			task := s.Task.DeepCopy()
			task.Status = *written
			seen[string(written.Phase)] = true
			if c := meta.FindStatusCondition(written.Conditions, v1alpha1.ConditionWaiting); c.Status == "True" {
				seen[c.Reason] = true
			}
			if got, want := kstatus.Of(t, "LeasedTask", task).Status, kstatusOf(written); got != want {
				t.Errorf("%s/%s: kstatus says %s of phase %s, want %s: %+v", name, row, got, written.Phase, want, written.Conditions)
			}
			task.Generation++
			if got := kstatus.Of(t, "LeasedTask", task).Status; got != status.InProgressStatus {
				t.Errorf("%s/%s: kstatus says %s of a change that was not seen yet", name, row, got)
			}
			task.Generation, task.DeletionTimestamp = *written.ObservedGeneration, at(0)
			if got := kstatus.Of(t, "LeasedTask", task).Status; got != status.TerminatingStatus {
				t.Errorf("%s/%s: kstatus says %s of a task that is being deleted", name, row, got)
			}
		}
	}
	for _, phase := range phases[1:] {
		if !seen[string(phase)] {
			t.Errorf("no plan writes phase %s", phase)
		}
	}
	for _, reason := range waitingReasons(t) {
		if !seen[reason] {
			t.Errorf("no plan waits for %s", reason)
		}
	}
}

func kstatusOf(written *v1alpha1.LeasedTaskStatus) status.Status {
	if w := meta.FindStatusCondition(written.Conditions, v1alpha1.ConditionWaiting); w.Status == "True" && w.Reason == v1alpha1.WaitingSpecInvalid {
		return status.FailedStatus // until somebody repairs it
	}
	switch written.Phase {
	case v1alpha1.PhaseCompleted, v1alpha1.PhaseCancelled:
		return status.CurrentStatus
	case v1alpha1.PhaseDeadLettered:
		return status.FailedStatus
	case v1alpha1.PhaseAvailable, v1alpha1.PhaseClaimed, v1alpha1.PhaseRunning, v1alpha1.PhaseExpired, v1alpha1.PhaseProbing:
	}
	return status.InProgressStatus
}

// waitingReasons are the values of the constants WaitingX of the API.
func waitingReasons(t *testing.T) (reasons []string) {
	t.Helper()
	file, err := parser.ParseFile(gotoken.NewFileSet(), "../../../api/v1alpha1/conditions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && strings.HasPrefix(spec.Names[0].Name, "Waiting") && len(spec.Values) == 1 {
			reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			reasons = append(reasons, reason)
		}
		return true
	})
	if !slices.Contains(reasons, v1alpha1.WaitingBackoff) {
		t.Fatalf("only %q", reasons)
	}
	return reasons
}
