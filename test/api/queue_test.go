package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

func TestAQueueNeverRunsMoreThanItsConcurrency(t *testing.T) {
	s := withQueues(t)
	tq := s.makeQueue("bulk", v1alpha1.TaskQueueSpec{Concurrency: 3})
	for i := range 30 {
		s.start(fmt.Sprintf("task-%02d", i), inQueue("bulk"))
	}
	s.untilQueue(tq, "full", counts(27, 3))
	s.work(50 * time.Millisecond)
	s.allFinish(30)
	starts, most := s.judge.seen()
	if most != 3 || len(starts) != 30 {
		t.Errorf("%d ran at the same time, %d started: %v", most, len(starts), starts)
	}
	s.untilQueue(tq, "empty", counts(0, 0))
}

func TestATaskThatGetsItsTurnAtOnceIsNotWrittenForIt(t *testing.T) {
	s := withQueues(t)
	s.makeQueue("bulk", v1alpha1.TaskQueueSpec{Concurrency: 3})
	versions := s.recordTasks()
	task := s.start("prompt", inQueue("bulk"))
	s.untilGranted(task, 1)
	const all = 3                                     // made, accepted, granted
	s.ok(s.Poll(t.Context(), patience, func() error { // the watch may be late
		if n := len(versions()); n < all {
			return fmt.Errorf("%d versions", n)
		}
		return nil
	}))
	for _, version := range versions() {
		if waitsFor(v1alpha1.WaitingQueueConcurrency, "")(version) || waitsFor(v1alpha1.WaitingQueueMissing, "")(version) {
			t.Errorf("it was told to wait: %+v", version.Status.Conditions)
		}
	}
	if n := len(versions()); n != all {
		t.Errorf("%d versions", n)
	}
}

func TestAQueueStartsByPriority(t *testing.T) {
	s := withQueues(t)
	tq := s.makeQueue("bulk", v1alpha1.TaskQueueSpec{Concurrency: 1, Paused: v1alpha1.PauseHold})
	for name, priority := range map[string]int32{"low": -5, "high": 5, "usual": 0, "raised": -10} {
		task := s.start(name, inQueue("bulk"), ofPriority(priority))
		s.until(task, "waiting", waitsFor(v1alpha1.WaitingQueuePaused, "spec.paused is Hold"))
		if name == "raised" {
			s.ok(s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) { spec.Priority = new(int32(10)) }))
			s.until(task, "seen to be raised", func(task *v1alpha1.LeasedTask) bool { return *task.Status.ObservedGeneration == task.Generation })
		}
	}
	s.untilQueue(tq, "held back", counts(4, 0))
	s.work(0)
	s.changeQueue(tq, func(spec *v1alpha1.TaskQueueSpec) { spec.Paused = "" })
	s.allFinish(4)
	starts, _ := s.judge.seen()
	if diff := cmp.Diff([]string{"raised", "high", "usual", "low"}, starts); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
}

func TestATenantAtItsLimitKeepsOnlyItselfWaiting(t *testing.T) {
	s := withQueues(t)
	s.makeQueue("bulk", v1alpha1.TaskQueueSpec{Concurrency: 3, Tenants: v1alpha1.TenantsSpec{Concurrency: 1,
		Overrides: []v1alpha1.TenantOverride{{Name: "large", Concurrency: 2}}}})
	s.judge.overlap = func(open map[string]bool) {
		of := map[string]int{}
		for task := range open {
			tenant, _, _ := strings.Cut(task, "-")
			of[tenant]++
		}
		if of["small"] > 1 || of["large"] > 2 {
			t.Errorf("at the same time: %v", of)
		}
	}
	first := s.start("small-0", inQueue("bulk"), ofTenant("small"))
	s.untilGranted(first, 1)
	second := s.start("small-1", inQueue("bulk"), ofTenant("small"))
	s.until(second, "waiting", waitsFor(v1alpha1.WaitingTenantConcurrency, "the concurrency of 1 of tenant small is used up; the task is among the next 1; held by LeasedTask small-0"))
	for i := range 3 {
		s.start(fmt.Sprintf("large-%d", i), inQueue("bulk"), ofTenant("large"))
	}
	s.work(50 * time.Millisecond)
	s.allFinish(5)
	if _, most := s.judge.seen(); most != 3 {
		t.Errorf("%d ran at the same time", most)
	}
}

