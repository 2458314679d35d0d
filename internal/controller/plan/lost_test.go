package plan

import (
	"strings"
	"testing"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// lostRevisionTable: somebody deleted what the queue gave the task, while it has a worker, or may have. What that was is not known any
// more, and nothing is done that it may have forbidden.
var lostRevisionTable = map[string]decision{
	"a worker whose Lease is gone, too, may have the longest lease that there is": {
		given: []func(*Snapshot){expiredOnce, noPod, leaseGone, bare, lost, since(time.Hour - time.Second)},
		want:  want{Rule: RuleAwaitRelease, Status: "Expired attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease", Requeue: time.Second},
	},
	"also if it is cancelled": {
		given: []func(*Snapshot){expiredOnce, noPod, leaseGone, bare, cancel, lost, since(time.Hour - time.Second)},
		want:  want{Rule: RuleAwaitRelease, Status: "Expired attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease", Requeue: time.Second},
	},
	"and no longer": {
		given: []func(*Snapshot){expiredOnce, noPod, leaseGone, bare, cancel, lost, since(time.Hour)},
		want:  want{Rule: RuleCancelled, Status: "Cancelled attempt 1", Ready: "True/Cancelled", Live: true, Counts: "finished Cancelled"},
	},
	"a duration of the task's own is known": {
		given: []func(*Snapshot){expiredOnce, noPod, leaseGone, bare, cancel, ownLease, lost, since(20 * time.Second)},
		want:  want{Rule: RuleCancelled, Status: "Cancelled attempt 1", Ready: "True/Cancelled", Live: true, Counts: "finished Cancelled"},
	},
	"a Lease that is there has the word": {
		given: []func(*Snapshot){expiredOnce, noPod, bare, cancel, lost, since(30 * time.Second)},
		want:  want{Rule: RuleCancelled, Status: "Cancelled attempt 1", Ready: "True/Cancelled", Live: true, Counts: "finished Cancelled"},
	},
	"a worker is not pressed to stop": {
		given: []func(*Snapshot){onRecord, podRuns, bare, cancel, lost},
		want:  want{Rule: RuleStop, Lease: "stop Cancelled 3600", Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
	"nor given up while it does": {
		given: []func(*Snapshot){onRecord, podRuns, bare, cancel, told(fencing.ReasonCancelled, 600, 10*time.Minute), pushed, lost},
		want:  want{Rule: RuleStopping, Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Requeue: fencing.TimingFor(30 * time.Second).StopPatience(0)},
	},
	"a start may take the longest time": {
		given: []func(*Snapshot){granted, bare, lost, onTerm(func(term *fencing.Term) { term.GrantTime = now.Add(-24 * time.Hour) }), since(24 * time.Hour)},
		want:  waitsToStart(RuleStarting, "PodStarting", 6*24*time.Hour),
	},
	"nor is it over for a budget that nobody knows": {
		given: []func(*Snapshot){onRecord, bare, lost, submits(fencing.Failed, noEffect), onTask(func(t *v1alpha1.LeasedTask) { t.Status.Failures = 98 })},
		want: want{Rule: RuleSubmitted, Status: "Available attempt 1 next in 2m30s", Entry: "Failed Why Submission exit 3", Waiting: "QueueRevision",
			Ready: "False/QueueRevision", Counts: "attempt Failed"},
	},
	"nor suspended, for it may be the only chance": {
		given: []func(*Snapshot){onRecord, podRuns, bare, suspend, lost},
		want:  want{Rule: RuleHeld, Status: "Running attempt 1", Ready: "False/Running", Watch: 25 * time.Second},
	},
	"a probe never is": {
		given: []func(*Snapshot){probingOnRecord, bare, suspend, lost},
		want:  want{Rule: RuleStop, Lease: "stop Suspended 3600", Status: "Probing attempt 2", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
}

// lostDoubtTable: an attempt that may have had its effect ends meanwhile. The doubt is kept until it is known again what follows.
var lostDoubtTable = map[string]decision{
	"it is put on record": {
		given: []func(*Snapshot){onRecord, noPod, bare, lost, submits(fencing.Failed)},
		want: want{Rule: RuleSubmitted, Status: "Probing attempt 1 next in 24h0m0s", Entry: "Failed Why Submission exit 3", Waiting: "QueueRevision",
			Ready: "False/QueueRevision", Counts: "attempt Failed"},
	},
	"a policy of the task's own is known": {
		given: []func(*Snapshot){onRecord, noPod, bare, func(s *Snapshot) { s.Task.Spec.OnLostAttempt = v1alpha1.LostAttemptRetry }, lost, submits(fencing.Failed)},
		want: want{Rule: RuleSubmitted, Status: "Available attempt 1 next in 500ms", Entry: "Failed Why Submission exit 3", Waiting: "QueueRevision",
			Ready: "False/QueueRevision", Counts: "attempt Failed"},
	},
	"one that was there before stays, and ends nothing": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), uncertain, bare, lost},
		want: want{Rule: RuleProbe, Status: "Probing attempt 1 next in 24h0m0s", Waiting: "QueueRevision", Ready: "False/QueueRevision",
			Live: true},
	},
	"it is held": {
		given: []func(*Snapshot){probeDue, nextIn(24 * time.Hour), bare, lost},
		want:  want{Rule: RuleAwaitRevision, Status: "Probing attempt 1", Waiting: "QueueRevision", Ready: "False/QueueRevision", Requeue: RefusedRetry},
	},
	"a probe without an answer is followed by none": {
		given: []func(*Snapshot){probingOnRecord, noPod, bare, lost, probedInVain(10), submits(fencing.Failed, probes, exits(2)), open(12)},
		want: want{Rule: RuleSubmitted, Status: "Probing attempt 12 next in 2m30s", Entry: "Failed NonZeroExit Submission exit 2", Waiting: "QueueRevision",
			Ready: "False/QueueRevision", Counts: "probe Failed"},
	},
	"a probe's answer counts": {
		given: []func(*Snapshot){probingOnRecord, noPod, bare, lost, submits(fencing.Failed, probes, exits(1))},
		want: want{Rule: RuleSubmitted, Status: "Available attempt 2 next in 500ms", Entry: "Succeeded NoEffect Submission exit 1", Waiting: "QueueRevision",
			Ready: "False/QueueRevision", Counts: "probe NoEffect"},
	},
	"cancel ends it": {
		given: []func(*Snapshot){probeDue, nextIn(24 * time.Hour), bare, cancel, lost},
		want:  want{Rule: RuleCancelled, Status: "Cancelled attempt 1", Ready: "True/Cancelled", Live: true, Counts: "finished Cancelled"},
	},
	"a total time that is over ends it": {
		given: []func(*Snapshot){probeDue, nextIn(24 * time.Hour), bare, lost, dueIn(0)},
		want:  want{Rule: RuleTimeUp, Status: "Expired attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true},
	},
	"and the dead letter says that it was the time": {
		given: []func(*Snapshot){probeDue, bare, lost, dueIn(0), named},
		want: want{Rule: RuleGiveUp, Dead: "DeadlineExceeded", Status: "DeadLettered attempt 1", Ready: "False/DeadlineExceeded", Live: true,
			Counts: "finished DeadLettered, dead_letter NodeLost"},
	},
	"also of one that waited for its revision without a doubt": {
		given: []func(*Snapshot){backedOff, bare, lost, dueIn(0), namedDead},
		want: want{Rule: RuleGiveUp, Dead: "DeadlineExceeded", Status: "DeadLettered attempt 1", Ready: "False/DeadlineExceeded", Live: true,
			Counts: "finished DeadLettered, dead_letter NodeLost"},
	},
	"of one whose end came before, nobody knows which it was": {
		given: []func(*Snapshot){expiredOnce, noPod, since(time.Hour), bare, lost, dueIn(time.Hour), named},
		want: want{Rule: RuleGiveUp, Dead: "BudgetExceeded", Status: "DeadLettered attempt 1", Ready: "False/BudgetExceeded", Live: true,
			Counts: "finished DeadLettered, dead_letter NodeLost"},
	},
	"also if it was Retry": {
		given: []func(*Snapshot){probeDue, bare, back(v1alpha1.TaskDefaults{}), dueIn(0), named},
		want: want{Rule: RuleGiveUp, Dead: "DeadlineExceeded", Status: "DeadLettered attempt 1", Ready: "False/DeadlineExceeded", Live: true,
			Counts: "finished DeadLettered, dead_letter NodeLost"},
	},
	"it was Retry: nobody wants to know": {
		given: []func(*Snapshot){probeDue, nextIn(24 * time.Hour), bare, back(v1alpha1.TaskDefaults{})},
		want:  want{Rule: RuleNoProbe, Status: "Available attempt 1", Waiting: "Backoff", Ready: "False/Backoff", Live: true},
	},
	"it was Retry, and no budget is left": {
		given: []func(*Snapshot){probeDue, nextIn(24 * time.Hour), bare, back(v1alpha1.TaskDefaults{Retry: v1alpha1.RetrySpec{MaxDisruptions: new(int32(0))}})},
		want: want{Rule: RuleNoProbe, Status: "Expired attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending",
			Live: true},
	},
	"it was DeadLetter: it is the end": {
		given: []func(*Snapshot){probeDue, nextIn(24 * time.Hour), bare, back(v1alpha1.TaskDefaults{OnLostAttempt: v1alpha1.LostAttemptDeadLetter})},
		want: want{Rule: RuleNoProbe, Status: "Expired attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending",
			Live: true},
	},
	"also if its total time is over": {
		given: []func(*Snapshot){probeDue, nextIn(24 * time.Hour), bare, back(v1alpha1.TaskDefaults{OnLostAttempt: v1alpha1.LostAttemptDeadLetter}), dueIn(0)},
		want: want{Rule: RuleNoProbe, Status: "Expired attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending",
			Live: true},
	},
	"a budget that was used up meanwhile is": {
		given: []func(*Snapshot){backedOff, bare, back(v1alpha1.TaskDefaults{Retry: v1alpha1.RetrySpec{MaxDisruptions: new(int32(0))}})},
		want:  want{Rule: RuleBudgetUsedUp, Status: "Available attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending"},
	},
	"it was Reconcile: it is probed for": {
		given: []func(*Snapshot){probeDue, nextIn(23 * time.Hour), bare, back(probedFor(0))},
		want:  want{Rule: RuleSettling, Status: "Probing attempt 1", Waiting: "Settling", Ready: "False/Settling"},
	},
	"it was Reconcile, and things settle first": {
		given: []func(*Snapshot){probeDue, nextIn(23 * time.Hour), bare, back(probedFor(60))},
		want:  want{Rule: RuleSettling, Status: "Probing attempt 1", Waiting: "Settling", Ready: "False/Settling", Requeue: time.Minute},
	},
	"they have settled, and the first probe is granted": {
		given: []func(*Snapshot){probeDue, nextIn(0), bare, back(probedFor(60))},
		want:  want{Rule: RuleGrant, Lease: `grant task-2-xyz attempt 2 over "77"`, Pods: "create", Live: true, Counts: "grant"},
	},
	"it was Reconcile, and no probe is left": {
		given: []func(*Snapshot){probeDue, nextIn(time.Minute), probedInVain(5), bare, back(probedFor(60))},
		want: want{Rule: RuleNoProbe, Status: "Expired attempt 6", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending",
			Live: true},
	},
}

// back is a task whose revision is there again.
func back(defaults v1alpha1.TaskDefaults) func(*Snapshot) {
	return func(s *Snapshot) {
		queue := mail
		queue.Defaults = defaults
		s.Task.Status.QueueRevision = "mail-0"
		from(queue)(s)
	}
}

func probedFor(settle int32) v1alpha1.TaskDefaults {
	s := &Snapshot{Task: newTask()}
	reconcile(settle)(s)
	return v1alpha1.TaskDefaults{OnLostAttempt: s.Task.Spec.OnLostAttempt, Reconcile: s.Task.Spec.Reconcile}
}

// named is a task that there is to be a dead letter of.
func named(s *Snapshot) {
	s.Task.Status.Phase, s.Task.Status.DeadLetterName = v1alpha1.PhaseExpired, "dl"
}

// open has the latest term under way, under the given number.
func open(number int32) func(*Snapshot) {
	return func(s *Snapshot) { s.Task.Status.Attempt, s.Term.Attempt = number, number }
}

func ownLease(s *Snapshot) { s.Task.Spec.Lease.DurationSeconds = 20 }

// TestTheWordOfALeaseCountsWhereNothingElseIsKnown: a spec that is known counts where the Lease says less.
func TestTheWordOfALeaseCountsWhereNothingElseIsKnown(t *testing.T) {
	queue := mail
	queue.Defaults.Lease.DurationSeconds = 120
	for name, test := range map[string]struct {
		given []func(*Snapshot)
		want  time.Duration
	}{
		"the queue's":                    {[]func(*Snapshot){bare, from(queue)}, 120 * time.Second},
		"the queue's, which is lost":     {[]func(*Snapshot){bare, lost}, 30 * time.Second},
		"its own, with the queue's lost": {[]func(*Snapshot){bare, ownLease, lost}, 20 * time.Second},
	} {
		if got := given(test.given...).LeastDuration(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestPatienceHasTheBoundsOfTheCRD: nothing that a queue could have given is longer, or more.
func TestPatienceHasTheBoundsOfTheCRD(t *testing.T) {
	defaults := schemaOf(readCRDFile(t, queueCRDFile), "spec").Properties["defaults"].Properties
	d := &patient.Defaults
	for path, got := range map[string]int32{
		"lease durationSeconds": d.Lease.DurationSeconds,
		"timeouts startSeconds": d.Timeouts.StartSeconds,
		"retry maxAttempts":     d.Retry.MaxAttempts,
		"retry maxDisruptions":  *d.Retry.MaxDisruptions,

		"reconcile settleSeconds": *d.Reconcile.SettleSeconds,
	} {
		parent, field, _ := strings.Cut(path, " ")
		if most := defaults[parent].Properties[field].Maximum; most == nil || int32(*most) != got {
			t.Errorf("%s: patience has %d, the CRD %v", path, got, most)
		}
	}
	if most := defaults["stopGraceSeconds"].Maximum; most == nil || int32(*most) != d.StopGraceSeconds {
		t.Errorf("stopGraceSeconds: patience has %d, the CRD %v", d.StopGraceSeconds, most)
	}
}

// TestWhatATaskEndedWithStandsThoughItsRevisionIsGone: its budget was the queue's. What it was judged by is not known any more, and a pass
// over it, by a new operator say, leaves its record as it is.
func TestWhatATaskEndedWithStandsThoughItsRevisionIsGone(t *testing.T) {
	budget := back(v1alpha1.TaskDefaults{Retry: v1alpha1.RetrySpec{MaxDisruptions: new(int32(0))}})
	for name, more := range map[string]func(*Snapshot){"": func(*Snapshot) {}, "that has a total time": dueIn(0)} {
		s := given(backedOff, bare, budget, more)
		s = driven(t, s, func(s *Snapshot) bool { return s.Task.Status.Phase.IsFinished() })
		was := *s.Task.Status.DeepCopy()
		s.Task.Spec = s.Source.Own
		lost(s)
		if p := Decide(s); p.Rule != RuleFinished || p.Status != nil {
			t.Errorf("%s: rule %s, and from\n%+v\nto\n%+v", name, p.Rule, was, p.Status)
		}
	}
}
