package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

func TestCase18ARestartOfTheAPIServerLosesNothingAndUsesNoAttempt(t *testing.T) {
	s := tell(t, alone)
	tasks := make([]*v1alpha1.LeasedTask, 6)
	for i := range tasks { // they end before, during and after; with the default lease, trust outlives a restart
		tasks[i] = s.start(fmt.Sprintf("t%d", i), fmt.Sprintf("sleep %d; echo done > $LEASEHOLD_RESULT_FILE", 5+4*i),
			func(task *v1alpha1.LeasedTask) { task.Spec.Lease.DurationSeconds = 0 })
	}
	s.untilRunning(tasks[len(tasks)-1], 1)
	s.apiStopped()
	s.local("api-start")
	for _, task := range tasks {
		s.mustHaveRunOnce(task)
	}
}

func TestAnAPIServerStoppedForThreeLeasesFencesTheWorkersThatSaySoAndNoOthers(t *testing.T) {
	s := tell(t, alone)
	const outage = 3 * lease
	fenced := s.start("fence", secondTells)
	through := s.start("continue", fmt.Sprintf("sleep %.0f; echo done > $LEASEHOLD_RESULT_FILE", (outage+2*lease).Seconds()), onRenewalFailureContinue)
	during := s.start("ends-meanwhile", fmt.Sprintf("sleep %.0f; echo done > $LEASEHOLD_RESULT_FILE", (2*lease).Seconds()), onRenewalFailureContinue)
	for _, task := range []*v1alpha1.LeasedTask{fenced, through, during} {
		s.untilRunning(task, 1)
	}
	token := fenced.Status.FencingToken
	killed, spared, ended := s.watch(fenced), s.watch(through), s.watch(during)
	gone := s.apiStopped()
	time.Sleep(outage)
	s.mustLive(spared, "the worker that continues")
	_, isOver := ended.last()
	s.must(isOver, "the worker that was to end in the outage has not: this shows nothing")
	s.local("api-start")

	s.mustHaveRecovered(fenced, token, v1alpha1.AttemptDisrupted, fencing.ReasonRenewalFailed)
	s.must(fenced.Status.Failures == 0 && fenced.Status.Disruptions == 1, "status %+v", fenced.Status)
	timing := fencing.TimingFor(lease)
	s.mustBeDeadBefore(killed, gone+timing.Trust()+timing.KillBudget, "trust and kill budget ended")
	s.mustHaveRunOnce(during)
	s.mustHaveRunOnce(through)
}

func onRenewalFailureContinue(task *v1alpha1.LeasedTask) {
	task.Spec.Lease.OnRenewalFailure = v1alpha1.RenewalFailureContinue
}

// apiStopped stops the API server and says from when on it certainly answered nobody.
func (s *story) apiStopped() time.Duration {
	s.Helper()
	s.Cleanup(func() { _, _ = s.Localcluster(context.Background(), "api-start") })
	s.local("api-stop")
	return boottime()
}

// mustHaveRunOnce: one attempt, one Pod, nothing charged.
func (s *story) mustHaveRunOnce(task *v1alpha1.LeasedTask) {
	s.Helper()
	s.untilFinished(task)
	st := task.Status
	s.must(st.Phase == v1alpha1.PhaseCompleted && st.Attempt == 1 && st.Failures == 0 && st.Disruptions == 0, "task %s: %+v", task.Name, st)
	pods, err := s.Pods(s.ctx, task)
	s.ok(err)
	s.must(len(pods) == 1, "task %s has %d Pods, want 1", task.Name, len(pods))
}
