package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

func TestKubeletStoppedWhileATaskRunsDisturbsNothing(t *testing.T) {
	s := tell(t, alone)
	task := s.start("no-kubelet", "sleep 25; echo done > $LEASEHOLD_RESULT_FILE", on(node1))
	s.untilRunning(task, 1)
	s.local("stop-kubelet", node1)
	t.Cleanup(func() { _, _ = s.Localcluster(context.Background(), "start-kubelet", node1) })
	s.untilFinished(task)
	s.local("start-kubelet", node1)
	s.must(task.Status.Phase == v1alpha1.PhaseCompleted && task.Status.Attempt == 1, "status %+v", task.Status)
	s.untilReady(node1)
}

func TestCase03ANodeCutOffIsReplacedAndItsWorkerFencesItself(t *testing.T) {
	tell(t, alone).cutOff("both")
}

func TestANodeThatIsNotHeardIsReplacedAndItsWorkerFencesItself(t *testing.T) {
	tell(t, alone).cutOff("from")
}

func TestANodeThatHearsNoAnswerFencesItsWorkerAlthoughItsRenewalArrives(t *testing.T) {
	tell(t, alone).cutOff("to")
}

// cutOff loses a node's packets in the given direction while three tasks run on it. The second also loses its Pod, by a forced
// deletion that the node does not hear of. Of both, no process is alive when the next attempt's is started elsewhere. The third
// has chosen to continue: it does run beside its successor, until it is told.
func (s *story) cutOff(direction string) {
	s.Helper()
	node := s.spareNode()
	tasks := s.startOn(node, secondTells, asIs, asIs, onRenewalFailureContinue)
	var tokens []int64
	var children []*vigil
	for _, task := range tasks {
		tokens, children = append(tokens, task.Status.FencingToken), append(children, s.watch(task))
	}
	s.Cleanup(func() { s.healed(node) })

	s.local("partition", node, "--direction", direction)
	cut := boottime()
	s.ok(s.Delete(s.ctx, s.holder(tasks[1]), client.GracePeriodSeconds(0)))
	if direction == "to" {
		s.untilRenewedAfter(tasks[0], s.renewTime(tasks[0]))
	}
	for i, task := range tasks {
		s.mustHaveBeenReplaced(task, tokens[i])
		if i < 2 {
			s.mustBeDeadBefore(children[i], s.startedAt(task), "the second one's start")
			s.mustBeDeadBefore(children[i], cut+lease, "the end of the last lease that it knows of") // the last success was before the cut
		}
	}
	s.mustLive(children[2], "the worker that continues")

	s.healed(node)
	for _, i := range []int{0, 2} {
		s.ok(s.Until(s.ctx, tasks[i], patience, "aware of the late submission", func(task *v1alpha1.LeasedTask) bool {
			return task.Status.History[0].LateSubmission.Outcome != ""
		}))
		late := tasks[i].Status.History[0].LateSubmission
		s.must(late.Outcome == string(fencing.Fenced) && late.FencingToken == tokens[i], "late submission %+v, want Fenced under token %d", late, tokens[i])
		_, isOver := children[i].last()
		s.must(isOver, "the first attempt of %s is alive, and its agent has submitted", tasks[i].Name)
	}
}

// mustHaveBeenReplaced: the first attempt ended without a word. Its node may have been found out to be lost by then.
func (s *story) mustHaveBeenReplaced(task *v1alpha1.LeasedTask, firstToken int64) {
	s.Helper()
	s.untilFinished(task)
	outcome := v1alpha1.AttemptFailed
	if task.Status.History[0].Reason != plan.ReasonLeaseExpired {
		outcome = v1alpha1.AttemptDisrupted
	}
	s.mustHaveRecovered(task, firstToken, outcome, plan.ReasonLeaseExpired, plan.ReasonNodeLost, plan.ReasonPodDeleted)
}

func TestCase03ADeletedNodesWorkerFencesItselfOnceItsPodIsCollected(t *testing.T) {
	s := tell(t, alone)
	node := s.spareNode()
	task := s.startOn(node, secondTells, asIs)[0]
	token, pod, children := task.Status.FencingToken, s.holder(task), s.watch(task)
	s.local("stop-kubelet", node) // or the node comes back at once
	t.Cleanup(func() { _, _ = s.Localcluster(context.Background(), "up") })
	s.kubectl("delete", "node", node)
	s.ok(s.Poll(s.ctx, patience, func() error { // by the garbage collector of Pods, 40 s to 60 s later
		err := s.Get(s.ctx, client.ObjectKeyFromObject(pod), pod)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("Pod %s is still there", pod.Name))
	}))
	s.mustLive(children, "the worker whose Pod was collected")
	s.must(task.Status.Attempt == 1, "attempt %d before the Pod was collected", task.Status.Attempt)
	s.mustHaveBeenReplaced(task, token)
	s.must(task.Status.Failures == 0, "status %+v", task.Status)
	s.mustBeDeadBefore(children, s.startedAt(task), "the start of the second")

	s.local("up") // kubelet and kube-proxy, which ends with its node
	s.untilReady(node)
	again := s.start("again", echo, on(node))
	s.untilFinished(again)
	s.must(again.Status.Phase == v1alpha1.PhaseCompleted, "the node is back and does not work: %+v", again.Status)
}

// renewTime is the time that the worker wrote with its last renewal that arrived.
func (s *story) renewTime(task *v1alpha1.LeasedTask) time.Time {
	s.Helper()
	term := &coordinationv1.Lease{}
	s.ok(s.Get(s.ctx, key(task.Namespace, task.Status.LeaseName), term))
	s.must(term.Spec.RenewTime != nil, "Lease %s was never renewed", term.Name)
	return term.Spec.RenewTime.Time
}

// untilRenewedAfter waits for a renewal, which is due within a quarter of the lease.
func (s *story) untilRenewedAfter(task *v1alpha1.LeasedTask, last time.Time) {
	s.Helper()
	s.ok(s.Poll(s.ctx, lease/2, func() error {
		if !s.renewTime(task).After(last) {
			return fmt.Errorf("the Lease of %s was last renewed %s", task.Name, last)
		}
		return nil
	}))
}
