package e2e

import (
	"testing"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// call speaks to the agent's socket from a shell that has nothing that can.
const call = `call() { /leasehold/bin/agent call "$@"; }; `

func TestAWorkerThatGoesSilentIsReplacedAndItsSuccessorGoesOnFromItsCheckpoint(t *testing.T) {
	s := tell(t, sideBySide)
	// The first attempt says for longer than it may be silent that it works, how far it is, and where to go on; then it hangs.
	task := s.start("silent", call+`set -e
		[ "$LEASEHOLD_ATTEMPT" = 1 ] || { echo "from $(cat "$LEASEHOLD_CHECKPOINT_FILE")" > "$LEASEHOLD_RESULT_FILE"; exit 0; }
		for n in 1 2 3 4 5 6 7 8 9 10; do call POST /v1/progress "{\"current\": $n, \"total\": 20}"; sleep 1; done
		call POST /v1/checkpoint '{"checkpoint": "row 10"}'
		sleep 600`, func(task *v1alpha1.LeasedTask) { task.Spec.Lease.Heartbeat = v1alpha1.HeartbeatApplication })
	s.ok(s.Until(s.ctx, task, patience, "shown with progress", func(task *v1alpha1.LeasedTask) bool {
		return task.Status.Progress.Current != nil && task.Status.Progress.Total == 20
	}))
	s.untilFinished(task)
	st := task.Status
	s.must(len(st.History) == 2 && st.Failures == 1 && st.Disruptions == 0, "task %s: %s", task.Name, cluster.Describe(task))
	end := st.History[0]
	s.must(end.Outcome == v1alpha1.AttemptFailed && end.Reason == fencing.ReasonHeartbeatMissed && end.Evidence == v1alpha1.EvidenceSubmission, "history %+v", end)
	s.must(st.Phase == v1alpha1.PhaseCompleted && *st.Result == "from row 10\n", "task %s: %s", task.Name, cluster.Describe(task))
}

func TestAWorkerThatSaysThatItCannotSucceedIsNotTriedAgain(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("hopeless", call+`call POST /v1/fail '{"retryable": false, "reason": "BadInput", "message": "row 7 is no date", "effect": "None"}'; exit 1`)
	dead := s.deadLetterOf(task)
	end := task.Status.History[0]
	s.must(dead.Spec.Reason == v1alpha1.ReasonNotRetryable && dead.Spec.Attempts == 1, "dead letter %+v", dead.Spec)
	s.must(end.Reason == "BadInput" && end.Message == "row 7 is no date" && end.FailureClass == v1alpha1.FailurePermanent && *end.ExitCode == 1, "history %+v", end)
}
