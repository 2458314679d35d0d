package e2e

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
)

const (
	// tells prints what its cancel file says as soon as it is told to stop, then cleans up and goes.
	tells = `trap 'echo told: $(cat "$LEASEHOLD_CANCEL_FILE"); exit 3' TERM; while :; do sleep 0.1; done`
	// deaf does not go.
	deaf = `trap "" TERM; while :; do sleep 1; done`
)

// edit changes a task's spec as its owner does.
func (s *story) edit(task *v1alpha1.LeasedTask, patch string) {
	s.Helper()
	s.kubectl("patch", "lt", "-n", s.namespace, task.Name, "--type=merge", "-p", patch)
}

func (s *story) cancel(task *v1alpha1.LeasedTask) {
	s.Helper()
	s.edit(task, `{"spec":{"cancel":{"reason":"no longer needed"}}}`)
}

func (s *story) suspend(task *v1alpha1.LeasedTask, yes bool) {
	s.Helper()
	s.edit(task, fmt.Sprintf(`{"spec":{"suspend":%t}}`, yes))
}

// untilGone waits until no process of the list exists, and says how long that took.
func (s *story) untilGone(pids []int, within time.Duration) time.Duration {
	s.Helper()
	s.must(len(pids) > 0, "no process was found")
	begin := time.Now()
	s.ok(s.Poll(s.ctx, within, func() error {
		for _, pid := range pids {
			if syscall.Kill(pid, 0) != syscall.ESRCH {
				return fmt.Errorf("process %d still exists", pid)
			}
		}
		return nil
	}))
	return time.Since(begin)
}

func (s *story) mustBeCancelled(task *v1alpha1.LeasedTask, evidence v1alpha1.Evidence) {
	s.Helper()
	s.untilFinished(task)
	s.must(task.Status.Phase == v1alpha1.PhaseCancelled && task.Status.Failures == 0 && task.Status.Disruptions == 0 && len(task.Status.History) == 1,
		"task %s: %s", task.Name, cluster.Describe(task))
	h := task.Status.History[0]
	s.must(h.Outcome == v1alpha1.AttemptStopped && h.Reason == fencing.ReasonCancelled && h.Evidence == evidence, "history %+v", h)
}

// slack is for a loaded machine, on top of what the documents promise.
const slack = 5 * time.Second

func TestCase23CancelReachesABusyWorkerWithTheReasonBeforeTheSignal(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("busy", tells, func(task *v1alpha1.LeasedTask) { task.Spec.StopGraceSeconds = 60 })
	s.untilRunning(task, 1)
	children := s.children(task)
	s.cancel(task)
	took := s.untilGone(children, 5*time.Second+slack) // it uses none of its grace
	s.mustBeCancelled(task, v1alpha1.EvidenceSubmission)
	t.Logf("no process %s after the request", took.Round(100*time.Millisecond))
	h := task.Status.History[0]
	s.must(h.ExitCode != nil && *h.ExitCode == 3 && strings.Contains(h.Message, "no longer needed"), "history %+v", h)
	logs := s.kubectl("logs", "-n", s.namespace, h.PodName, "-c", "worker")
	s.must(strings.Count(logs, "told: Cancelled no longer needed") == 1, "its log: %s", logs)
}

func TestCase23CancelReachesADeafWorkerWithinTheShorterGrace(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("deaf", deaf, func(task *v1alpha1.LeasedTask) { task.Spec.StopGraceSeconds = 60 })
	s.untilRunning(task, 1)
	children := s.children(task)
	s.edit(task, `{"spec":{"cancel":{"reason":"no longer needed","gracePeriodSeconds":2}}}`)
	took := s.untilGone(children, 2*time.Second+5*time.Second+slack)
	s.must(took > time.Second, "killed after %s, before its grace", took)
	s.mustBeCancelled(task, v1alpha1.EvidenceSubmission)
	s.must(*task.Status.History[0].ExitCode == 137, "history %+v", task.Status.History[0])
}

// TestCase23CancelOfAFrozenWorkerIsSaidOnlyOnceItIsFenced: nobody hears the stop, and nobody can be killed.
func TestCase23CancelOfAFrozenWorkerIsSaidOnlyOnceItIsFenced(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("frozen", deaf)
	s.untilRunning(task, 1)
	pod, children := task.Status.Holder.PodName, s.children(task)
	s.local("freeze", pod, "-n", s.namespace)
	begin := time.Now()
	s.cancel(task)
	s.untilFinished(task)
	took := time.Since(begin)
	s.must(task.Status.Phase == v1alpha1.PhaseCancelled && took > lease/2, "after %s: %s", took, cluster.Describe(task))
	s.must(took < lease/4+15*time.Second+lease+3*slack, "Cancelled only after %s", took)
	s.local("thaw", pod, "-n", s.namespace)
	s.untilGone(children, 10*time.Second+slack)
}

