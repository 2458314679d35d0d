package e2e

import (
	"fmt"
	"strings"
	"testing"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// parses fails at once, and for good, on a payload that is not what it expects; then it says under which key it worked.
const parses = `grep -q '^{"n":' "$LEASEHOLD_PAYLOAD_FILE" || exit 65; echo "$LEASEHOLD_IDEMPOTENCY_KEY $(cat "$LEASEHOLD_PAYLOAD_FILE")" > "$LEASEHOLD_RESULT_FILE"`

// deadLetterOf is what keeps the task.
func (s *story) deadLetterOf(task *v1alpha1.LeasedTask) *v1alpha1.DeadLetter {
	s.Helper()
	s.untilFinished(task)
	s.must(task.Status.Phase == v1alpha1.PhaseDeadLettered, "phase %s: %+v", task.Status.Phase, task.Status.History)
	dead := &v1alpha1.DeadLetter{}
	s.ok(s.Get(s.ctx, key(s.namespace, task.Status.DeadLetterName), dead))
	return dead
}

// replay asks for a replay as a person does, and returns the task that it makes.
func (s *story) replay(dead *v1alpha1.DeadLetter, request int, repair string) *v1alpha1.LeasedTask {
	s.Helper()
	s.kubectl("patch", "dl", "-n", s.namespace, dead.Name, "--type=merge", "--patch", fmt.Sprintf("spec:\n  replay:\n    request: %d\n%s", request, repair))
	s.kubectl("wait", "-n", s.namespace, "dl/"+dead.Name, fmt.Sprintf("--for=jsonpath={.status.lastRequest}=%d", request), "--timeout=60s")
	s.ok(s.Get(s.ctx, key(s.namespace, dead.Name), dead))
	record := dead.Status.Replays[len(dead.Status.Replays)-1]
	s.must(record.Outcome == v1alpha1.ReplayCreated, "record %+v", record)
	task := &v1alpha1.LeasedTask{}
	s.ok(s.Get(s.ctx, key(s.namespace, record.TaskName), task))
	s.untilFinished(task)
	return task
}

func TestScenario8DeadLetter(t *testing.T) {
	s := tell(t, sideBySide)
	// A payload that cannot be parsed fails at once, without a back-off.
	unparsable := s.start("unparsable", parses, func(task *v1alpha1.LeasedTask) {
		task.Spec.Payload = new("not JSON")
		task.Spec.Retry.Rules = []v1alpha1.RetryRule{{Action: v1alpha1.RetryActionDeadLetter,
			OnExitCodes: v1alpha1.ExitCodeRequirement{Operator: v1alpha1.ExitCodeIn, Values: []int32{65}}}}
	})
	// Another exceeds its attempts, because its image lacks a file, say.
	payload := "{\"n\": 1.0,  \"s\": \"é\"}\n"
	exhausted := s.start("exhausted", "exit 1", func(task *v1alpha1.LeasedTask) {
		task.Spec.Payload = &payload
		task.Spec.Retry.MaxAttempts = 2
	})
	first, second := s.deadLetterOf(unparsable), s.deadLetterOf(exhausted)
	s.must(first.Spec.Reason == v1alpha1.ReasonRetryRule && first.Spec.Attempts == 1, "dead letter %+v", first.Spec)
	s.must(second.Spec.Reason == v1alpha1.ReasonBudgetExceeded && second.Spec.Attempts == 2 && len(second.Spec.History) == 2, "dead letter %+v", second.Spec)
	for dead, want := range map[*v1alpha1.DeadLetter][]string{first: {"RetryRule", fencing.ReasonNonZeroExit}, second: {"BudgetExceeded", "exhausted"}} {
		listed := s.kubectl("get", "dl", "-n", s.namespace, dead.Name)
		for _, word := range want {
			s.must(strings.Contains(listed, word), "kubectl get dl does not say %s:\n%s", word, listed)
		}
	}

	// An operator repairs the payload of the one, and the command of the other.
	repaired := s.replay(first, 1, "    payload: '{\"n\": 2}'\n")
	s.must(repaired.Status.Phase == v1alpha1.PhaseCompleted && *repaired.Status.Result == string(unparsable.UID)+" {\"n\": 2}\n", "status %+v", repaired.Status)
	replayed := s.replay(second, 1, fmt.Sprintf("    templatePatch: |\n      spec:\n        containers:\n        - name: worker\n          command: [sh, -c, %q]\n", parses))
	s.must(replayed.Status.Phase == v1alpha1.PhaseCompleted && *replayed.Status.Result == string(exhausted.UID)+" "+payload,
		"result %q of %+v, want the key %s and the exact payload", *replayed.Status.Result, replayed.Status, exhausted.UID)
	s.must(replayed.Spec.ReplayOf.DeadLetterUID == string(second.UID) && replayed.Status.FencingToken > exhausted.Status.FencingToken,
		"replayOf %+v, token %d after %d", replayed.Spec.ReplayOf, replayed.Status.FencingToken, exhausted.Status.FencingToken)
}

func TestCase30ADeadLetterOutlivesItsTaskAndSaysSo(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("gone", "exit 3", func(task *v1alpha1.LeasedTask) {
		task.Spec.Retry.MaxAttempts = 1
		task.Spec.Payload = new("keep me")
	})
	dead := s.deadLetterOf(task)
	s.kubectl("delete", "lt", "-n", s.namespace, "gone", "--wait=true", "--cascade=foreground", "--timeout=120s")
	described := s.kubectl("describe", "dl", "-n", s.namespace, dead.Name)
	for _, want := range []string{"BudgetExceeded", "exit code 3", "keep me", "DeadLettered"} {
		s.must(strings.Contains(described, want), "kubectl describe dl does not say %q:\n%s", want, described)
	}
	again := s.replay(dead, 1, "")
	s.must(again.Status.Phase == v1alpha1.PhaseDeadLettered && *again.Spec.Payload == "keep me", "status %+v", again.Status)
}
