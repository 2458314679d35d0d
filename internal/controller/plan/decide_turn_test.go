package plan

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
	"github.com/leasehold-io/leasehold/internal/queue"
)

// turnLook is when a task that waits for its turn looks again, by the jitter of all snapshots here.
const turnLook = turnPatience * 5 / 4

// turnTable: tasks of a queue.
var turnTable = map[string]decision{
	"a task that waits for nothing else asks for its turn, and is read no further for it": {
		given: []func(*Snapshot){available, queued},
		want:  want{Rule: RuleAwaitTurn, Turn: "asked"},
	},
	"its turn has come": {
		given: []func(*Snapshot){available, queued, admitted},
		want:  want{Rule: RuleGrant, Lease: `grant task-1-xyz attempt 1 over ""`, Pods: "create", Live: true, Counts: "grant"},
	},
	"the queue's concurrency is used up": {
		given: []func(*Snapshot){available, queued, awaits(queue.QueueConcurrency, 7)},
		want:  waitsForTurn("Available attempt 0", "QueueConcurrency"),
	},
	"the tenant's concurrency is": {
		given: []func(*Snapshot){available, queued, awaits(queue.TenantConcurrency, 7)},
		want:  waitsForTurn("Available attempt 0", "TenantConcurrency"),
	},
	"the rate lets none start": {
		given: []func(*Snapshot){available, queued, awaits(queue.RateLimited, 7)},
		want:  waitsForTurn("Available attempt 0", "RateLimited"),
	},
	"its breaker is open": {
		given: []func(*Snapshot){available, queued, awaits(queue.BreakerOpen, 7)},
		want:  waitsForTurn("Available attempt 0", "BreakerOpen"),
	},
	"the queue is paused": {
		given: []func(*Snapshot){available, queued, paused(v1alpha1.PauseHold), awaits(queue.QueuePaused, 7)},
		want:  waitsForTurn("Available attempt 0", "QueuePaused"),
	},
	"the operator does not know yet: nothing is written": {
		given: []func(*Snapshot){available, queued, func(s *Snapshot) { s.Turn = &queue.Turn{} }},
		want:  want{Rule: RuleAwaitTurn, Turn: "place", Requeue: turnLook},
	},
	"there is no such queue": {
		given: []func(*Snapshot){available, queued, queueGone},
		want:  want{Rule: RuleAwaitTurn, Status: "Available attempt 0", Waiting: "QueueMissing", Ready: "False/QueueMissing", Requeue: turnLook},
	},
	"and it takes no key, which others could use meanwhile": {
		given: []func(*Snapshot){available, queued, queueGone, serial, live},
		want:  want{Rule: RuleAwaitTurn, Status: "Available attempt 0", Waiting: "QueueMissing", Ready: "False/QueueMissing", Requeue: turnLook},
	},
	"also for a task whose turn had come": {
		given: []func(*Snapshot){available, queued, queueGone, admitted},
		want:  want{Rule: RuleAwaitTurn, Status: "Available attempt 0", Waiting: "QueueMissing", Ready: "False/QueueMissing", Requeue: turnLook},
	},
	"the next attempt waits for a turn, too": {
		given: []func(*Snapshot){backedOff, pauseOver, queued, awaits(queue.QueueConcurrency, 7)},
		want:  waitsForTurn("Available attempt 1", "QueueConcurrency"),
	},
	"and so does a probe": {
		given: []func(*Snapshot){probeDue, reconcile(0), queued, awaits(queue.QueueConcurrency, 7)},
		want:  waitsForTurn("Probing attempt 1", "QueueConcurrency"),
	},
	"which starts when it has come": {
		given: []func(*Snapshot){probeDue, reconcile(0), queued, admitted},
		want:  want{Rule: RuleGrant, Lease: `grant task-2-xyz attempt 2 over "77"`, Pods: "create", Live: true, Counts: "grant"},
	},
	"a task in back-off asks for none": {
		given: []func(*Snapshot){backedOff, queued, admitted},
		want:  want{Rule: RuleBackoff, Status: "Available attempt 1", Waiting: "Backoff", Ready: "False/Backoff", Requeue: time.Second},
	},
	"nor does a suspended one": {
		given: []func(*Snapshot){available, queued, admitted, suspend},
		want:  want{Rule: RuleSuspended, Status: "Available attempt 0", Waiting: "Suspended", Ready: "False/Suspended"},
	},
	"nor one whose key another has": {
		given: []func(*Snapshot){available, queued, serial, locked(key.Concurrency, heldBy("other", "uid-9", ""))},
		want:  want{Rule: RuleAwaitKey, Status: "Available attempt 0", Waiting: "KeyBusy", Ready: "False/KeyBusy", Requeue: keyPatience},
	},
	"a key that is free is taken first": {
		given: []func(*Snapshot){available, queued, serial, live},
		want:  want{Rule: RuleTakeKey, Lease: `take Concurrency "db" over ""`, Live: true},
	},
	"nor one that was granted, and is not on record": {
		given: []func(*Snapshot){available, queued, unrecorded, since(time.Second)},
		want:  want{Rule: RuleUnrecordedGrant, Requeue: time.Second},
	},
	"without the epoch it gives its place back": {
		given: []func(*Snapshot){available, queued, admitted, func(s *Snapshot) {
			s.GrantProblem = &GrantProblem{Reason: v1alpha1.WaitingEpochMissing, Message: "there is none"}
		}},
		want: want{Rule: RuleGrant, Status: "Available attempt 0", Waiting: "EpochMissing", Ready: "False/EpochMissing", Requeue: grantRetry},
	},
	"Case 21: cancelled while it waits for capacity": {
		given: []func(*Snapshot){available, queued, awaits(queue.QueueConcurrency, 7), cancel},
		want:  want{Rule: RuleCancelled, Status: "Cancelled attempt 0", Ready: "True/Cancelled", Live: true, Counts: "finished Cancelled"},
	},
	"the total time ends its wait": {
		given: []func(*Snapshot){available, queued, awaits(queue.QueueConcurrency, 7), onTask(func(t *v1alpha1.LeasedTask) {
			t.Spec.Timeouts.TotalSeconds, t.Status.Deadline = 60, at(30*time.Second)
		})},
		want: want{Rule: RuleAwaitTurn, Turn: "place", Status: "Available attempt 0", Waiting: "QueueConcurrency", Ready: "False/QueueConcurrency", Requeue: 30 * time.Second},
	},

	"a queue on hold leaves alone what runs": {
		given: []func(*Snapshot){onRecord, podRuns, queued, paused(v1alpha1.PauseHold)},
		want:  want{Rule: RuleHeld, Status: "Running attempt 1", Ready: "False/Running", Watch: 25 * time.Second},
	},
	"a deleted queue does, too": {
		given: []func(*Snapshot){onRecord, podRuns, queued, queueGone},
		want:  want{Rule: RuleHeld, Status: "Running attempt 1", Ready: "False/Running", Watch: 25 * time.Second},
	},
	"a queue that is drained stops it": {
		given: []func(*Snapshot){onRecord, podRuns, queued, paused(v1alpha1.PauseDrain)},
		want:  want{Rule: RuleStop, Lease: "stop Drained 30", Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
	"and takes back what nobody has claimed": {
		given: []func(*Snapshot){granted, podRuns, queued, paused(v1alpha1.PauseDrain)},
		want: want{Rule: RuleStopUnclaimed, Lease: "revoke", Status: "Available attempt 1", Entry: "Stopped Drained Observation", Waiting: "QueuePaused",
			Ready: "False/QueuePaused", Pods: "delete " + holder, Live: true, Counts: "attempt Stopped"},
	},
	"which costs no budget": {
		given: []func(*Snapshot){onRecord, pastDeadline, queued, paused(v1alpha1.PauseDrain), told(fencing.ReasonDrained, 30, time.Second), submits(fencing.Cancelled)},
		want: want{Rule: RuleSubmitted, Status: "Available attempt 1", Entry: "Stopped Drained Submission exit 3", Waiting: "QueuePaused", Ready: "False/QueuePaused",
			Counts: "attempt Stopped"},
	},
	"a success that came first counts": {
		given: []func(*Snapshot){onRecord, podRuns, queued, paused(v1alpha1.PauseDrain), told(fencing.ReasonDrained, 30, time.Second), submits(fencing.Succeeded)},
		want: want{Rule: RuleSubmitted, Status: "Completed attempt 1", Entry: "Succeeded Why Submission exit 3", Ready: "True/Completed",
			Counts: "attempt Succeeded, finished Completed", Requeue: settleTime},
	},
	"an attempt that would be the last is not drained": {
		given: []func(*Snapshot){onRecord, podRuns, queued, paused(v1alpha1.PauseDrain), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.OnLostAttempt = v1alpha1.LostAttemptDeadLetter })},
		want:  want{Rule: RuleHeld, Status: "Running attempt 1", Ready: "False/Running", Watch: 25 * time.Second},
	},
	"a cancel goes before a drain": {
		given: []func(*Snapshot){onRecord, podRuns, queued, paused(v1alpha1.PauseDrain), cancel},
		want:  want{Rule: RuleStop, Lease: "stop Cancelled 30", Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
}

func queued(s *Snapshot) {
	s.Task.Spec.QueueName = "bulk"
	s.Queue = &v1alpha1.TaskQueue{}
}

func queueGone(s *Snapshot) { s.Queue = nil }

func admitted(s *Snapshot) { s.Turn = &queue.Turn{Admitted: true} }

func awaits(reason queue.Reason, position int) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Turn = &queue.Turn{Waiting: &queue.Waiting{Reason: reason, Limit: 3, Period: time.Minute, Position: position, HeldBy: 5, Holders: []string{"a", "b", "c"}}}
	}
}

