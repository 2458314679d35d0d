package api

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// succeeds plays the agent of the task's attempt, which ends it with a success and a result.
func (s *scene) succeeds(task *v1alpha1.LeasedTask, result string) {
	s.Helper()
	a := s.agentOf(task)
	s.ok(a.claimTerm())
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted, ExitCode: new(int32(0)), Result: &result}))
}

func verifies(checks ...v1alpha1.ResultCheck) func(*v1alpha1.LeasedTask) {
	return func(task *v1alpha1.LeasedTask) { task.Spec.Verify = checks }
}

func TestCase06HalfWrittenOutputFailsVerification(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("half", verifies(v1alpha1.ResultCheck{Expression: "result.rows.size() == 3", Message: "three rows are expected"}))
	s.untilGranted(task, 1)
	s.succeeds(task, `{"rows": [1, 2`)
	s.until(task, "tried again", in(v1alpha1.PhaseClaimed, 2))
	first := task.Status.History[0]
	s.must(first.Reason == plan.ReasonVerificationFailed && first.Outcome == v1alpha1.AttemptFailed && task.Status.Failures == 1 && task.Status.Result == nil,
		"status %+v", task.Status)
	s.must(strings.HasPrefix(first.Message, "spec.verify[0]: three rows are expected: cannot be evaluated: ") && strings.HasSuffix(first.Message, "(the result has 14 bytes and is not JSON)"), "message %q", first.Message)

	s.succeeds(task, `{"rows": [1, 2, 3]}`)
	s.until(task, "completed", in(v1alpha1.PhaseCompleted, 2))
	s.must(*task.Status.Result == `{"rows": [1, 2, 3]}`, "result %q", *task.Status.Result)
}

func TestCase31ResultsUpToTheLimitAreStoredWhole(t *testing.T) {
	s := sideBySide(t, nil)
	// The result of the largest encoding: every quote takes two bytes of it.
	overhead := 200                                                                                 // more than the rest of the submission takes
	quotes := strings.Repeat(`"`, (fencing.MaxSubmissionBytes - fencing.MaxResultBytes - overhead)) // x bytes that take 2x
	for name, result := range map[string]string{
		"ascii":   strings.Repeat("x", fencing.MaxResultBytes),
		"unicode": strings.Repeat("é", fencing.MaxResultBytes/2),
		"emoji":   strings.Repeat("\U0001F600", fencing.MaxResultBytes/4),
		"escapes": quotes + strings.Repeat("<", fencing.MaxResultBytes-len(quotes)),
		"empty":   "",
	} {
		task := s.start(name)
		s.untilGranted(task, 1)
		s.succeeds(task, result)
		s.until(task, "completed", in(v1alpha1.PhaseCompleted, 1))
		s.must(task.Status.Result != nil && sha256.Sum256([]byte(*task.Status.Result)) == sha256.Sum256([]byte(result)), "%s: another result is stored", name)
	}
}

func TestCase31AResultAboveTheLimitIsAFailureThatNamesBothSizes(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("large", oneAttempt)
	s.untilGranted(task, 1)
	s.succeeds(task, strings.Repeat("x", fencing.MaxResultBytes+1))
	s.until(task, "dead-lettered", in(v1alpha1.PhaseDeadLettered, 1))
	last := task.Status.History[0]
	s.must(last.Reason == fencing.ReasonResultTooLarge && strings.Contains(last.Message, "32769 bytes, allowed are 32768") && task.Status.Result == nil, "status %+v", task.Status)
}

func TestAnExpressionThatDoesNotCompileIsToldBeforeAnythingRuns(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("typo", verifies(v1alpha1.ResultCheck{Expression: "result.rows == 3"}, v1alpha1.ResultCheck{Expression: "rows == 3"}))
	const what = "spec.verify[1].expression: line 1, column 1: undeclared reference to 'rows'"
	s.until(task, "told", waitsFor(v1alpha1.WaitingSpecInvalid, what))
	stalled := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionStalled)
	s.must(stalled.Status == "True" && stalled.Reason == v1alpha1.WaitingSpecInvalid && strings.HasPrefix(stalled.Message, what), "condition %+v", stalled)
	s.untilEvent(task.UID, v1alpha1.WaitingSpecInvalid)

	// It stays at that, whatever passes there are; it may be suspended and resumed.
	s.ok(s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) { spec.Suspend = new(true) }))
	s.until(task, "told", func(task *v1alpha1.LeasedTask) bool { return *task.Status.ObservedGeneration == task.Generation })
	s.must(waitsFor(v1alpha1.WaitingSpecInvalid, what)(task), "status %+v", task.Status)
	s.ok(s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) { spec.Suspend = nil }))
	s.until(task, "told", func(task *v1alpha1.LeasedTask) bool { return *task.Status.ObservedGeneration == task.Generation })
	s.mustHaveNoPod(task)
	leases := &coordinationv1.LeaseList{}
	s.ok(admin.List(t.Context(), leases, client.InNamespace(s.namespace)))
	s.must(len(leases.Items) == 0, "leases %+v", leases.Items)

	s.ok(s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) { spec.Verify[1].Expression = "result.rows == 3" }))
	s.untilGranted(task, 1)
	s.must(meta.IsStatusConditionFalse(task.Status.Conditions, v1alpha1.ConditionStalled), "status %+v", task.Status)
	s.succeeds(task, `{"rows": 3}`)
	s.until(task, "completed", in(v1alpha1.PhaseCompleted, 1))
}

func TestATaskWithAnInvalidSpecIsCancelledAndDeletedAsAnyOther(t *testing.T) {
	s := sideBySide(t, nil)
	for i, end := range []func(*v1alpha1.LeasedTask){
		func(task *v1alpha1.LeasedTask) {
			s.ok(s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) { spec.Cancel.Reason = "never mind" }))
			s.until(task, "cancelled", in(v1alpha1.PhaseCancelled, 0))
		},
		func(task *v1alpha1.LeasedTask) {
			s.ok(admin.Delete(t.Context(), task))
			s.ok(s.Poll(t.Context(), patience, func() error {
				if err := admin.Get(t.Context(), client.ObjectKeyFromObject(task), task); !apierrors.IsNotFound(err) {
					return errStillThere
				}
				return nil
			}))
		},
	} {
		task := s.start(fmt.Sprint("wrong-", i), verifies(v1alpha1.ResultCheck{Expression: "1 + 1"}))
		s.until(task, "told", waitsFor(v1alpha1.WaitingSpecInvalid, "must be bool"))
		end(task)
	}
	events := &eventsv1.EventList{}
	s.ok(admin.List(t.Context(), events, client.InNamespace(s.namespace)))
	for _, e := range events.Items {
		s.must(e.Series == nil || e.Series.Count < 2, "event %s more than once: %s", e.Reason, e.Note)
	}
}
