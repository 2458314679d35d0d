package plan

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// verifyTable: what spec.verify makes of a success, and what becomes of a task whose spec.verify makes no sense.
var verifyTable = map[string]decision{
	"a result that holds what is asked": {
		given: []func(*Snapshot){onRecord, noPod, verifies("result.rows == 3"), submits(fencing.Succeeded, result(`{"rows":3}`))},
		want: want{Rule: RuleSubmitted, Status: `Completed attempt 1 result {"rows":3}`, Entry: "Succeeded Why Submission exit 3", Ready: "True/Completed",
			Counts: "attempt Succeeded, finished Completed"},
	},
	"one that does not is a failure, and is not kept": {
		given: []func(*Snapshot){onRecord, noPod, verifies("result.rows == 3"), submits(fencing.Succeeded, result(`{"rows":2}`))},
		want:  fails("VerificationFailed Submission exit 3"),
	},
	"half of one is a failure": {
		given: []func(*Snapshot){onRecord, noPod, verifies("result.rows == 3"), submits(fencing.Succeeded, result(`{"rows":3`))},
		want:  fails("VerificationFailed Submission exit 3"),
	},
	"none is a failure": {
		given: []func(*Snapshot){onRecord, noPod, verifies("result != null"), submits(fencing.Succeeded)},
		want:  fails("VerificationFailed Submission exit 3"),
	},
	"one kept elsewhere is looked at by its reference": {
		given: []func(*Snapshot){onRecord, noPod, verifies("resultRef.sizeBytes > 5"), submits(fencing.Succeeded, func(s *fencing.Submission) {
			s.ResultRef = &fencing.ResultRef{URI: "s3://b/k", Digest: "sha256:" + strings.Repeat("0", 64), SizeBytes: 5}
		})},
		want: fails("VerificationFailed Submission exit 3"),
	},
	"the token is checked first": {
		given: []func(*Snapshot){onRecord, noPod, verifies("false"), submits(fencing.Succeeded, func(s *fencing.Submission) { s.Token-- })},
		want:  fails("TokenMismatch Submission exit 3"),
	},
	"the size next": {
		given: []func(*Snapshot){onRecord, noPod, verifies("false"), submits(fencing.Succeeded, result(strings.Repeat("x", fencing.MaxResultBytes+1)))},
		want:  fails("ResultTooLarge Submission exit 3"),
	},
	"a failure is not asked": {
		given: []func(*Snapshot){onRecord, noPod, verifies("false"), submits(fencing.Failed)},
		want:  fails("Why Submission exit 3"),
	},
	"nor is an interruption": {
		given: []func(*Snapshot){onRecord, noPod, verifies("false"), submits(fencing.Interrupted)},
		want:  disrupted("Why Submission exit 3"),
	},
	"a rule may end the task for it": {
		given: []func(*Snapshot){onRecord, noPod, verifies("false"), submits(fencing.Succeeded), retryRules(onReason(v1alpha1.RetryActionDeadLetter, ReasonVerificationFailed))},
		want: want{Rule: RuleSubmitted, Status: "Expired attempt 1", Entry: "Failed VerificationFailed Submission exit 3 DeadLetter", Waiting: "DeadLetterPending",
			Ready: "False/DeadLetterPending", Counts: "attempt Failed"},
	},
	"a success that fails while the task is cancelled does not complete it": {
		given: []func(*Snapshot){onRecord, noPod, verifies("false"), submits(fencing.Succeeded), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Cancel.Reason = "enough" })},
		want: want{Rule: RuleSubmitted, Status: "Cancelled attempt 1", Entry: "Failed VerificationFailed Submission exit 3", Ready: "True/Cancelled",
			Counts: "attempt Failed, finished Cancelled"},
	},
	"an expression that no longer compiles is a failure, after the first grant": {
		given: []func(*Snapshot){onRecord, noPod, verifies("rows == 3"), submits(fencing.Succeeded)},
		want:  fails("VerificationFailed Submission exit 3"),
	},

	"a new task that cannot be verified is told so with the first write": {
		given: []func(*Snapshot){verifies("rows == 3")},
		want:  want{Rule: RuleAccept, Status: "Available attempt 0", Waiting: "SpecInvalid", Ready: "False/SpecInvalid"},
	},
	"it gets no term": {
		given: []func(*Snapshot){available, verifies("rows == 3")},
		want:  want{Rule: RuleSpecInvalid, Status: "Available attempt 0", Waiting: "SpecInvalid", Ready: "False/SpecInvalid"},
	},
	"it is told so while it is suspended, too": {
		given: []func(*Snapshot){available, verifies("rows == 3"), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Suspend = new(true) })},
		want:  want{Rule: RuleSpecInvalid, Status: "Available attempt 0", Waiting: "SpecInvalid", Ready: "False/SpecInvalid"},
	},
	"and before its time has come": {
		given: []func(*Snapshot){available, verifies("rows == 3"), startsAt(time.Hour)},
		want:  want{Rule: RuleSpecInvalid, Status: "Available attempt 0", Waiting: "SpecInvalid", Ready: "False/SpecInvalid"},
	},
	"it may be cancelled": {
		given: []func(*Snapshot){available, verifies("rows == 3"), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Cancel.Reason = "enough" })},
		want:  want{Rule: RuleCancelled, Status: "Cancelled attempt 0", Ready: "True/Cancelled", Live: true, Counts: "finished Cancelled"},
	},
	"repaired, it runs": {
		given: []func(*Snapshot){available, refusedBefore, verifies("result.rows == 3")},
		want:  want{Rule: RuleGrant, Lease: `grant task-1-xyz attempt 1 over ""`, Pods: "create", Live: true, Counts: "grant"},
	},
	"repaired while it is suspended, it is suspended": {
		given: []func(*Snapshot){available, refusedBefore, verifies("result.rows == 3"), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Suspend = new(true) })},
		want:  want{Rule: RuleSuspended, Status: "Available attempt 0", Waiting: "Suspended", Ready: "False/Suspended"},
	},
}