func paused(mode v1alpha1.PauseMode) func(*Snapshot) {
	return func(s *Snapshot) { s.Queue.Spec.Paused = mode }
}

func waitsForTurn(status, reason string) want {
	return want{Rule: RuleAwaitTurn, Turn: "place", Status: status, Waiting: reason, Ready: "False/" + reason, Requeue: turnLook}
}

func TestWhatATaskIsToldWhileItWaitsForItsTurn(t *testing.T) {
	tests := map[string]struct {
		given []func(*Snapshot)
		want  string
	}{
		"capacity": {[]func(*Snapshot){awaits(queue.QueueConcurrency, 7)},
			"TaskQueue bulk: its concurrency of 3 is used up; the task is among the next 8; held by LeasedTask a, b, c, and 2 more"},
		"the tenant's": {[]func(*Snapshot){awaits(queue.TenantConcurrency, 1)},
			"TaskQueue bulk: the concurrency of 3 of tenant default is used up; the task is among the next 1; held by LeasedTask a, b, c, and 2 more"},
		"a rate":    {[]func(*Snapshot){awaits(queue.RateLimited, 2000)}, "TaskQueue bulk: it starts 3 in 1m0s; the task is among the next 2048"},
		"a breaker": {[]func(*Snapshot){awaits(queue.BreakerOpen, 7)}, "TaskQueue bulk: its breaker is open; the task is among the next 8"},
		"a pause":   {[]func(*Snapshot){paused(v1alpha1.PauseHold), awaits(queue.QueuePaused, 7)}, "TaskQueue bulk is paused: spec.paused is Hold"},
		"missing":   {[]func(*Snapshot){queueGone}, "there is no TaskQueue bulk in the namespace"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := Decide(given(append([]func(*Snapshot){available, queued}, test.given...)...))
			if got := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionWaiting).Message; got != test.want {
				t.Errorf("it says %q, want %q", got, test.want)
			}
		})
	}
}

