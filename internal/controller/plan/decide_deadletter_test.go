package plan

import (
	"encoding/json"

	"go/ast"
	"go/parser"
	gotoken "go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// deadLetterTable: a task that is over, dead letter first.
var deadLetterTable = map[string]decision{
	"a task that could not start is given up": {
		given: []func(*Snapshot){isOverFor(ReasonStartTimeout)},
		want: want{Rule: RuleGiveUp, Dead: "StartTimeout", Status: "DeadLettered attempt 1", Ready: "False/StartTimeout", Live: true,
			Counts: "finished DeadLettered, dead_letter StartTimeout"},
	},
	"so is one whose template makes no Pod": {
		given: []func(*Snapshot){isOverFor(ReasonPodInvalid)},
		want: want{Rule: RuleGiveUp, Dead: "CannotStart", Status: "DeadLettered attempt 1", Ready: "False/CannotStart", Live: true,
			Counts: "finished DeadLettered, dead_letter PodInvalid"},
	},
	"one whose worker gave a reason of its own is counted as Other": {
		given: []func(*Snapshot){isOverFor("CustomerGone"), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Retry.MaxAttempts = 1 })},
		want: want{Rule: RuleGiveUp, Dead: "BudgetExceeded", Status: "DeadLettered attempt 1", Ready: "False/BudgetExceeded", Live: true,
			Counts: "finished DeadLettered, dead_letter Other"},
	},
	"whatever is asked of it once that is on record": {
		given: []func(*Snapshot){isOverFor(ReasonStartTimeout), cancel},
		want: want{Rule: RuleGiveUp, Dead: "StartTimeout", Status: "DeadLettered attempt 1", Ready: "False/StartTimeout", Live: true,
			Counts: "finished DeadLettered, dead_letter StartTimeout"},
	},
	"that there will be no other is put on record first": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Retry.MaxDisruptions = new(int32(0)) })},
		want:  want{Rule: RuleOver, Status: "Expired attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true},
	},
	"a dead letter that is refused keeps the task as it is": {
		given: []func(*Snapshot){isOverFor(ReasonStartTimeout), notBuried("exceeded quota")},
		want: want{Rule: RuleGiveUp, Status: "Expired attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true,
			Requeue: RefusedRetry},
	},
	"a submitted failure does not wait for anybody's release": {
		given: []func(*Snapshot){isOverFor("NonZeroExit"), submits(fencing.Failed), since(0), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Retry.MaxAttempts = 1 })},
		want: want{Rule: RuleGiveUp, Dead: "BudgetExceeded", Status: "DeadLettered attempt 1", Ready: "False/BudgetExceeded", Live: true,
			Counts: "finished DeadLettered, dead_letter NonZeroExit"},
	},
	"nothing is written for a task that is being deleted": {
		given: []func(*Snapshot){isOverFor(ReasonStartTimeout), onTask(func(t *v1alpha1.LeasedTask) { t.DeletionTimestamp = at(0) })},
		want:  want{Rule: RuleDeleting},
	},
	"a time to live waits for the dead letter": {
		given: []func(*Snapshot){isOverFor(ReasonStartTimeout), ttl(0), notBuried("denied")},
		want: want{Rule: RuleGiveUp, Status: "Expired attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true,
			Requeue: RefusedRetry},
	},
}

// isOverFor is a task whose only attempt ended, before any claim, for a reason; its term is revoked.
func isOverFor(reason string) func(*Snapshot) {
	return func(s *Snapshot) {
		granted(s)
		s.Term.Holder, s.Since, s.Pods = "", now.Add(-time.Minute), nil
		e := entry(1, v1alpha1.AttemptFailed, reason)
		e.StartTime = nil
		s.Task.Status.DeadLetterName = deadLetterName(s.Task)
		s.Task.Status.Phase, s.Task.Status.Failures, s.Task.Status.History = v1alpha1.PhaseExpired, 1, []v1alpha1.AttemptRecord{e}
	}
}

func notBuried(why string) func(*Snapshot) { return func(s *Snapshot) { s.DeadLetterRefusal = why } }

// TestCase30TheRefusalIsQuotedAndThePayloadIsKept: Case 30 at its lowest tier.
func TestCase30TheRefusalIsQuotedAndThePayloadIsKept(t *testing.T) {
	s := given(isOverFor(ReasonStartTimeout), notBuried(`exceeded quota: none, requested: count/deadletters.leasehold.io=1`))
	p := Decide(s)
	message := ""
	for _, c := range p.Status.Conditions {
		if c.Type == v1alpha1.ConditionWaiting {
			message = c.Message
		}
	}
	if !strings.Contains(message, "exceeded quota: none") || p.DeadLetter != nil || len(p.Counts) > 0 || len(p.Events) > 0 {
		t.Errorf("condition %q, plan %+v", message, p)
	}
}

