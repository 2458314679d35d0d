package e2e

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

const system = "leasehold-system"

// killOperator removes the operator's Pods without grace; its Deployment makes new ones.
func (s *story) killOperator() {
	s.Helper()
	s.ok(s.DeleteAllOf(s.ctx, &corev1.Pod{}, client.InNamespace(system), client.MatchingLabels{"app.kubernetes.io/name": "leasehold"}, client.GracePeriodSeconds(0)))
}

func TestTheOperatorKilledAtAnyMomentLosesAndDoublesNothing(t *testing.T) {
	s := tell(t, alone)
	const count = 12
	tasks := make([]*v1alpha1.LeasedTask, count)
	for i := range tasks {
		tasks[i] = s.start(fmt.Sprintf("t%d", i), `[ "$LEASEHOLD_ATTEMPT" = 1 ] && exit 1; sleep 3; echo ok > "$LEASEHOLD_RESULT_FILE"`)
		if i%3 == 2 { // four kills, spread over the grants, claims, failures and completions of the tasks around them
			time.Sleep(1500 * time.Millisecond)
			s.killOperator()
		}
	}
	for _, task := range tasks {
		s.untilFinished(task)
		st := task.Status
		s.must(st.Phase == v1alpha1.PhaseCompleted && st.Attempt == 2 && st.Failures == 1 && st.Disruptions == 0, "task %s: %+v", task.Name, st)
		pods, err := s.Pods(s.ctx, task)
		s.ok(err)
		s.must(len(pods) == 2, "task %s has %d Pods, want one an attempt", task.Name, len(pods))
	}
}

func TestTheOperatorDownForTwoLeasesDisturbsNoRunningTask(t *testing.T) {
	s := tell(t, alone)
	task := s.start("undisturbed", "sleep 45; echo done > $LEASEHOLD_RESULT_FILE")
	s.untilRunning(task, 1)
	s.scaleOperator(0)
	time.Sleep(2*lease + 2*time.Second)
	s.scaleOperator(2)
	s.untilFinished(task)
	s.must(task.Status.Phase == v1alpha1.PhaseCompleted && task.Status.Attempt == 1 && task.Status.Disruptions == 0, "status %+v", task.Status)
}

func (s *story) scaleOperator(replicas int) {
	s.Helper()
	s.kubectl("scale", "-n", system, "deployment/leasehold-manager", fmt.Sprintf("--replicas=%d", replicas))
	s.ok(s.Poll(s.ctx, patience, func() error {
		pods := &corev1.PodList{}
		if err := s.List(s.ctx, pods, client.InNamespace(system), client.MatchingLabels{"app.kubernetes.io/name": "leasehold"}); err != nil {
			return err
		}
		if len(pods.Items) != replicas {
			return fmt.Errorf("the operator has %d Pods, want %d", len(pods.Items), replicas)
		}
		return nil
	}))
}
