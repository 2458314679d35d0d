package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/leasehold-io/leasehold/api/env"
	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// on binds a task to a node.
func on(node string) func(*v1alpha1.LeasedTask) {
	return func(task *v1alpha1.LeasedTask) {
		task.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
}

// firstOn prefers a node, and lets attempts go elsewhere once it is cordoned or lost.
func firstOn(node string) func(*v1alpha1.LeasedTask) {
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
	}}
	return func(task *v1alpha1.LeasedTask) {
		task.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: term}},
		}}
	}
}

// untilRunningOn waits for the first attempt, which must have gone to the node.
func (s *story) untilRunningOn(task *v1alpha1.LeasedTask, node string) {
	s.Helper()
	s.untilRunning(task, 1)
	s.must(task.Status.Holder.NodeName == node, "%s runs on %s, want %s", task.Name, task.Status.Holder.NodeName, node)
}

// spareNode is one that the operator's leader is not on: hurting it does not mix in a change of leader.
func (s *story) spareNode() string {
	s.Helper()
	if s.leader().Spec.NodeName == node1 {
		return node2
	}
	return node1
}

func (s *story) untilReady(node string) {
	s.Helper()
	s.ok(s.Poll(context.Background(), patience, func() error {
		n := &corev1.Node{}
		if err := s.Get(context.Background(), key("", node), n); err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("node %s is not ready", node)
	}))
}

// healed puts a node back to work.
func (s *story) healed(node string) {
	s.Helper()
	ctx := context.Background()
	_, err := s.Localcluster(ctx, "heal", node)
	s.ok(err)
	_, err = s.Kubectl(ctx, "uncordon", node)
	s.ok(err)
	s.untilReady(node)
}

// children are the processes of the holder's Pod without its agent, which outlives them to submit.
func (s *story) children(task *v1alpha1.LeasedTask) (pids []int) {
	s.Helper()
	for _, pid := range s.pids(task) {
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		s.ok(err)
		if !strings.HasPrefix(string(command), env.AgentPath) {
			pids = append(pids, pid)
		}
	}
	s.must(len(pids) > 0, "Pod %s has an agent only", task.Status.Holder.PodName)
	return pids
}

// pids are the processes of the holder's Pod, as its node sees them.
func (s *story) pids(task *v1alpha1.LeasedTask) (pids []int) {
	s.Helper()
	for line := range strings.Lines(s.local("node-pids", task.Status.Holder.PodName, "-n", s.namespace)) {
		pid, err := strconv.Atoi(strings.Fields(line)[0])
		s.ok(err)
		pids = append(pids, pid)
	}
	s.must(len(pids) > 0, "Pod %s has no processes", task.Status.Holder.PodName)
	return pids
}

// signal sends a signal to every process of the worker's Pod, from outside.
func (s *story) signal(task *v1alpha1.LeasedTask, sig syscall.Signal) {
	s.Helper()
	for _, pid := range s.pids(task) {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			s.Fatal(err)
		}
	}
}