// TestTheDeadLetterKeepsTheTaskAsItIs: the payload byte for byte, the spec, and no reference expanded.
func TestTheDeadLetterKeepsTheTaskAsItIs(t *testing.T) {
	payload := "{\"a\": 1.0,  \"b\":\"<&\\u2028 \u00e9 \U0001F600\"}\n\t\x7f"
	s := given(isOverFor(ReasonStartTimeout), onTask(func(task *v1alpha1.LeasedTask) {
		task.Spec.Payload = &payload
		task.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{Key: "password"}}}}
	}))
	dead := Decide(s).DeadLetter
	var spec v1alpha1.LeasedTaskSpec
	if err := json.Unmarshal(dead.Spec.Task.Spec.Raw, &spec); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Task.Spec, spec); diff != "" {
		t.Errorf("spec (-task +dead letter):\n%s", diff)
	}
	dead.Spec.Task.Spec.Raw = nil
	want := v1alpha1.DeadLetterSpec{
		Task:           v1alpha1.DeadLetterTask{Name: "task", UID: "uid-1"},
		IdempotencyKey: "uid-1", Reason: "StartTimeout", Message: "attempt 1: StartTimeout: message", Fingerprint: dead.Spec.Fingerprint,
		Attempts: 1, Failures: 1, FencingToken: token, History: s.Task.Status.History,
	}
	if diff := cmp.Diff(want, dead.Spec); diff != "" {
		t.Errorf("dead letter (-want +got):\n%s", diff)
	}
	if len(dead.OwnerReferences) > 0 || dead.Labels[v1alpha1.TaskLabel] != "uid-1" || dead.Labels[v1alpha1.FingerprintLabel] != dead.Spec.Fingerprint {
		t.Errorf("metadata %+v", dead.ObjectMeta)
	}
}

// TestCase12DeadLettersOfLongNamesAreValidAndDistinct: two tasks that share all that fits of their names.
func TestCase12DeadLettersOfLongNamesAreValidAndDistinct(t *testing.T) {
	name := func(task, uid string) string {
		s := given(isOverFor(ReasonStartTimeout), onTask(func(t *v1alpha1.LeasedTask) { t.Name, t.UID = task, types.UID(uid) }))
		return Decide(s).DeadLetter.Name
	}
	long := strings.Repeat("a.", 100) + "a"
	one, other, again := name(long+"b", "1"), name(long+"c", "2"), name(long+"b", "1")
	if one == other || one != again || len(one) > 63 || strings.ContainsAny(one, ".") || strings.Contains(one, "--") {
		t.Errorf("names %s, %s, %s", one, other, again)
	}
}

func TestTheReplayOfAReplayKeepsTheFirstKey(t *testing.T) {
	s := given(isOverFor(ReasonStartTimeout), onTask(func(task *v1alpha1.LeasedTask) {
		task.Spec.ReplayOf = v1alpha1.ReplayOf{DeadLetterName: "dead", DeadLetterUID: "dead-1", Request: 3, IdempotencyKey: "uid-0"}
	}))
	if key := Decide(s).DeadLetter.Spec.IdempotencyKey; key != "uid-0" {
		t.Errorf("the dead letter has key %s", key)
	}
	for _, e := range Pod(s.Task, AgentImage{Name: "agent"}).Spec.Containers[0].Env {
		if e.Name == "LEASEHOLD_IDEMPOTENCY_KEY" && e.Value != "uid-0" {
			t.Errorf("the worker has key %s", e.Value)
		}
	}
}

func TestFingerprint(t *testing.T) {
	ended := func(reason, message string, code int32) v1alpha1.AttemptRecord {
		return v1alpha1.AttemptRecord{Reason: reason, Message: message, ExitCode: &code, PodName: "order-1-1-abc", NodeName: "node-7"}
	}
	base := ended("NonZeroExit", "order-1: cannot reach 10.0.0.7:5432 after 30.5s (request 0f8fad5b-d9cb-469f-a165-70867728950e) in order-1-1-abc on node-7", 1)
	same := map[string]v1alpha1.AttemptRecord{
		"another task, address, time, request, Pod and node": {Reason: "NonZeroExit", ExitCode: base.ExitCode, PodName: "order-2-4-xyz", NodeName: "node-12",
			Message: "order-2: cannot  reach 10.11.0.9:5432 after 7s (request 7c9e6679-7425-40de-944b-e07fc1f90ae7) in order-2-4-xyz on node-12"},
	}
	for name, last := range same {
		if Fingerprint("order-1", base) != Fingerprint("order-2", last) {
			t.Errorf("%s: %q and %q differ", name, normalise("order-1", base), normalise("order-2", last))
		}
	}
	for name, last := range map[string]v1alpha1.AttemptRecord{
		"another reason":    ended("OOMKilled", base.Message, 1),
		"another exit code": ended("NonZeroExit", base.Message, 2),
		"another message":   ended("NonZeroExit", "cannot parse the payload", 1),
		"no exit code":      {Reason: "NonZeroExit", Message: base.Message, PodName: base.PodName, NodeName: base.NodeName},
	} {
		if Fingerprint("order-1", base) == Fingerprint("order-1", last) {
			t.Errorf("%s has the same fingerprint", name)
		}
	}
}

// TestCase35EveryReasonOfOursHasASeriesOfItsOwnAndNoOtherHas: Case 35; and a worker's has not.
func TestCase35EveryReasonOfOursHasASeriesOfItsOwnAndNoOtherHas(t *testing.T) {
	for _, file := range []string{"end.go", "../../fencing/submission.go"} {
		parsed, err := parser.ParseFile(gotoken.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
				return true
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok {
				return true
			}
			reason, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found++
			if knownReason(reason) != reason {
				t.Errorf("%s: reason %s is not on the list", file, reason)
			}
			return true
		})
		if found < 5 {
			t.Errorf("%s: %d reasons found", file, found)
		}
	}
	if got := knownReason("anything"); got != reasonOther {
		t.Errorf("a worker's own reason is counted as %s", got)
	}
	if slices.Contains(knownReasons, "") {
		t.Error("the empty reason is on the list")
	}
}
