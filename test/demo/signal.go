package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// signalScript signals every process of a container. Its id is part of the cgroup's path under every runtime and cgroup driver.
// It looks several times, for what was forked meanwhile, and reports how many there were in the termination message.
const signalScript = `
done=
for pass in 1 2 3; do
  for file in $(grep -ls "$CONTAINER" /proc/[0-9]*/cgroup); do
    pid=${file#/proc/}; pid=${pid%/cgroup}
    case "$done " in *" $pid "*) continue;; esac
    kill -s "$FIRST" "$pid" && done="$done $pid"
  done
done
set -- $done
[ "$FIRST" = "$SIGNAL" ] || kill -s "$SIGNAL" "$@"
echo $# > /dev/termination-log
[ $# -gt 0 ]`

// signal sends a signal to all processes of the Pod that holds the task's term, from outside, and returns how many there are.
// A privileged Pod on the same node does it, which works in every cluster.
func (s *stage) signal(ctx context.Context, task *v1alpha1.LeasedTask, signal string) (count int, err error) {
	container, err := s.containerID(ctx, task)
	if err != nil {
		return 0, err
	}
	pod := s.signaller(task.Status.Holder.NodeName, container, signal)
	if err := s.Create(ctx, pod); err != nil {
		return 0, err
	}
	err = s.Poll(ctx, patience, func() error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			return fmt.Errorf("the Pod %s that should send SIG%s on %s is %s", pod.Name, signal, pod.Spec.NodeName, pod.Status.Phase)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, status := range pod.Status.ContainerStatuses {
		if end := status.State.Terminated; end != nil && end.ExitCode == 0 {
			return strconv.Atoi(strings.TrimSpace(end.Message))
		}
	}
	return 0, fmt.Errorf("SIG%s did not reach the container %s on %s: %+v", signal, container, pod.Spec.NodeName, pod.Status.ContainerStatuses)
}

// containerID is the id of the worker's container; the kubelet reports it a moment after the worker has claimed.
func (s *stage) containerID(ctx context.Context, task *v1alpha1.LeasedTask) (id string, err error) {
	err = s.Poll(ctx, patience, func() error {
		pod := &corev1.Pod{}
		if err := s.Get(ctx, types.NamespacedName{Namespace: task.Namespace, Name: task.Status.Holder.PodName}, pod); err != nil {
			return err
		}
		for _, status := range pod.Status.ContainerStatuses {
			if _, id, _ = strings.Cut(status.ContainerID, "://"); id != "" && status.State.Running != nil {
				return nil
			}
		}
		return fmt.Errorf("the worker of Pod %s is not seen running: %s", pod.Name, cluster.Describe(task))
	})
	return id, err
}

func (s *stage) signaller(node, container, signal string) *corev1.Pod {
	first := signal
	if signal == "KILL" { // stopped first, so that the agent does not see its child die and report it
		first = "STOP"
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.backstage, GenerateName: "sig" + strings.ToLower(signal) + "-"},
		Spec: corev1.PodSpec{
			NodeName:                      node,
			HostPID:                       true,
			RestartPolicy:                 corev1.RestartPolicyNever,
			ActiveDeadlineSeconds:         new(int64(patience / time.Second)),
			TerminationGracePeriodSeconds: new(int64(0)),
			AutomountServiceAccountToken:  new(false),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "signal", Image: cluster.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Command:         []string{"sh", "-c", signalScript},
				Env:             []corev1.EnvVar{{Name: "CONTAINER", Value: container}, {Name: "FIRST", Value: first}, {Name: "SIGNAL", Value: signal}},
				SecurityContext: &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0))},
			}},
		},
	}
}
