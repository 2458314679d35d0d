package api

import (
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/leasehold-io/leasehold/api/env"
	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

func total(seconds int32) func(*v1alpha1.LeasedTask) {
	return func(task *v1alpha1.LeasedTask) { task.Spec.Timeouts.TotalSeconds = seconds }
}

// untilOutOfTime waits for the end of a task whose total time is over, and returns its dead letter.
func (s *scene) untilOutOfTime(task *v1alpha1.LeasedTask) *v1alpha1.DeadLetter {
	s.Helper()
	s.until(task, "dead-lettered", func(task *v1alpha1.LeasedTask) bool { return task.Status.Phase == v1alpha1.PhaseDeadLettered })
	stalled := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionStalled)
	s.must(stalled.Reason == v1alpha1.ReasonDeadlineExceeded && strings.Contains(stalled.Message, "timeouts.totalSeconds"), "condition %+v", stalled)
	dead := &v1alpha1.DeadLetter{}
	s.ok(admin.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: task.Status.DeadLetterName}, dead))
	s.must(dead.Spec.Reason == v1alpha1.ReasonDeadlineExceeded && dead.Spec.Message == stalled.Message, "dead letter %+v", dead.Spec)
	s.must(!task.Status.CompletionTime.Time.Before(task.Status.Deadline.Time), "it ended at %s, its deadline was %s", task.Status.CompletionTime, task.Status.Deadline)
	return dead
}

func TestTheTotalTimeEndsATaskThatWaits(t *testing.T) {
	s := sideBySide(t, nil)
	backoff := func(task *v1alpha1.LeasedTask) {
		task.Spec.Retry.Backoff = v1alpha1.BackoffSpec{InitialSeconds: 300, Jitter: v1alpha1.JitterNone}
	}
	waits := s.start("waits", total(6), backoff)
	starts := s.start("starts", total(3))
	later := s.start("later", total(2), func(task *v1alpha1.LeasedTask) {
		task.Spec.StartAfter = new(metav1.NewTime(time.Now().Add(2 * time.Second)))
	})
	s.untilGranted(waits, 1)
	s.fails(waits, "not yet")
	s.untilOutOfTime(starts) // its Pod has no kubelet
	s.must(len(starts.Status.History) == 1 && starts.Status.History[0].Outcome == v1alpha1.AttemptStopped, "history %+v", starts.Status.History)
	s.mustHaveNoPod(starts)
	s.untilOutOfTime(later)
	s.must(later.Status.Deadline.Sub(later.Spec.StartAfter.Time) >= 2*time.Second, "deadline %s, not before %s", later.Status.Deadline, later.Spec.StartAfter)
	dead := s.untilOutOfTime(waits)
	s.must(dead.Spec.Failures == 1 && waits.Status.Attempt == 1, "dead letter %+v", dead.Spec)
}

func TestTheTotalTimeStopsAWorker(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("works", total(6))
	s.untilGranted(task, 1)
	told := ""
	for _, v := range s.untilPod(task).Spec.Containers[0].Env {
		if v.Name == env.AgentTaskDeadline {
			told = v.Value
		}
	}
	s.must(told == task.Status.Deadline.UTC().Format(time.RFC3339), "its agent is told %q, the deadline is %s", told, task.Status.Deadline)
	a := s.agentOf(task)
	s.ok(a.claimTerm())
	stop := a.untilTold(fencing.ReasonDeadlineExceeded)
	s.must(strings.Contains(stop.Message, "timeouts.totalSeconds is 6s"), "stop %+v", stop)
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Cancelled, Reason: stop.Reason}))
	dead := s.untilOutOfTime(task)
	entry := dead.Spec.History[0]
	s.must(entry.Outcome == v1alpha1.AttemptStopped && entry.Reason == fencing.ReasonDeadlineExceeded && dead.Spec.Failures+dead.Spec.Disruptions == 0, "dead letter %+v", dead.Spec)

	wins := s.start("wins", total(5))
	s.untilGranted(wins, 1)
	a = s.agentOf(wins)
	s.ok(a.claimTerm())
	a.untilTold(fencing.ReasonDeadlineExceeded)
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Result: new("42")}))
	s.until(wins, "completed", in(v1alpha1.PhaseCompleted, 1))
}

// TestCase25TheTotalTimeStandsStillWhileTheTaskIsSuspended: what was left is left.
func TestCase25TheTotalTimeStandsStillWhileTheTaskIsSuspended(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("paused", total(30), func(task *v1alpha1.LeasedTask) { suspended(true)(&task.Spec) })
	s.until(task, "suspended", waitsFor(v1alpha1.WaitingSuspended, ""))
	s.must(task.Status.RemainingSeconds != nil && *task.Status.RemainingSeconds == 30 && task.Status.Deadline == nil, "status %+v", task.Status)
	version := task.ResourceVersion
	time.Sleep(3 * time.Second)
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(task), task))
	s.must(task.ResourceVersion == version, "a task whose clock stands still is written")
	s.ok(s.edit(task, suspended(false)))
	s.untilGranted(task, 1)
	left := time.Until(task.Status.Deadline.Time)
	s.must(left > 20*time.Second && left <= 31*time.Second && task.Status.RemainingSeconds == nil, "%s are left: %+v", left, task.Status)

	s.ok(s.edit(task, suspended(true)))
	s.until(task, "suspended again", func(task *v1alpha1.LeasedTask) bool { return task.Status.RemainingSeconds != nil })
	s.must(*task.Status.RemainingSeconds > 15 && *task.Status.RemainingSeconds <= 30 && task.Status.Deadline == nil, "status %+v", task.Status)
	if err := s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) { spec.Timeouts.TotalSeconds = 60 }); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "immutable") {
		t.Errorf("a changed total: %v", err)
	}
}

func TestTheTotalTimeIsImmutableFromTheAcceptance(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("accepted", total(600), func(task *v1alpha1.LeasedTask) { suspended(true)(&task.Spec) })
	s.until(task, "suspended", waitsFor(v1alpha1.WaitingSuspended, ""))
	for what, change := range map[string]func(*v1alpha1.LeasedTaskSpec){
		"raised":  func(spec *v1alpha1.LeasedTaskSpec) { spec.Timeouts.TotalSeconds = 601 },
		"removed": func(spec *v1alpha1.LeasedTaskSpec) { spec.Timeouts = v1alpha1.TimeoutsSpec{} },
	} {
		if err := s.edit(task, change); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.timeouts.totalSeconds") {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.ok(s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) { spec.Timeouts.AttemptSeconds = 60 })) // not before the first grant
}
