package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
)

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

const (
	// echo copies the payload to the result.
	echo = `cat "$LEASEHOLD_PAYLOAD_FILE" > "$LEASEHOLD_RESULT_FILE"`
	// secondWins works only in the second attempt; the first one waits to be hurt.
	secondWins = `if [ "$LEASEHOLD_ATTEMPT" = 1 ]; then sleep 600; fi; echo "$LEASEHOLD_FENCING_TOKEN" > "$LEASEHOLD_RESULT_FILE"`
)

// mustHaveRecovered checks the end of secondWins: two attempts, a higher token, its result, and what the first one ended as.
func (s *story) mustHaveRecovered(task *v1alpha1.LeasedTask, firstToken int64, outcome v1alpha1.AttemptOutcome, reasons ...string) {
	s.Helper()
	s.untilFinished(task)
	st := task.Status
	s.must(st.Phase == v1alpha1.PhaseCompleted, "phase %s", st.Phase)
	s.must(st.Attempt == 2, "attempt %d, want 2: %+v", st.Attempt, st.History)
	s.must(st.FencingToken > firstToken, "token %d is not above %d", st.FencingToken, firstToken)
	s.must(len(st.History) == 2, "history %+v", st.History)
	first := st.History[0]
	s.must(first.Outcome == outcome, "first attempt: %+v", first)
	for _, reason := range reasons {
		if first.Reason == reason {
			return
		}
	}
	s.Fatalf("first attempt ended with reason %s (%s), want one of %v", first.Reason, first.Message, reasons)
}

func TestATaskCompletesAndItsResultAndTokenAreInTheStatus(t *testing.T) {
	s := tell(t, sideBySide)
	payload := "{\"name\": \"wörld\", \"shell\": \"$(HOME) 'quoted' \\u0000\"}\n"
	task := s.start("hello", echo, func(task *v1alpha1.LeasedTask) { task.Spec.Payload = &payload })
	s.untilFinished(task)
	st := task.Status
	s.must(st.Phase == v1alpha1.PhaseCompleted, "phase %s", st.Phase)
	s.must(st.Result != nil && *st.Result == payload, "result %q, want the payload byte for byte", *st.Result)
	s.must(st.Attempt == 1 && st.Failures == 0 && st.Disruptions == 0, "status %+v", st)
	s.must(st.FencingToken > 1<<fencing.EpochShift, "token %d is not in epoch 1 or above", st.FencingToken)
	s.must(st.StartTime != nil && st.CompletionTime != nil, "times %v %v", st.StartTime, st.CompletionTime)
	s.must(len(st.History) == 1 && st.History[0].NodeName != "", "history %+v", st.History)
	described := s.kubectl("describe", "lt", "-n", s.namespace, "hello")
	for _, want := range []string{"Granted", "Completed", "attempt 1 succeeded"} {
		s.must(strings.Contains(described, want), "kubectl describe does not say %q:\n%s", want, described)
	}
}

func TestAWorkerThatAlwaysFailsUsesItsBudgetAndIsDeadLettered(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("poison", "echo broken; exit 3", func(task *v1alpha1.LeasedTask) { task.Spec.Retry.MaxAttempts = 3 })
	s.untilFinished(task)
	st := task.Status
	s.must(st.Phase == v1alpha1.PhaseDeadLettered && st.Failures == 3 && st.Attempt == 3, "status %+v", st)
	for i, h := range st.History {
		s.must(h.Reason == fencing.ReasonNonZeroExit && h.ExitCode != nil && *h.ExitCode == 3, "history %+v", h)
		s.must(i == 0 || h.FencingToken > st.History[i-1].FencingToken, "tokens do not rise: %+v", st.History)
	}
	pods, err := s.Pods(s.ctx, task)
	s.ok(err)
	s.must(len(pods) == 3, "%d Pods, want 3, kept for their logs", len(pods))
	logs := s.kubectl("logs", "-n", s.namespace, pods[0].Name)
	s.must(strings.Contains(logs, "broken"), "logs: %s", logs)
}

