package api

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// TestABreakerStopsAFloodAndLetsAFewTry: two tasks fail in the same way, and nothing starts any more, while one that runs goes on;
// later one may try, and its success lets all start.
func TestABreakerStopsAFloodAndLetsAFewTry(t *testing.T) {
	s := withQueues(t)
	tq := s.makeQueue("bulk", v1alpha1.TaskQueueSpec{Concurrency: 3, Breaker: v1alpha1.BreakerSpec{SameFailures: 2, OpenSeconds: 8}})
	once := func(task *v1alpha1.LeasedTask) { task.Spec.Retry.MaxAttempts = 1 }
	var tasks []*v1alpha1.LeasedTask
	for i := range 3 {
		task := s.start(fmt.Sprintf("task-%d", i), inQueue("bulk"), once)
		s.untilGranted(task, 1)
		tasks = append(tasks, task)
	}
	agents := make([]*agent, len(tasks))
	for i, task := range tasks {
		agents[i] = s.agentOf(task)
		s.ok(agents[i].claimTerm())
	}
	for _, a := range agents[:2] {
		s.ok(a.submit(fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(7)), Message: "no such host db-1"}))
	}
	isOpen := func(reason string) func(*v1alpha1.TaskQueueStatus) bool {
		return func(status *v1alpha1.TaskQueueStatus) bool {
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionBreakerOpen)
			return c != nil && c.Reason == reason
		}
	}
	s.untilQueue(tq, "open", isOpen("SameFailures"))
	if b := tq.Status.Breaker; b.State != "Open" || b.Since == nil || len(b.Fingerprint) != 16 {
		t.Errorf("breaker %+v", b)
	}
	next := []*v1alpha1.LeasedTask{s.start("next-0", inQueue("bulk")), s.start("next-1", inQueue("bulk"))}
	for _, task := range next {
		s.until(task, "waiting", waitsFor(v1alpha1.WaitingBreakerOpen, "its breaker is open"))
	}
	s.ok(agents[2].renew())
	s.until(tasks[2], "going on", in(v1alpha1.PhaseRunning, 1))
	s.untilQueue(tq, "half-open", isOpen("HalfOpen"))
	probe, other := s.sorted(next[0], next[1])
	s.until(other, "waiting for the one that tries", waitsFor(v1alpha1.WaitingBreakerOpen, ""))
	a := s.agentOf(probe)
	s.ok(a.claimTerm())
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted}))
	s.untilGranted(other, 1)
	s.untilQueue(tq, "closed", isOpen(v1alpha1.ReasonBreakerClosed))

	s.changeQueue(tq, func(spec *v1alpha1.TaskQueueSpec) { spec.Breaker.Override = v1alpha1.BreakerForcedOpen })
	s.untilQueue(tq, "open by a person", isOpen("Override"))
	last := s.start("last", inQueue("bulk"))
	s.until(last, "waiting", waitsFor(v1alpha1.WaitingBreakerOpen, "its breaker is open"))
	s.changeQueue(tq, func(spec *v1alpha1.TaskQueueSpec) { spec.Breaker.Override = v1alpha1.BreakerForcedClosed })
	s.untilGranted(last, 1)
}
