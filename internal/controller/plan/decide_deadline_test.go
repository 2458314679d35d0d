package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leasehold-io/leasehold/api/env"
	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// deadlineTable: the clock over all attempts, whatever the task is doing.
var deadlineTable = map[string]decision{
	"what an attempt may have done is not probed for any more": {
		given: []func(*Snapshot){probeDue, reconcile(60), nextIn(20 * time.Second), totals(600), dueIn(-time.Second)},
		want:  want{Rule: RuleTimeUp, Status: "Expired attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true},
	},
	"and the dead letter of a task in doubt says both": {
		given: []func(*Snapshot){probeDue, reconcile(60), totals(600), dueIn(-time.Second), namedDead,
			onTask(func(t *v1alpha1.LeasedTask) { t.Status.Phase = v1alpha1.PhaseExpired })},
		want: want{Rule: RuleGiveUp, Dead: "DeadlineExceeded", Status: "DeadLettered attempt 1", Ready: "False/DeadlineExceeded", Live: true,
			Counts: "finished DeadLettered, dead_letter NodeLost"},
	},
	"it runs from the acceptance": {
		given: []func(*Snapshot){totals(600)},
		want:  want{Rule: RuleAccept, Status: "Available attempt 0 deadline in 10m0s", Ready: "False/Pending", Requeue: 10 * time.Minute},
	},
	"or from startAfter, if that is later": {
		given: []func(*Snapshot){totals(600), startsAt(time.Hour)},
		want:  want{Rule: RuleAccept, Status: "Available attempt 0 deadline in 1h10m0s", Ready: "False/Pending", Requeue: 70 * time.Minute},
	},
	"which may be moved": {
		given: []func(*Snapshot){available, totals(600), dueIn(70 * time.Minute), startsAt(2 * time.Hour)},
		want: want{Rule: RuleStartAfter, Status: "Available attempt 0 deadline in 2h10m0s", Waiting: "StartAfter", Ready: "False/StartAfter",
			Requeue: 2 * time.Hour},
	},
	"to an earlier time, too": {
		given: []func(*Snapshot){available, totals(600), dueIn(70 * time.Minute), startsAt(-time.Hour), noEpoch},
		want: want{Rule: RuleGrant, Status: "Available attempt 0 deadline in 10m0s", Waiting: "EpochMissing", Ready: "False/EpochMissing",
			Requeue: grantRetry},
	},
	"a task that is made suspended has all of it left": {
		given: []func(*Snapshot){totals(600), suspend},
		want:  want{Rule: RuleAccept, Status: "Available attempt 0 remaining 600 s", Ready: "False/Pending"},
	},
	"Case 25: the clock stands still while the task is suspended": {
		given: []func(*Snapshot){backedOff, totals(600), dueIn(30*time.Second - time.Millisecond), suspend},
		want:  want{Rule: RuleSuspended, Status: "Available attempt 1 remaining 30 s", Waiting: "Suspended", Ready: "False/Suspended"},
	},
	"Case 25: and goes on when it is resumed": {
		given: []func(*Snapshot){backedOff, totals(600), remains(30)},
		want: want{Rule: RuleBackoff, Status: "Available attempt 1 deadline in 30s", Waiting: "Backoff", Ready: "False/Backoff",
			Requeue: time.Second},
	},
	"Case 25: with the last second of it": {
		given: []func(*Snapshot){available, totals(600), remains(1), noEpoch},
		want: want{Rule: RuleGrant, Status: "Available attempt 0 deadline in 1s", Waiting: "EpochMissing", Ready: "False/EpochMissing",
			Requeue: time.Second},
	},
	"Case 25: suspended while it runs: the clock stops with the order": {
		given: []func(*Snapshot){onRecord, podRuns, totals(600), dueIn(time.Minute), suspend},
		want: want{Rule: RuleStop, Lease: "stop Suspended 30", Status: "Running attempt 1 remaining 60 s", Ready: "False/Stopping",
			Watch: 25 * time.Second, Live: true},
	},
	"a time that was over before the suspension is over": {
		given: []func(*Snapshot){backedOff, totals(600), dueIn(0), suspend},
		want:  want{Rule: RuleTimeUp, Status: "Available attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true},
	},
	"more than the whole cannot be left: a clock was set back": {
		given: []func(*Snapshot){backedOff, totals(600), dueIn(time.Hour)},
		want: want{Rule: RuleBackoff, Status: "Available attempt 1 deadline in 10m0s", Waiting: "Backoff", Ready: "False/Backoff",
			Requeue: time.Second},
	},
	"time that is taken from the spec before the acceptance leaves no clock": {
		given: []func(*Snapshot){backedOff, dueIn(time.Minute)},
		want:  want{Rule: RuleBackoff, Status: "Available attempt 1", Waiting: "Backoff", Ready: "False/Backoff", Requeue: time.Second},
	},
	"a pause is not waited for beyond it": {
		given: []func(*Snapshot){backedOff, totals(600), dueIn(2 * time.Second), pauseOf(5 * time.Second)},
		want:  want{Rule: RuleBackoff, Status: "Available attempt 1", Waiting: "Backoff", Ready: "False/Backoff", Requeue: 2 * time.Second},
	},
	"a worker that runs is looked at then": {
		given: []func(*Snapshot){onRecord, podRuns, totals(600), dueIn(2 * time.Second)},
		want: want{Rule: RuleHeld, Status: "Running attempt 1", Ready: "False/Running", Watch: 25 * time.Second,
			Requeue: 2 * time.Second},
	},

	"time is up in back-off: that is put on record first": {
		given: []func(*Snapshot){backedOff, totals(600), dueIn(0)},
		want:  want{Rule: RuleTimeUp, Status: "Available attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true},
	},
	"then the dead letter is made": {
		given: []func(*Snapshot){backedOff, totals(600), dueIn(0), namedDead},
		want: want{Rule: RuleGiveUp, Dead: "DeadlineExceeded", Status: "DeadLettered attempt 1", Ready: "False/DeadlineExceeded", Live: true,
			Counts: "finished DeadLettered, dead_letter NodeLost"},
	},
	"before any attempt": {
		given: []func(*Snapshot){available, totals(600), dueIn(-time.Hour), namedDead},
		want: want{Rule: RuleGiveUp, Dead: "DeadlineExceeded", Status: "DeadLettered attempt 0", Ready: "False/DeadlineExceeded", Live: true,
			Counts: "finished DeadLettered, dead_letter DeadlineExceeded"},
	},
	"which says so also if another controller's clock is behind, and the task is suspended meanwhile": {
		given: []func(*Snapshot){available, totals(600), dueIn(time.Second), suspend, namedDead},
		want: want{Rule: RuleGiveUp, Dead: "DeadlineExceeded", Status: "DeadLettered attempt 0", Ready: "False/DeadlineExceeded", Live: true,
			Counts: "finished DeadLettered, dead_letter DeadlineExceeded"},
	},
	"a dead letter that is refused keeps the task as it is, available": {
		given: []func(*Snapshot){available, totals(600), dueIn(-time.Hour), namedDead, notBuried("exceeded quota")},
		want: want{Rule: RuleGiveUp, Status: "Available attempt 0", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true,
			Requeue: RefusedRetry},
	},
	"cancelled before that was on record: Cancelled": {
		given: []func(*Snapshot){backedOff, totals(600), dueIn(0), cancel},
		want:  cancels(RuleCancelled, "", ""),
	},
	"time is up while it starts: nothing ever runs": {
		given: []func(*Snapshot){granted, totals(600), dueIn(0)},
		want: want{Rule: RuleStopUnclaimed, Lease: "revoke", Status: "Expired attempt 1", Entry: "Stopped DeadlineExceeded Observation",
			Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Pods: "delete " + holder, Live: true, Counts: "attempt Stopped"},
	},
	"time is up while it runs: the holder is told": {
		given: []func(*Snapshot){onRecord, podRuns, totals(600), dueIn(0)},
		want: want{Rule: RuleStop, Lease: "stop DeadlineExceeded 30", Status: "Running attempt 1", Ready: "False/Stopping",
			Watch: 25 * time.Second, Live: true},
	},
	"a task whose time is up while it is told to stop for a suspension has had its time": {
		given: []func(*Snapshot){onRecord, podRuns, pushed, totals(600), remains(0), suspend, told(fencing.ReasonSuspended, 30, time.Second)},
		want:  want{Rule: RuleStopping, Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Requeue: 46500 * time.Millisecond},
	},
	"it stops: there will be no other": {
		given: []func(*Snapshot){onRecord, pastDeadline, totals(600), dueIn(-time.Second), told(fencing.ReasonDeadlineExceeded, 30, time.Second), submits(fencing.Cancelled)},
		want: want{Rule: RuleSubmitted, Status: "Expired attempt 1", Entry: "Stopped DeadlineExceeded Submission exit 3", Waiting: "DeadLetterPending",
			Ready: "False/DeadLetterPending", Counts: "attempt Stopped"},
	},
	"a success that was submitted first wins": {
		given: []func(*Snapshot){onRecord, workerDied(0, "Completed", ""), totals(600), dueIn(-time.Second), told(fencing.ReasonDeadlineExceeded, 30, time.Second), submits(fencing.Succeeded)},
		want: want{Rule: RuleSubmitted, Status: "Completed attempt 1", Entry: "Succeeded Why Submission exit 3", Ready: "True/Completed",
			Counts: "attempt Succeeded, finished Completed"},
	},
	"a failure is the last, whatever budget is left, and no rule brings it back": {
		given: []func(*Snapshot){onRecord, noPod, totals(600), dueIn(0), submits(fencing.Failed), retryRules(v1alpha1.RetryRule{Action: v1alpha1.RetryActionIgnore, OnReasons: []string{"Why"}})},
		want: want{Rule: RuleSubmitted, Status: "Expired attempt 1", Entry: "Disrupted Why Submission exit 3 Ignore", Waiting: "DeadLetterPending",
			Ready: "False/DeadLetterPending", Counts: "attempt Disrupted"},
	},
	"it does not heed: its term is revoked": {
		given: []func(*Snapshot){onRecord, podRuns, pushed, totals(600), dueIn(-time.Minute), told(fencing.ReasonDeadlineExceeded, 30, unheeded)},
		want: want{Rule: RuleStopUnheeded, Lease: "revoke this version", Status: "Expired attempt 1", Entry: "Stopped DeadlineExceeded Observation", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Stopped"},
	},
	"it is waited for until it can no longer run": {
		given: []func(*Snapshot){expiredOnce, podRuns, totals(600), dueIn(0)},
		want: want{Rule: RuleAwaitRelease, Status: "Expired attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease",
			Requeue: 20 * time.Second},
	},
	"and then it is over": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), totals(600), dueIn(0)},
		want:  want{Rule: RuleOver, Status: "Expired attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true},
	},
	"cancel hurries a stop for time": {
		given: []func(*Snapshot){onRecord, podRuns, pushed, totals(600), dueIn(0), told(fencing.ReasonDeadlineExceeded, 30, time.Second), cancel, grace(5)},
		want:  want{Rule: RuleStop, Lease: "stop Cancelled 5", Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
}

func pauseOf(d time.Duration) func(*Snapshot) {
	return func(s *Snapshot) { s.Task.Status.NextAttemptTime = new(metav1.NewMicroTime(now.Add(d))) }
}

func totals(seconds int32) func(*Snapshot) {
	return func(s *Snapshot) { s.Task.Spec.Timeouts.TotalSeconds = seconds }
}

// dueIn puts a deadline on record.
func dueIn(d time.Duration) func(*Snapshot) {
	return func(s *Snapshot) { s.Task.Status.Deadline = new(metav1.NewTime(now.Add(d))) }
}

// remains is a clock that stands still.
func remains(seconds int32) func(*Snapshot) {
	return func(s *Snapshot) { s.Task.Status.RemainingSeconds = &seconds }
}

func noEpoch(s *Snapshot) { s.GrantProblem = &GrantProblem{v1alpha1.WaitingEpochMissing, "no epoch"} }

// namedDead is a task of which it is on record that it has a dead letter.
func namedDead(s *Snapshot) { s.Task.Status.DeadLetterName = deadLetterName(s.Task) }

// TestWhatTheEndOfTheTotalTimeSays: that it was the task's time and not the attempt's, to everybody concerned.
func TestWhatTheEndOfTheTotalTimeSays(t *testing.T) {
	const isOver = "the task's total time is over: timeouts.totalSeconds is 10m0s"
	s := given(onRecord, podRuns, totals(600), dueIn(0))
	if stop := Decide(s).Stop; stop.Message != isOver {
		t.Errorf("the worker is told %q", stop.Message)
	}
	s = given(onRecord, noPod, totals(600), dueIn(-time.Second), told(fencing.ReasonDeadlineExceeded, 30, time.Second), saying(isOver), submits(fencing.Cancelled))
	entry := lastOf(Decide(s).Status.History)
	if diff := cmp.Diff("told to stop: "+isOver+"; because", entry.Message); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	s = given(backedOff, totals(600), dueIn(0), namedDead)
	p := Decide(s)
	stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
	if diff := cmp.Diff(isOver+"; attempt 1: NodeLost: message", stalled.Message); diff != "" || p.DeadLetter.Spec.Message != stalled.Message {
		t.Errorf("condition (-want +got):\n%s\ndead letter: %s", diff, p.DeadLetter.Spec.Message)
	}
	s.Task.Status, s.Task.Generation = stored(t, p.Status), 9 // somebody changes the time to live, an hour later
	s.Now = now.Add(time.Hour)
	if again := meta.FindStatusCondition(Decide(s).Status.Conditions, v1alpha1.ConditionStalled); again.Message != stalled.Message {
		t.Errorf("later it says %s", again.Message)
	}
	s = given(available, totals(600), dueIn(0), namedDead)
	if got := Decide(s).DeadLetter.Spec.Message; got != isOver+"; no attempt was made" {
		t.Errorf("dead letter: %s", got)
	}
}

// TestThePodCarriesTheTasksDeadline: the one that is on record with the grant; and nothing where there is none.
func TestThePodCarriesTheTasksDeadline(t *testing.T) {
	values := func(edits ...func(*Snapshot)) (found []string) {
		s := given(append([]func(*Snapshot){granted}, edits...)...)
		for _, v := range Pod(s.Task, AgentImage{}).Spec.Containers[0].Env {
			if v.Name == env.AgentTaskDeadline {
				found = append(found, v.Value)
			}
		}
		return found
	}
	if diff := cmp.Diff([]string{"2026-01-01T13:10:00Z"}, values(totals(600), dueIn(10*time.Minute))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := values(); got != nil {
		t.Errorf("a task without a total has %v", got)
	}
}

// TestADeadlineOnRecordCostsNoWrite: an odd fraction of a second is rounded once, up, and stays.
func TestADeadlineOnRecordCostsNoWrite(t *testing.T) {
	s := given(totals(600))
	s.Now = now.Add(123456789)
	s.Task.Status = stored(t, Decide(s).Status)
	if left := s.Task.Status.Deadline.Sub(s.Now); left < 10*time.Minute || left >= 10*time.Minute+time.Second {
		t.Errorf("%s are left of ten minutes", left)
	}
	for range 20 {
		s.Now = s.Now.Add(77777777)
		if status := s.status(); !status.Deadline.Equal(s.Task.Status.Deadline) {
			t.Fatalf("the deadline moves from %s to %s", s.Task.Status.Deadline, status.Deadline)
		}
	}
}