func TestCase22AWorkerThatFinishesThoughItIsCancelledHasSucceeded(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("finishes", `trap "" TERM; until [ -e "$LEASEHOLD_CANCEL_FILE" ]; do sleep 0.1; done; head -n1 "$LEASEHOLD_CANCEL_FILE" > "$LEASEHOLD_RESULT_FILE"`)
	s.untilRunning(task, 1)
	s.cancel(task)
	s.untilFinished(task)
	s.must(task.Status.Phase == v1alpha1.PhaseCompleted && *task.Status.Result == "Cancelled\n", "task %s", cluster.Describe(task))
}

func TestCase21CancelBeforeTheWorkerEverStarted(t *testing.T) {
	s := tell(t, sideBySide)
	waitsFor := func(task *v1alpha1.LeasedTask, reason string) {
		s.ok(s.Until(s.ctx, task, patience, "waiting for "+reason, func(task *v1alpha1.LeasedTask) bool {
			return strings.Contains(cluster.Describe(task), "waiting: "+reason)
		}))
	}
	nowhere := s.start("nowhere", "true", on("no-such-node"))
	unpulled := s.start("unpulled", "true", func(task *v1alpha1.LeasedTask) {
		task.Spec.Template.Spec.Containers[0].Image = "localhost:1/no/such:image"
	})
	atOnce := s.start("at-once", "true")
	s.cancel(atOnce)
	waitsFor(nowhere, v1alpha1.WaitingUnschedulable)
	s.cancel(nowhere)
	waitsFor(unpulled, v1alpha1.WaitingImagePull)
	s.cancel(unpulled)
	for _, task := range []*v1alpha1.LeasedTask{nowhere, unpulled, atOnce} {
		s.untilFinished(task)
		s.must(task.Status.Phase == v1alpha1.PhaseCancelled || task == atOnce && task.Status.Phase == v1alpha1.PhaseCompleted, // it is quick
			"task %s: %s", task.Name, cluster.Describe(task))
	}
	s.ok(s.Poll(s.ctx, 10*time.Second+slack, func() error {
		for _, task := range []*v1alpha1.LeasedTask{nowhere, unpulled} {
			if pods, err := s.Pods(s.ctx, task); err != nil || len(pods) > 0 {
				return fmt.Errorf("%d Pods of %s: %w", len(pods), task.Name, err)
			}
		}
		return nil
	}))
}

func TestCase26SuspendAndResumeInTheMiddleOfARun(t *testing.T) {
	s := tell(t, sideBySide)
	script := `[ "$LEASEHOLD_ATTEMPT" = 1 ] || { echo "$LEASEHOLD_FENCING_TOKEN" > "$LEASEHOLD_RESULT_FILE"; exit; }; ` + tells
	task := s.start("pausing", script, func(task *v1alpha1.LeasedTask) {
		task.Spec.Retry.MaxAttempts, task.Spec.Retry.MaxDisruptions = 1, new(int32(0)) // any charge would end it
	})
	s.untilRunning(task, 1)
	token, children := task.Status.FencingToken, s.children(task)
	s.suspend(task, true)
	s.ok(s.Until(s.ctx, task, patience, "suspended", func(task *v1alpha1.LeasedTask) bool {
		return strings.Contains(cluster.Describe(task), "waiting: "+v1alpha1.WaitingSuspended)
	}))
	s.untilGone(children, slack)
	s.must(task.Status.Phase == v1alpha1.PhaseAvailable && task.Status.History[0].Reason == fencing.ReasonSuspended, "task %s", cluster.Describe(task))
	s.suspend(task, false)
	s.untilFinished(task)
	s.must(task.Status.Phase == v1alpha1.PhaseCompleted && task.Status.Attempt == 2 && task.Status.FencingToken > token, "task %s", cluster.Describe(task))
	s.ok(s.Poll(s.ctx, patience, func() error { // the kubelet reports an end a little after the agent has submitted
		pods, err := s.Pods(s.ctx, task)
		for i := range pods {
			if pods[i].Status.Phase == corev1.PodRunning {
				err = errors.Join(err, fmt.Errorf("Pod %s still runs", pods[i].Name))
			}
		}
		return err
	}))
}
