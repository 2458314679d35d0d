package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// Image is the image of the workers that tests and demo run.
const Image = "busybox:1.36"

// Task is a LeasedTask whose worker runs a shell script, with the shortest lease and next to no back-off.
func Task(namespace, name, script string) *v1alpha1.LeasedTask {
	return &v1alpha1.LeasedTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.LeasedTaskSpec{
			Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(false),
				SecurityContext: &corev1.PodSecurityContext{
					RunAsNonRoot: new(true), RunAsUser: new(int64(1000)),
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				Containers: []corev1.Container{{
					Name: "worker", Image: Image, ImagePullPolicy: corev1.PullIfNotPresent,
					Command: []string{"sh", "-c", script},
					SecurityContext: &corev1.SecurityContext{
						AllowPrivilegeEscalation: new(false),
						Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					},
				}},
			}},
			Lease:            v1alpha1.LeaseSpec{DurationSeconds: 10},
			Retry:            v1alpha1.RetrySpec{Backoff: v1alpha1.BackoffSpec{MaxSeconds: 1}},
			StopGraceSeconds: 5,
		},
	}
}

// Until waits until the task is as wanted; the error says what it was instead.
func (c *Cluster) Until(ctx context.Context, task *v1alpha1.LeasedTask, timeout time.Duration, what string, is func(*v1alpha1.LeasedTask) bool) error {
	return c.Poll(ctx, timeout, func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(task), task); err != nil {
			return err
		}
		if !is(task) {
			return fmt.Errorf("task %s is not yet %s: %s", task.Name, what, Describe(task))
		}
		return nil
	})
}

// Poll tries until there is no error, the time is over, or the context ends.
func (c *Cluster) Poll(ctx context.Context, timeout time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w after %s: %w", ctx.Err(), time.Since(start).Round(time.Second), err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Pods are the task's Pods.
func (c *Cluster) Pods(ctx context.Context, task *v1alpha1.LeasedTask) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := c.List(ctx, pods, client.InNamespace(task.Namespace), client.MatchingLabels{v1alpha1.TaskLabel: string(task.UID)})
	return pods.Items, err
}

// IsFinished reports whether the Finished condition is true.
func IsFinished(task *v1alpha1.LeasedTask) bool {
	return meta.IsStatusConditionTrue(task.Status.Conditions, v1alpha1.ConditionFinished)
}

// IsRunning reports whether an attempt with at least the given number runs.
func IsRunning(attempt int32) func(*v1alpha1.LeasedTask) bool {
	return func(task *v1alpha1.LeasedTask) bool {
		return task.Status.Phase == v1alpha1.PhaseRunning && task.Status.Attempt >= attempt
	}
}

// Describe is a task's story in one line.
func Describe(task *v1alpha1.LeasedTask) string {
	line := fmt.Sprintf("phase %s, attempt %d, token %d, failures %d, disruptions %d",
		task.Status.Phase, task.Status.Attempt, task.Status.FencingToken, task.Status.Failures, task.Status.Disruptions)
	if w := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionWaiting); w != nil && w.Status == metav1.ConditionTrue {
		line += fmt.Sprintf(", waiting: %s (%s)", w.Reason, w.Message)
	}
	for _, h := range task.Status.History {
		line += fmt.Sprintf("; #%d %s %s: %s", h.Attempt, h.Outcome, h.Reason, h.Message)
	}
	return line
}
