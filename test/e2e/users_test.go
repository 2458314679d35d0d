package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

func TestTheSamplesApplyAndFinish(t *testing.T) {
	s := tell(t, sideBySide)
	s.kubectl("apply", "-n", s.namespace, "-f", filepath.Join("config", "samples"))
	s.kubectl("wait", "-n", s.namespace, "--for=condition=Finished", "leasedtask", "--all", "--timeout=3m")
	tasks := &v1alpha1.LeasedTaskList{}
	s.ok(s.List(s.ctx, tasks, client.InNamespace(s.namespace)))
	s.must(len(tasks.Items) >= 3, "%d samples", len(tasks.Items))
	for _, task := range tasks.Items {
		s.must(task.Status.Phase == v1alpha1.PhaseCompleted, "sample %s: %+v", task.Name, task.Status)
	}
}

func TestANamespaceWithRunningTasksIsDeletedWithoutHanging(t *testing.T) {
	s := tell(t, sideBySide)
	s.untilRunning(s.start("runs", "sleep 600"), 1)
	s.start("pending", "true", on("no-such-node"))
	ns := &corev1.Namespace{}
	s.ok(s.Get(s.ctx, key("", s.namespace), ns))
	s.ok(s.Delete(s.ctx, ns))
	s.ok(s.Poll(s.ctx, patience, func() error {
		err := s.Get(s.ctx, key("", s.namespace), ns)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("namespace %s is still there", ns.Name))
	}))
}

func TestCase08AnImageThatIsNotThereIsWaitedForAndNamed(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("no-image", "true", func(task *v1alpha1.LeasedTask) {
		task.Spec.Template.Spec.Containers[0].Image = "127.0.0.1:1/missing:1"
		task.Spec.Timeouts.StartSeconds = 40
	})
	s.untilFinished(task)
	h := task.Status.History[0]
	s.must(task.Status.Phase == v1alpha1.PhaseDeadLettered && h.Reason == "StartTimeout", "status %+v", task.Status)
	s.must(strings.Contains(h.Message, "ImagePull") && strings.Contains(h.Message, "127.0.0.1:1/missing:1"), "message %q", h.Message)
}

func TestCase08AnImageNameThatCannotBeParsedFailsAtOnce(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("bad-image", "true", func(task *v1alpha1.LeasedTask) {
		task.Spec.Template.Spec.Containers[0].Image = "Not A Name"
	})
	s.untilFinished(task)
	s.must(task.Status.Attempt == 1 && task.Status.History[0].Reason == "InvalidImageName", "status %+v", task.Status)
}

func TestCase09AnUnschedulablePodSaysSoAndRunsOnceItCan(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("unschedulable", echo, func(task *v1alpha1.LeasedTask) {
		task.Spec.Template.Spec.NodeSelector = map[string]string{"story": s.namespace}
	})
	s.ok(s.Until(s.ctx, task, patience, "explained", func(task *v1alpha1.LeasedTask) bool {
		for _, c := range task.Status.Conditions {
			if c.Type == v1alpha1.ConditionWaiting && c.Reason == v1alpha1.WaitingUnschedulable {
				return strings.Contains(c.Message, "nodes are available")
			}
		}
		return false
	}))
	s.kubectl("label", "node", node1, "story="+s.namespace)
	t.Cleanup(func() { _, _ = s.Kubectl(context.Background(), "label", "node", node1, "story-") })
	s.untilFinished(task)
	s.must(task.Status.Phase == v1alpha1.PhaseCompleted && task.Status.Failures == 0 && task.Status.Attempt == 1, "status %+v", task.Status)
}