func TestAQueueStartsAtItsRate(t *testing.T) {
	s := withQueues(t)
	s.makeQueue("bulk", v1alpha1.TaskQueueSpec{Dispatch: v1alpha1.DispatchSpec{Rate: 1, PeriodSeconds: 3, Algorithm: v1alpha1.RateLeakyBucket}})
	var last *v1alpha1.LeasedTask
	for i := range 4 {
		last = s.start(fmt.Sprintf("task-%d", i), inQueue("bulk"))
	}
	s.until(last, "waiting", waitsFor(v1alpha1.WaitingRateLimited, "it starts 1 in 3s"))
	s.work(0)
	s.allFinish(4)
	for i, at := range s.judge.times[1:] {
		if pause := at.Sub(s.judge.times[i]); pause < 2*time.Second { // the watch may tell of one late
			t.Errorf("start %d came after %s", i+1, pause)
		}
	}
}

func TestAQueueOnHoldAndDrained(t *testing.T) {
	s := withQueues(t)
	tq := s.makeQueue("bulk", v1alpha1.TaskQueueSpec{Concurrency: 1})
	task, a := s.claimed("runs", inQueue("bulk"))
	s.until(task, "running", in(v1alpha1.PhaseRunning, 1))

	s.changeQueue(tq, func(spec *v1alpha1.TaskQueueSpec) { spec.Paused = v1alpha1.PauseHold })
	s.untilQueue(tq, "on hold", func(status *v1alpha1.TaskQueueStatus) bool {
		c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPaused)
		return counts(0, 1)(status) && c != nil && c.Reason == v1alpha1.ReasonHeldBack
	})
	s.ok(a.renew())
	s.until(task, "still running", in(v1alpha1.PhaseRunning, 1))

	s.changeQueue(tq, func(spec *v1alpha1.TaskQueueSpec) { spec.Paused = v1alpha1.PauseDrain })
	s.until(task, "told to stop", func(task *v1alpha1.LeasedTask) bool {
		c := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionReady)
		return c.Reason == v1alpha1.ReasonStopping
	})
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Cancelled, Reason: fencing.ReasonDrained, ExitCode: new(int32(143))}))
	s.until(task, "paused", waitsFor(v1alpha1.WaitingQueuePaused, "spec.paused is Drain"))
	if st := task.Status; st.Failures != 0 || st.Disruptions != 0 || st.History[0].Reason != fencing.ReasonDrained || st.History[0].Outcome != v1alpha1.AttemptStopped {
		t.Errorf("status %+v", st)
	}
	s.untilQueue(tq, "drained", func(status *v1alpha1.TaskQueueStatus) bool {
		return counts(1, 0)(status) && meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionPaused).Reason == v1alpha1.ReasonDrained &&
			meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady)
	})
	s.changeQueue(tq, func(spec *v1alpha1.TaskQueueSpec) { spec.Paused = v1alpha1.PauseNo })
	s.untilGranted(task, 2)
}

func TestAQueueThatIsMissingIsWaitedForAndOneThatGoesStopsNothing(t *testing.T) {
	s := withQueues(t)
	first, second := s.start("first", inQueue("bulk")), s.start("second", inQueue("bulk"))
	s.until(first, "waiting", waitsFor(v1alpha1.WaitingQueueMissing, "there is no TaskQueue bulk"))
	s.until(second, "waiting", waitsFor(v1alpha1.WaitingQueueMissing, "there is no TaskQueue bulk"))
	tq := s.makeQueue("bulk", v1alpha1.TaskQueueSpec{Concurrency: 1})
	runs, waits := s.sorted(first, second)
	s.until(waits, "waiting for the other", waitsFor(v1alpha1.WaitingQueueConcurrency, "held by LeasedTask "+runs.Name))

	s.ok(admin.Delete(t.Context(), tq))
	s.until(waits, "without a queue", waitsFor(v1alpha1.WaitingQueueMissing, "there is no TaskQueue bulk"))
	a := s.agentOf(runs)
	s.ok(a.claimTerm())
	s.until(runs, "running", in(v1alpha1.PhaseRunning, 1))
	s.makeQueue("bulk", v1alpha1.TaskQueueSpec{Concurrency: 1})
	s.until(waits, "waiting again: who runs counts in the new queue, too", waitsFor(v1alpha1.WaitingQueueConcurrency, "held by LeasedTask "+runs.Name))
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted}))
	s.untilGranted(waits, 1)
	if _, most := s.judge.seen(); most != 1 {
		t.Errorf("%d ran at the same time", most)
	}
}

// sorted waits until one of two tasks is granted, and returns it first.
func (s *queueScene) sorted(a, b *v1alpha1.LeasedTask) (runs, waits *v1alpha1.LeasedTask) {
	s.Helper()
	s.ok(s.Poll(s.Context(), patience, func() error {
		for i, task := range []*v1alpha1.LeasedTask{a, b} {
			if err := admin.Get(s.Context(), client.ObjectKeyFromObject(task), task); err != nil {
				return err
			}
			if in(v1alpha1.PhaseClaimed, 1)(task) {
				runs, waits = task, []*v1alpha1.LeasedTask{b, a}[i]
				return nil
			}
		}
		return fmt.Errorf("neither %s nor %s is granted", a.Name, b.Name)
	}))
	return runs, waits
}

