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

// startOn starts tasks on a node and waits until they run there; their next attempts will go to the other one.
func (s *story) startOn(node string, script string, changes ...func(*v1alpha1.LeasedTask)) (tasks []*v1alpha1.LeasedTask) {
	s.Helper()
	other := otherThan(node)
	s.Cleanup(func() { _, _ = s.Kubectl(context.Background(), "uncordon", node1, node2) })
	s.kubectl("cordon", other)
	for i, change := range changes {
		tasks = append(tasks, s.start(fmt.Sprintf("t%d", i), script, change))
	}
	for _, task := range tasks {
		s.untilRunning(task, 1)
	}
	s.kubectl("uncordon", other)
	s.kubectl("cordon", node)
	return tasks
}

func otherThan(node string) string {
	if node == node1 {
		return node2
	}
	return node1
}

// asIs changes nothing.
func asIs(*v1alpha1.LeasedTask) {}

// spareNode is one that the operator's leader is not on: hurting it does not mix in a change of leader.
func (s *story) spareNode() string {
	s.Helper()
	return otherThan(s.leader().Spec.NodeName)
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
