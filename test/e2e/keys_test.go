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