func TestAPodDeletedByHandIsADisruptionAndTheNextAttemptHasAHigherToken(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("deleted", secondWins)
	s.untilRunning(task, 1)
	token := task.Status.FencingToken
	s.ok(s.Delete(s.ctx, s.holder(task)))
	s.mustHaveRecovered(task, token, v1alpha1.AttemptDisrupted, "PodDeleted", "Terminated")
	s.must(task.Status.Failures == 0 && task.Status.Disruptions == 1, "status %+v", task.Status)
}

func TestAnEvictedPodIsADisruption(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("evicted", secondWins)
	s.untilRunning(task, 1)
	token, pod := task.Status.FencingToken, s.holder(task)
	s.ok(s.SubResource("eviction").Create(s.ctx, pod, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}))
	s.mustHaveRecovered(task, token, v1alpha1.AttemptDisrupted, "EvictionByEvictionAPI", "PodDeleted", "Terminated")
	s.must(task.Status.Failures == 0 && task.Status.Disruptions == 1, "status %+v", task.Status)
}

func TestAnAgentKilledOutrightIsAFailureWithAReasonAndIsReplaced(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("killed", secondWins)
	s.untilRunning(task, 1)
	token := task.Status.FencingToken
	s.signal(task, syscall.SIGKILL)
	s.mustHaveRecovered(task, token, v1alpha1.AttemptFailed, "WorkerVanished")
	s.must(task.Status.Failures == 1, "status %+v", task.Status)
}

func TestAPodForceDeletedIsReplacedOnceItsLeaseHasRunOut(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("forced", secondWins)
	s.untilRunning(task, 1)
	token := task.Status.FencingToken
	s.ok(s.Delete(s.ctx, s.holder(task), client.GracePeriodSeconds(0)))
	s.mustHaveRecovered(task, token, v1alpha1.AttemptDisrupted, "PodDeleted", "Terminated")
}

func TestAFrozenWorkerIsReplacedAndItsLateSubmissionIsRefusedAndOnRecord(t *testing.T) {
	s := tell(t, sideBySide)
	// The first attempt is done, and succeeds, as soon as it is thawed: the most dangerous late submission.
	task := s.start("frozen", `[ "$LEASEHOLD_ATTEMPT" = 1 ] && sleep 15; echo "attempt $LEASEHOLD_ATTEMPT" > "$LEASEHOLD_RESULT_FILE"`)
	s.untilRunning(task, 1)
	token, pod := task.Status.FencingToken, task.Status.Holder.PodName
	s.local("freeze", pod, "-n", s.namespace)
	s.mustHaveRecovered(task, token, v1alpha1.AttemptFailed, "LeaseExpired")
	s.must(*task.Status.Result == "attempt 2\n", "result %q", *task.Status.Result)
	s.local("thaw", pod, "-n", s.namespace)
	s.ok(s.Until(s.ctx, task, patience, "aware of the late submission", func(task *v1alpha1.LeasedTask) bool {
		return task.Status.History[0].LateSubmission.Outcome != ""
	}))
	late := task.Status.History[0].LateSubmission
	s.must(late.FencingToken == token, "late submission %+v, want token %d", late, token)
	s.must(task.Status.Phase == v1alpha1.PhaseCompleted && *task.Status.Result == "attempt 2\n", "the second attempt's result no longer stands: %+v", task.Status)
}

func TestALeaseDeletedByHandIsARevokedTerm(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("lease-gone", secondWins)
	s.untilRunning(task, 1)
	token := task.Status.FencingToken
	s.kubectl("delete", "lease", "-n", s.namespace, task.Status.LeaseName)
	s.mustHaveRecovered(task, token, v1alpha1.AttemptDisrupted, "LeaseDeleted")
}

