package e2e

import (
	"strings"
	"testing"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// TestTheTotalTimeReachesAWorkerThatKnewOfIt: it is told beforehand when, then that it is over, and no attempt follows.
func TestTheTotalTimeReachesAWorkerThatKnewOfIt(t *testing.T) {
	s := tell(t, sideBySide)
	task := s.start("busy", `echo until: $LEASEHOLD_DEADLINE; `+tells, func(task *v1alpha1.LeasedTask) { task.Spec.Timeouts.TotalSeconds = 30 })
	s.untilRunning(task, 1)
	deadline, children := task.Status.Deadline.Time, s.children(task)
	s.untilGone(children, time.Until(deadline)+5*time.Second+slack)
	s.must(!time.Now().Before(deadline.Add(-time.Second)), "it was stopped at %s, its deadline is %s", time.Now(), deadline)
	s.untilFinished(task)
	h := task.Status.History[0]
	s.must(task.Status.Phase == v1alpha1.PhaseDeadLettered && h.Outcome == v1alpha1.AttemptStopped && h.Reason == fencing.ReasonDeadlineExceeded &&
		h.Evidence == v1alpha1.EvidenceSubmission && *h.ExitCode == 3 && len(task.Status.History) == 1, "task %s: %+v", cluster.Describe(task), h)
	s.must(s.deadLetterOf(task).Spec.Reason == v1alpha1.ReasonDeadlineExceeded, "dead letter %+v", s.deadLetterOf(task).Spec)
	logs := s.kubectl("logs", "-n", s.namespace, h.PodName, "-c", "worker")
	s.must(strings.Contains(logs, "until: "+deadline.UTC().Format(time.RFC3339)), "its log: %s", logs)
	s.must(strings.Contains(logs, "told: DeadlineExceeded the task's total time is over: timeouts.totalSeconds is 30s"), "its log: %s", logs)
}
