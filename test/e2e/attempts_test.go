package e2e

import (
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/leasehold-io/leasehold/api/env"
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
	// secondTells is the same, and its result is when the second attempt's command was started: see startedAt.
	secondTells = `if [ "$LEASEHOLD_ATTEMPT" = 1 ]; then sleep 600; fi; ` + tellStart
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
	s.must(slices.Contains(reasons, first.Reason), "first attempt ended with reason %s (%s), want one of %v", first.Reason, first.Message, reasons)
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

func TestCase01APodDeletedByHandIsADisruptionAndTheNextAttemptHasAHigherToken(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("deleted", secondWins)
	s.untilRunning(task, 1)
	token := task.Status.FencingToken
	s.ok(s.Delete(s.ctx, s.holder(task)))
	s.mustHaveRecovered(task, token, v1alpha1.AttemptDisrupted, "PodDeleted", "Terminated")
	s.must(task.Status.Failures == 0 && task.Status.Disruptions == 1, "status %+v", task.Status)
}

func TestCase01AnEvictedPodIsADisruption(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("evicted", secondWins)
	s.untilRunning(task, 1)
	token, pod := task.Status.FencingToken, s.holder(task)
	s.ok(s.SubResource("eviction").Create(s.ctx, pod, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}))
	s.mustHaveRecovered(task, token, v1alpha1.AttemptDisrupted, "EvictionByEvictionAPI", "PodDeleted", "Terminated")
	s.must(task.Status.Failures == 0 && task.Status.Disruptions == 1, "status %+v", task.Status)
}

func TestCase07AnAgentKilledOutrightIsAFailureWithAReasonAndIsReplaced(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("killed", secondWins)
	s.untilRunning(task, 1)
	token := task.Status.FencingToken
	s.signal(task, syscall.SIGKILL)
	s.mustHaveRecovered(task, token, v1alpha1.AttemptFailed, "WorkerVanished")
	s.must(task.Status.Failures == 1, "status %+v", task.Status)
}

func TestAWorkerKilledForMemoryIsAFailureThatSaysSo(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("hungry", "tail /dev/zero", func(task *v1alpha1.LeasedTask) { // it looks for the end of the first line
		task.Spec.Retry.MaxAttempts = 1
		task.Spec.Template.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
	})
	s.untilFinished(task)
	st := task.Status
	s.must(st.Phase == v1alpha1.PhaseDeadLettered && st.Failures == 1 && st.History[0].Reason == fencing.ReasonOOMKilled, "status %+v", st)
}

func TestCase02APodForceDeletedIsReplacedOnceItsLeaseHasRunOut(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("forced", secondWins)
	s.untilRunning(task, 1)
	token := task.Status.FencingToken
	s.ok(s.Delete(s.ctx, s.holder(task), client.GracePeriodSeconds(0)))
	s.mustHaveRecovered(task, token, v1alpha1.AttemptDisrupted, "PodDeleted", "Terminated")
}

func TestCase15AFrozenWorkerIsReplacedAndItsLateSubmissionIsRefusedAndOnRecord(t *testing.T) {
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

func TestCase16ALongTaskOutlivesManyLeasesUndisturbed(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("long", "sleep 60; echo done > $LEASEHOLD_RESULT_FILE")
	s.untilFinished(task)
	st := task.Status
	s.must(st.Phase == v1alpha1.PhaseCompleted && st.Attempt == 1 && st.Disruptions == 0, "status %+v", st)
	pods, err := s.Pods(s.ctx, task)
	s.ok(err)
	s.must(len(pods) == 1, "%d Pods, want 1", len(pods))
}

func TestCase11ASecondAgentInTheSameContainerExitsWithoutStartingItsCommand(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("twice", `sleep 20; ls "$(dirname "$LEASEHOLD_RESULT_FILE")" > "$LEASEHOLD_RESULT_FILE"`)
	s.untilRunning(task, 1)
	claim, children := s.claimOf(task), s.children(task)
	// Same binary, environment, token and Pod: what a container that is started again in place would run.
	_, err := s.Kubectl(s.ctx, "exec", "-n", s.namespace, task.Status.Holder.PodName, "-c", "worker", "--",
		env.AgentPath, "--", "touch", path.Join(env.RunDir, "second-ran"))
	s.must(err != nil && strings.Contains(err.Error(), "exit code 121"), "the second agent ended with: %v", err)
	s.must(s.claimOf(task) == claim, "the claim is %s, was %s", s.claimOf(task), claim)
	s.must(slices.Equal(s.children(task), children), "the first agent's children were %v, are %v", children, s.children(task))
	s.untilFinished(task)
	st := task.Status
	s.must(st.Phase == v1alpha1.PhaseCompleted && st.Attempt == 1 && st.Disruptions == 0, "status %+v", st)
	s.must(!strings.Contains(*st.Result, "second-ran"), "the second agent started its command: %q", *st.Result)
}

func TestCase19HungWorkIsStoppedAtItsDeadlineThoughItsLeaseIsRenewed(t *testing.T) {
	s := tell(t, sideBySide)
	deadline := func(task *v1alpha1.LeasedTask) {
		task.Spec.Timeouts.AttemptSeconds, task.Spec.StopGraceSeconds, task.Spec.Retry.MaxAttempts = 3, 1, 1
	}
	hung := s.start("hung", `trap "" TERM; while :; do sleep 1; done`, deadline)
	polite := s.start("polite", `trap "" TERM; until [ -e "$LEASEHOLD_CANCEL_FILE" ]; do sleep 0.1; done; cat "$LEASEHOLD_CANCEL_FILE" > "$LEASEHOLD_RESULT_FILE"`, deadline)
	s.untilFinished(hung)
	end := hung.Status.History[0]
	s.must(hung.Status.Phase == v1alpha1.PhaseDeadLettered && end.Outcome == v1alpha1.AttemptFailed && end.Reason == "DeadlineExceeded" &&
		end.Evidence == v1alpha1.EvidenceSubmission, "task %s: %s", hung.Name, cluster.Describe(hung))
	s.untilFinished(polite)
	s.must(polite.Status.Phase == v1alpha1.PhaseCompleted && *polite.Status.Result == "DeadlineExceeded", "task %s: %s", polite.Name, cluster.Describe(polite))
}

func TestATaskOfTheLongestNameCompletes(t *testing.T) {
	s := tell(t, sideBySide)
	name := strings.Repeat("a.", 126) + "z"
	task := s.start(name, `echo "$LEASEHOLD_TASK" > "$LEASEHOLD_RESULT_FILE"`)
	s.untilFinished(task)
	s.must(task.Status.Phase == v1alpha1.PhaseCompleted && *task.Status.Result == name+"\n", "status %+v", task.Status)
}