func TestALongTaskOutlivesManyLeasesUndisturbed(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("long", "sleep 60; echo done > $LEASEHOLD_RESULT_FILE")
	s.untilFinished(task)
	st := task.Status
	s.must(st.Phase == v1alpha1.PhaseCompleted && st.Attempt == 1 && st.Disruptions == 0, "status %+v", st)
	pods, err := s.Pods(s.ctx, task)
	s.ok(err)
	s.must(len(pods) == 1, "%d Pods, want 1", len(pods))
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

func TestANodeCutOffIsReplacedAndItsWorkerFencesItself(t *testing.T) {
	s := tell(t, alone)
	task := s.start("cut-off", secondWins, func(task *v1alpha1.LeasedTask) {
		// Prefer the node that will be cut off, and let the second attempt go elsewhere.
		task.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: hostname(node2)}},
		}}
	})
	s.untilRunning(task, 1)
	s.must(task.Status.Holder.NodeName == node2, "runs on %s", task.Status.Holder.NodeName)
	token, first := task.Status.FencingToken, task.Status.Holder.PodName
	s.kubectl("cordon", node2)
	t.Cleanup(func() { s.healed(node2) })
	children := s.children(task)
	s.local("partition", node2)
	s.untilRunningOrFinished(task, 2)
	for _, pid := range children {
		s.must(syscall.Kill(pid, 0) == syscall.ESRCH, "process %d of the first attempt still exists when the second has started", pid)
	}
	s.mustHaveRecovered(task, token, v1alpha1.AttemptFailed, "LeaseExpired", "NodeLost")
	s.healed(node2)
	s.ok(s.Until(s.ctx, task, patience, "aware of the late submission", func(task *v1alpha1.LeasedTask) bool {
		return task.Status.History[0].LateSubmission.Outcome != ""
	}))
	s.must(task.Status.History[0].PodName == first, "history %+v", task.Status.History[0])
}

func (s *story) untilRunningOrFinished(task *v1alpha1.LeasedTask, attempt int32) {
	s.Helper()
	s.ok(s.Until(s.ctx, task, patience, "in its next attempt", func(task *v1alpha1.LeasedTask) bool {
		isClaimed := task.Status.Phase == v1alpha1.PhaseRunning || task.Status.Phase.IsFinished()
		return isClaimed && task.Status.Attempt >= attempt
	}))
}

func on(node string) func(*v1alpha1.LeasedTask) {
	return func(task *v1alpha1.LeasedTask) {
		task.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
}

func hostname(node string) corev1.NodeSelectorTerm {
	return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
	}}
}

func TestHungWorkIsStoppedAtItsDeadlineThoughItsLeaseIsRenewed(t *testing.T) {
	s := tell(t, sideBySide)
	deadline := func(task *v1alpha1.LeasedTask) {
		task.Spec.Timeouts.AttemptSeconds, task.Spec.StopGraceSeconds, task.Spec.Retry.MaxAttempts = 3, 1, 1
	}
	hung := s.start("hung", `trap "" TERM; while :; do sleep 1; done`, deadline)
	polite := s.start("polite", `until [ -e "$LEASEHOLD_CANCEL_FILE" ]; do sleep 0.1; done; cat "$LEASEHOLD_CANCEL_FILE" > "$LEASEHOLD_RESULT_FILE"`, deadline)
	s.untilFinished(hung)
	end := hung.Status.History[0]
	s.must(hung.Status.Phase == v1alpha1.PhaseDeadLettered && end.Outcome == v1alpha1.AttemptFailed && end.Reason == "DeadlineExceeded" &&
		end.Evidence == v1alpha1.EvidenceSubmission, "task %s: %s", hung.Name, cluster.Describe(hung))
	s.untilFinished(polite)
	s.must(polite.Status.Phase == v1alpha1.PhaseCompleted && *polite.Status.Result == "DeadlineExceeded", "task %s: %s", polite.Name, cluster.Describe(polite))
}
