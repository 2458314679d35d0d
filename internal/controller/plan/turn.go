package plan

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/queue"
)

// turnPatience is when a task that waits for its turn looks again, should nobody wake it, at the earliest: by then it may be told more
// exactly how far its turn is. Whose turn has come is woken.
const turnPatience = 2 * time.Minute

// nextLook is that for this task. All that wait begin to at the same time when a queue changes, or an operator starts, and would go on to
// look at the same time.
func (s *Snapshot) nextLook() time.Duration {
	return turnPatience + time.Duration(s.Jitter*float64(turnPatience/2))
}

// grantProblems are the reasons for which a task that has its turn is not granted: something outside the task forbids it.
var grantProblems = []string{v1alpha1.WaitingWorkerRole, v1alpha1.WaitingEpochMissing, v1alpha1.WaitingQueueRevision}

// HoldsPlace reports whether the status says that the task takes up room in its queue: from the grant of a term until its process
// can no longer run. A term that the status does not know yet takes up room as long as its Lease is open.
func HoldsPlace(status *v1alpha1.LeasedTaskStatus) bool {
	isUnreleased := status.Phase == v1alpha1.PhaseExpired && status.DeadLetterName == "" // it is named once the process is over
	return hasOpenTerm(status) || isUnreleased
}

// WaitsSince is since when a task has waited for its turn, if it does: its creation, or the end of its pause.
func WaitsSince(task *v1alpha1.LeasedTask) time.Time {
	since := task.CreationTimestamp.Time
	if at := task.Spec.StartAfter; at != nil && at.After(since) {
		since = at.Time
	}
	if at := task.Status.NextAttemptTime; at != nil && at.After(since) {
		since = at.Time
	}
	return since
}

// WasRefused reports whether the task had a turn, and could not use it. Before it asks for another one, what it was refused for has to be
// looked at: as long as that stands, each turn would be taken from the tasks behind it, for nothing. No decision hangs on it: if the condition
// is wrong, a look or a turn is for nothing. In a queue that is paused, which gives none, it says that at once.
func (s *Snapshot) WasRefused() bool {
	was := meta.FindStatusCondition(s.Task.Status.Conditions, v1alpha1.ConditionWaiting)
	return was != nil && was.Status == metav1.ConditionTrue && slices.Contains(grantProblems, was.Reason) && !s.Queue.Spec.IsPaused()
}

// awaitTurn waits for the task's turn in its queue, for an attempt or a probe. It is asked right before the grant: whatever else keeps
// a task from starting takes up no room in the queue. Nothing is read live for a task that waits.
func awaitTurn(s *Snapshot) (Plan, bool) {
	switch name := s.Task.Spec.QueueName; {
	case name == "":
		return Plan{}, false
	case s.isQueueMissing():
		p := s.write(s.status(), waiting{v1alpha1.WaitingQueueMissing, fmt.Sprintf("there is no TaskQueue %s in the namespace", name)})
		p.Requeue = s.nextLook()
		return p, true
	case s.GrantProblem != nil:
		return Plan{}, false
	case s.Turn == nil:
		return Plan{AskTurn: true}, true
	case s.Turn.Admitted:
		return Plan{}, false
	case s.Turn.Waiting == nil || s.Turn.Waiting.Reason == queue.Queued: // nobody knows yet; whoever does will wake the task
		return Plan{KeepPlace: true, Requeue: s.nextLook()}, true
	}
	p := s.write(s.status(), s.turnOf(s.Turn.Waiting))
	p.KeepPlace, p.Requeue = true, s.nextLook()
	return p, true
}

// pausedQueue says that the queue is paused.
func (s *Snapshot) pausedQueue() string {
	return fmt.Sprintf("TaskQueue %s is paused: spec.paused is %s", s.Task.Spec.QueueName, s.Queue.Spec.Paused)
}

// isQueueMissing reports whether the task names a queue that there is not.
func (s *Snapshot) isQueueMissing() bool { return s.Task.Spec.QueueName != "" && s.Queue == nil }

// isDraining reports whether the task's queue stops what runs.
func (s *Snapshot) isDraining() bool {
	return s.Queue != nil && s.Queue.Spec.Paused == v1alpha1.PauseDrain
}

// result is what a plan puts on record of an attempt, as the breaker of the task's queue takes it; nil: nothing. That an attempt was
// disrupted or stopped says nothing of what the tasks depend on, and neither does a probe.
func (s *Snapshot) result(p *Plan) *queue.Result {
	if s.Task.Spec.QueueName == "" || p.Status == nil {
		return nil
	}
	last := lastOf(p.Status.History)
	if last.Attempt <= lastOf(s.Task.Status.History).Attempt || last.Evidence == v1alpha1.EvidenceKey {
		return nil
	}
	r := &queue.Result{ID: string(s.Task.UID), Outcome: queue.Neither}
	switch {
	case s.isRecorded():
		r.Started = s.Term.GrantTime
	case last.StartTime != nil:
		r.Started = last.StartTime.Time
	}
	switch {
	case last.ProbeFor > 0:
	case last.Outcome == v1alpha1.AttemptSucceeded:
		r.Outcome = queue.Succeeded
	case last.Outcome == v1alpha1.AttemptFailed:
		r.Outcome, r.Fingerprint = queue.Failed, Fingerprint(s.Task.Name, last)
	}
	return r
}
