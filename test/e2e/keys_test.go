package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// TestWorkIsDoneOnceHoweverOftenItIsAskedFor: a client that got no answer asks three times. One Pod does the work, all three tasks
// have its result. The task that began it was deleted at work.
func TestWorkIsDoneOnceHoweverOftenItIsAskedFor(t *testing.T) {
	s := tell(t, sideBySide)
	order := func(task *v1alpha1.LeasedTask) {
		task.Spec.IdempotencyKey, task.Spec.ConcurrencyKey = "order-17", "ledger"
	}
	abandoned := s.start("abandoned", "sleep 600", order)
	s.untilRunning(abandoned, 1)
	const work = `sleep 3; echo "$LEASEHOLD_TASK for $LEASEHOLD_IDEMPOTENCY_KEY" > "$LEASEHOLD_RESULT_FILE"`
	tasks := []*v1alpha1.LeasedTask{s.start("one", work, order), s.start("two", work, order), s.start("three", work, order)}
	s.kubectl("delete", "lt", "-n", s.namespace, abandoned.Name, "--wait=true", "--timeout=120s")
	ran := ""
	for _, task := range tasks {
		s.untilFinished(task)
		s.must(task.Status.Phase == v1alpha1.PhaseCompleted && task.Status.Result != nil, "status of %s: %+v", task.Name, task.Status)
		if task.Status.FencingToken > 0 {
			s.must(ran == "", "%s and %s ran", ran, task.Name)
			ran = task.Name
		}
	}
	for _, task := range tasks {
		s.must(*task.Status.Result == ran+" for order-17\n", "result of %s: %q, and %s ran", task.Name, *task.Status.Result, ran)
		pods := &corev1.PodList{}
		s.ok(s.List(s.ctx, pods, client.InNamespace(s.namespace), client.MatchingLabels{v1alpha1.TaskLabel: string(task.UID)}))
		s.must((len(pods.Items) == 1) == (task.Name == ran), "%s has %d Pods, and %s ran", task.Name, len(pods.Items), ran)
	}
}

// TestANewerTaskReplacesOneThatRuns: the older worker is asked, ends by itself, and only then the newer one starts.
func TestANewerTaskReplacesOneThatRuns(t *testing.T) {
	s := tell(t, sideBySide)
	keyed := func(task *v1alpha1.LeasedTask) { task.Spec.ConcurrencyKey = "site" }
	older := s.start("v1", `trap 'grep -q Superseded "$LEASEHOLD_CANCEL_FILE" && exit 7; exit 8' TERM; while :; do sleep 0.1; done`, keyed)
	s.untilRunning(older, 1)
	newer := s.start("v2", `echo deployed > "$LEASEHOLD_RESULT_FILE"`, keyed, func(task *v1alpha1.LeasedTask) { task.Spec.KeyPolicy = v1alpha1.KeyPolicyReplace })
	s.untilFinished(newer)
	s.untilFinished(older)
	s.must(newer.Status.Phase == v1alpha1.PhaseCompleted && newer.Status.Attempt == 1, "status of the newer: %+v", newer.Status)
	s.must(older.Status.Phase == v1alpha1.PhaseCancelled && len(older.Status.History) == 1, "status of the older: %+v", older.Status)
	end := older.Status.History[0]
	s.must(end.Reason == "Superseded" && end.Outcome == v1alpha1.AttemptStopped && end.Evidence == v1alpha1.EvidenceSubmission && end.ExitCode != nil && *end.ExitCode == 7, "it ended as %+v", end)
	s.must(older.Status.CompletionTime.Compare(newer.Status.StartTime.Time) <= 0, "one ended at %s, the other began at %s", older.Status.CompletionTime, newer.Status.StartTime)
}