// TestAWaitingTaskIsWrittenAsOftenAsItsPlaceHalves: whoever holds the capacity meanwhile.
func TestAWaitingTaskIsWrittenAsOftenAsItsPlaceHalves(t *testing.T) {
	s, writes := given(available, queued), 0
	for position := 10000; position > 0; position-- {
		awaits(queue.QueueConcurrency, position)(s)
		s.Turn.Waiting.Holders[position%3] = strings.Repeat("z", 1+position%200)
		if p := Decide(s); p.Status != nil {
			writes++
			s = carried(t, s, &p)
		}
	}
	if writes != 15 { // at 10000, 8192, 4096, ... 1
		t.Errorf("it was written %d times", writes)
	}
	awaits(queue.TenantConcurrency, 1)(s)
	if p := Decide(s); p.Status == nil {
		t.Error("another reason is not told")
	}
}

func TestWhatTakesUpRoomInAQueue(t *testing.T) {
	tests := map[string]struct {
		given func(*Snapshot)
		want  bool
	}{
		"new": {func(*Snapshot) {}, false}, "available": {available, false}, "claimed": {granted, true}, "running": {onRecord, true},
		"expired": {expiredOnce, true}, "in back-off": {backedOff, false}, "to be probed": {probeDue, false}, "probed": {probing, true},
		"given up, its dead letter not written": {func(s *Snapshot) { expiredOnce(s); s.Task.Status.DeadLetterName = "dl" }, false},
		"completed":                             {finishedAs(v1alpha1.PhaseCompleted), false}, "cancelled": {finishedAs(v1alpha1.PhaseCancelled), false},
		"dead-lettered": {finishedAs(v1alpha1.PhaseDeadLettered), false},
	}
	for name, test := range tests {
		if s := given(test.given); HoldsPlace(&s.Task.Status) != test.want {
			t.Errorf("%s: %t, want %t", name, !test.want, test.want)
		}
	}
}

// TestSinceWhenATaskWaits: since its creation, or the end of the pause that it was told.
func TestSinceWhenATaskWaits(t *testing.T) {
	s := given(available, onTask(func(t *v1alpha1.LeasedTask) { t.CreationTimestamp = *at(-time.Hour) }))
	for _, step := range []struct {
		edit func(*Snapshot)
		want time.Duration
	}{{func(*Snapshot) {}, -time.Hour}, {startsAt(-2 * time.Hour), -time.Hour}, {startsAt(-time.Minute), -time.Minute}, {backedOff, time.Second}} {
		step.edit(s)
		if got := WaitsSince(s.Task).Sub(now); got != step.want {
			t.Errorf("since %s, want %s", got, step.want)
		}
	}
}

// attachable is a key whose work another task has done.
func attachable(s *Snapshot) {
	locked(key.Idempotency, answered("other", "uid-9", ownHash, time.Hour))(s)
}
