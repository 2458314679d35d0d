package plan

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/queue"
)

// turnPatience is when a task that waits for its turn looks again, should nobody wake it: by then it may be told more exactly how
// far its turn is. Whose turn has come is woken.
const turnPatience = 2 * time.Minute

// grantProblems are the reasons for which a task that has its turn is not granted.
var grantProblems = []string{v1alpha1.WaitingWorkerRole, v1alpha1.WaitingEpochMissing, v1alpha1.WaitingQueueRevision}

// HoldsPlace reports whether the status says that the task takes up room in its queue: from the grant of a term until its process
// can no longer run. A term that the status does not know yet takes up room as long as its Lease is open.
func HoldsPlace(status *v1alpha1.LeasedTaskStatus) bool {
	isUnreleased := status.Phase == v1alpha1.PhaseExpired && status.DeadLetterName == "" // it is named once the process is over
	return hasOpenTerm(status) || isUnreleased
}

// WaitsSince is since when a task has waited for its turn, if it does: its creation, or the end of its pause. Zero: since now. It had a
// turn, and could not use it, because of something outside the task. At the head of the line again it would have each turn before those
// behind it: hundreds of such tasks, one after the other, would let nobody else start.
func WaitsSince(task *v1alpha1.LeasedTask) time.Time {
	was := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionWaiting)
	if was != nil && was.Status == metav1.ConditionTrue && slices.Contains(grantProblems, was.Reason) {
		return time.Time{}
	}
	since := task.CreationTimestamp.Time
	if at := task.Spec.StartAfter; at != nil && at.After(since) {
		since = at.Time
	}
	if at := task.Status.NextAttemptTime; at != nil && at.After(since) {
		since = at.Time
	}
	return since
}

// awaitTurn waits for the task's turn in its queue, for an attempt or a probe. It is asked right before the grant: whatever else keeps
// a task from starting takes up no room in the queue. Nothing is read live for a task that waits.
func awaitTurn(s *Snapshot) (Plan, bool) {
	switch name := s.Task.Spec.QueueName; {
	case name == "":
		return Plan{}, false
	case s.isQueueMissing():
		p := s.write(s.status(), waiting{v1alpha1.WaitingQueueMissing, fmt.Sprintf("there is no TaskQueue %s in the namespace", name)})
		p.Requeue = turnPatience
		return p, true
	case s.GrantProblem != nil:
		return Plan{}, false
	case s.Turn == nil:
		return Plan{AskTurn: true}, true
	case s.Turn.Admitted:
		return Plan{}, false
	case s.Turn.Waiting == nil || s.Turn.Waiting.Reason == queue.Queued: // nobody knows yet; whoever does will wake the task
		return Plan{KeepPlace: true, Requeue: turnPatience}, true
	}
	p := s.write(s.status(), s.turnOf(s.Turn.Waiting))
	p.KeepPlace, p.Requeue = true, turnPatience
	return p, true
}

// turnOf says what a task waits for in its queue, about where it stands, and who holds the capacity. So that a task is written a few
// times and not whenever another one has ended, what stands is kept until the reason is another one, or its place has halved: who holds
// the capacity is as of then.
func (s *Snapshot) turnOf(w *queue.Waiting) waiting {
	stands := fmt.Sprintf("TaskQueue %s: %s; the task is among the next %d", s.Task.Spec.QueueName, s.limitOf(w), roughly(w.Position))
	if w.Reason == queue.QueuePaused {
		stands = s.pausedQueue()
	}
	was := meta.FindStatusCondition(s.Task.Status.Conditions, v1alpha1.ConditionWaiting)
	if was != nil && was.Status == metav1.ConditionTrue && was.Reason == string(w.Reason) && strings.HasPrefix(was.Message+";", stands+";") {
		return waiting{string(w.Reason), was.Message}
	}
	return waiting{string(w.Reason), stands + byWhom(w)}
}

// limitOf names the limit.
func (s *Snapshot) limitOf(w *queue.Waiting) string {
	switch w.Reason {
	case queue.QueueConcurrency:
		return fmt.Sprintf("its concurrency of %d is used up", w.Limit)
	case queue.TenantConcurrency:
		return fmt.Sprintf("the concurrency of %d of tenant %s is used up", w.Limit, s.Task.TenantName())
	case queue.RateLimited:
		return fmt.Sprintf("it starts %d in %s", w.Limit, w.Period)
	case queue.BreakerOpen:
		return "its breaker is open"
	case queue.QueuePaused, queue.Queued:
	}
	return string(w.Reason)
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

// roughly is the least power of two that is not below n. Of a task that only moves forward it changes as often as its place halves.
func roughly(n int) int { return 1 << bits.Len(uint(max(n, 1)-1)) }

// byWhom names some of those that hold the capacity; empty: none is short.
func byWhom(w *queue.Waiting) string {
	if len(w.Holders) == 0 || w.Reason != queue.QueueConcurrency && w.Reason != queue.TenantConcurrency {
		return ""
	}
	others := ""
	if n := w.HeldBy - len(w.Holders); n > 0 {
		others = fmt.Sprintf(", and %d more", n)
	}
	return "; held by LeasedTask " + strings.Join(w.Holders, ", ") + others
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