func TestCase21ATaskThatWaitsForCapacityCanBeCancelledMovedOrRunByAHigherLimit(t *testing.T) {
	s := withQueues(t)
	tq := s.makeQueue("bulk", v1alpha1.TaskQueueSpec{Concurrency: 1})
	s.untilGranted(s.start("runs", inQueue("bulk")), 1)
	unwanted, moved, last := s.start("unwanted", inQueue("bulk")), s.start("moved", inQueue("bulk")), s.start("last", inQueue("bulk"))
	for _, task := range []*v1alpha1.LeasedTask{unwanted, moved, last} {
		s.until(task, "waiting", waitsFor(v1alpha1.WaitingQueueConcurrency, "its concurrency of 1 is used up"))
	}
	s.ok(s.edit(unwanted, cancelled))
	s.untilCancelled(unwanted, patience)
	if unwanted.Status.Attempt != 0 || s.podsOf(unwanted) != 0 {
		t.Errorf("it ran: %+v", unwanted.Status)
	}
	s.ok(s.edit(moved, func(spec *v1alpha1.LeasedTaskSpec) { spec.QueueName = "" }))
	s.until(moved, "granted outside", in(v1alpha1.PhaseClaimed, 1))
	s.untilQueue(tq, "with one that waits", counts(1, 1))
	s.changeQueue(tq, func(spec *v1alpha1.TaskQueueSpec) { spec.Concurrency = 2 })
	s.untilGranted(last, 1)
	s.changeQueue(tq, func(spec *v1alpha1.TaskQueueSpec) { spec.Concurrency = 1 })
	s.until(s.start("later", inQueue("bulk")), "waiting", waitsFor(v1alpha1.WaitingQueueConcurrency, "its concurrency of 1 is used up; the task is among the next 1; held by LeasedTask last, runs"))
}

func TestTheNextAttemptTakesATurn(t *testing.T) {
	s := withQueues(t)
	s.makeQueue("bulk", v1alpha1.TaskQueueSpec{Concurrency: 1})
	task := s.start("fails", inQueue("bulk"))
	s.untilGranted(task, 1)
	next := s.start("next", inQueue("bulk"))
	s.until(next, "waiting", waitsFor(v1alpha1.WaitingQueueConcurrency, "fails"))
	a := s.agentOf(task)
	s.ok(a.claimTerm())
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(1))}))
	s.until(next, "granted while the first pauses", in(v1alpha1.PhaseClaimed, 1))
	s.until(task, "waiting for its turn", waitsFor(v1alpha1.WaitingQueueConcurrency, "next"))
	a = s.agentOf(next)
	s.ok(a.claimTerm())
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted}))
	s.untilGranted(task, 2)
	starts, most := s.judge.seen()
	if !slices.Equal(starts, []string{"fails", "next", "fails"}) || most != 1 {
		t.Errorf("%v, %d at the same time", starts, most)
	}
}

// TestATaskWhosePodIsRefusedKeepsItsPlace: it was granted, and the answer about its Pod comes after that.
func TestATaskWhosePodIsRefusedKeepsItsPlace(t *testing.T) {
	s := withQueues(t)
	s.closeQuota()
	tq := s.makeQueue("bulk", v1alpha1.TaskQueueSpec{Concurrency: 1})
	for i := range 4 {
		s.start(fmt.Sprintf("task-%d", i), inQueue("bulk"))
	}
	s.untilQueue(tq, "full", counts(3, 1))
	time.Sleep(2 * time.Second)
	if starts, most := s.judge.seen(); most != 1 || len(starts) != 1 {
		t.Errorf("%v started, %d at the same time", starts, most)
	}
}

func TestADeletedTaskLeavesItsQueueAtOnce(t *testing.T) {
	s := withQueues(t)
	tq := s.makeQueue("bulk", v1alpha1.TaskQueueSpec{Concurrency: 1})
	first := s.start("first", inQueue("bulk"))
	s.untilGranted(first, 1)
	second, third := s.start("second", inQueue("bulk")), s.start("third", inQueue("bulk"))
	s.untilQueue(tq, "with two that wait", counts(2, 1))
	s.ok(admin.Delete(t.Context(), second))
	s.untilQueue(tq, "with one that waits", counts(1, 1))
	s.ok(admin.Delete(t.Context(), first))
	s.untilGranted(third, 1)
	s.untilQueue(tq, "with one that runs", counts(0, 1))
}