func verifies(expressions ...string) func(*Snapshot) {
	return onTask(func(t *v1alpha1.LeasedTask) {
		t.Spec.Verify = nil
		for _, e := range expressions {
			t.Spec.Verify = append(t.Spec.Verify, v1alpha1.ResultCheck{Expression: e})
		}
	})
}

// refusedBefore is a task that waits for its spec to be repaired.
func refusedBefore(s *Snapshot) {
	verifies("rows == 3")(s)
	p := Decide(s)
	s.Task.Status = *p.Status
}

// TestAnInvalidSpecIsSaidOnce: in the words of the compiler, in all conditions that tools look at, and in one event for each wrong spec.
func TestAnInvalidSpecIsSaidOnce(t *testing.T) {
	s := given(verifies("true", "rows == 3"))
	p := Decide(s)
	const what = "spec.verify[1].expression: line 1, column 1: undeclared reference to 'rows'"
	for _, kind := range []string{v1alpha1.ConditionWaiting, v1alpha1.ConditionStalled} {
		if c := meta.FindStatusCondition(p.Status.Conditions, kind); c == nil || c.Status != "True" || c.Reason != "SpecInvalid" || !strings.HasPrefix(c.Message, what) {
			t.Errorf("condition %+v", c)
		}
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReconciling); c.Status != "False" {
		t.Errorf("condition %+v: kstatus takes it for progress", c)
	}
	if len(p.Events) != 1 || p.Events[0].Reason != "SpecInvalid" || !p.Events[0].Warning || !strings.HasPrefix(p.Events[0].Note, what) {
		t.Errorf("events %+v", p.Events)
	}
	s.Task.Status = *p.Status
	if p = Decide(s); p.Rule != RuleSpecInvalid || p.Status != nil || len(p.Events) > 0 {
		t.Errorf("once more: %+v", p)
	}
	verifies("rows == 4 + ")(s)
	s.Task.Generation++
	if p = Decide(s); len(p.Events) != 1 {
		t.Errorf("another wrong spec: events %+v", p.Events)
	}
}

// TestCase31AFailedVerificationNamesConditionAndSizeAndKeepsNoResult: and its message fits the history however long its parts are.
func TestCase31AFailedVerificationNamesConditionAndSizeAndKeepsNoResult(t *testing.T) {
	content := strings.Repeat("canary ", 4000)
	s := given(onRecord, noPod, verifies("true", "int(raw) == 1 && "+strings.Repeat("true && ", 120)+"true"), submits(fencing.Succeeded, result(content)))
	s.Task.Spec.Verify[1].Message = strings.Repeat("m", 256)
	status := Decide(s).Status
	entry := lastOf(status.History)
	if status.Result != nil || entry.Reason != ReasonVerificationFailed || !strings.HasPrefix(entry.Message, "spec.verify[1]: mmm") ||
		!strings.HasSuffix(entry.Message, "(the result has 28000 bytes and is not JSON)") || len(entry.Message) > maxMessage {
		t.Errorf("result %v, entry %+v, %d bytes", status.Result, entry, len(entry.Message))
	}
	if n := strings.Count(entry.Message, "canary"); n > 20 {
		t.Errorf("the message quotes %d bytes of the result", n*7)
	}
}
