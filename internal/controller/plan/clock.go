package plan

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// wind makes the third clock, timeouts.totalSeconds, agree with the spec. It runs from the task's acceptance to its end, and is on
// the status as a time; while the task is suspended it stands still, and what is left of it is there instead. It changes with
// writes that follow from a changed spec anyway, so that it costs none of its own, and a new leader finds it as it is.
func (s *Snapshot) wind(status *v1alpha1.LeasedTaskStatus) {
	total := s.Task.Spec.TotalLimit()
	if status.Phase.IsFinished() || s.isTimeUp() || status.DeadLetterName != "" { // it stays for the record, and nothing turns it back
		return
	}
	if total == 0 && (s.Source.IsMissing || s.Source.IsLost) { // it may be the queue's
		return
	}
	if total == 0 {
		status.Deadline, status.RemainingSeconds = nil, nil
		return
	}
	begin, left := s.beginning(), total
	switch {
	case begin.After(s.Now): // it has not begun
	case status.RemainingSeconds != nil:
		left = time.Duration(*status.RemainingSeconds) * time.Second
	case status.Deadline != nil: // more than the whole cannot be left: then a clock was set back
		left = min(total, status.Deadline.Sub(begin))
	}
	if s.Task.Spec.IsSuspended() {
		status.Deadline, status.RemainingSeconds = nil, new(int32(roundUp(left)/time.Second)) // at most totalSeconds
		return
	}
	// A deadline is a whole second, so that one which stands comes out as it was.
	status.Deadline, status.RemainingSeconds = new(metav1.NewTime(begin.Add(left+time.Second-time.Nanosecond).Truncate(time.Second))), nil
}

func roundUp(d time.Duration) time.Duration {
	return (d + time.Second - time.Nanosecond).Truncate(time.Second)
}

// beginning is from when the clock counts, if it has not been running already: startAfter may be moved until the first grant.
func (s *Snapshot) beginning() time.Time {
	if after := s.Task.Spec.StartAfter; after != nil && s.Task.Status.Attempt == 0 && after.After(s.Now) {
		return after.Time
	}
	return s.Now
}

// isTimeUp reports whether the task's total time is over. What is on record decides: a suspension stops the clock when it is put
// on record, and what was over by then is over.
func (s *Snapshot) isTimeUp() bool {
	deadline := s.Task.Status.Deadline
	return deadline != nil && !s.Task.Status.Phase.IsFinished() && !s.Now.Before(deadline.Time)
}

// watchDeadline has a plan looked at again when the task's total time is over.
func (s *Snapshot) watchDeadline(p *Plan) {
	status := &s.Task.Status
	if p.Status != nil {
		status = p.Status
	}
	if status.Deadline == nil || status.Phase.IsFinished() {
		return
	}
	if left := status.Deadline.Sub(s.Now); left > 0 {
		p.requeueWithin(left)
	}
}

// timeUp puts on record that no attempt follows, and no probe: nothing runs, and there is no time left for another.
func timeUp(s *Snapshot) (Plan, bool) {
	if !s.isTimeUp() {
		return Plan{}, false
	}
	return s.noneFollows(), true
}

// noneFollows puts on record that neither an attempt nor a probe follows. Nothing runs.
func (s *Snapshot) noneFollows() Plan {
	status := s.status()
	if isInDoubt(status) {
		status.Phase = v1alpha1.PhaseExpired
	}
	status.DeadLetterName = deadLetterName(s.Task)
	status.NextAttemptTime = nil
	return s.write(status, deadLetterPending("it will be written next"))
}

// timeUpMessage says which of the clocks it was.
func timeUpMessage(spec *v1alpha1.LeasedTaskSpec) string {
	if spec.TotalLimit() == 0 { // it was the queue's, which is gone
		return "the task's total time is over"
	}
	return fmt.Sprintf("the task's total time is over: timeouts.totalSeconds is %s", spec.TotalLimit())
}

// timeUpStop is the stop of an attempt that is under way then.
func timeUpStop(spec *v1alpha1.LeasedTaskSpec, stop *fencing.Stop) *fencing.Stop {
	stop.Reason, stop.Message = fencing.ReasonDeadlineExceeded, timeUpMessage(spec)
	return stop
}
