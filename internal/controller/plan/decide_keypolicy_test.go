package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
)

// keyPolicyTable: what becomes of tasks whose concurrency key is not free, and of those that have it, or wait for it, when a newer
// one replaces them.
var keyPolicyTable = map[string]decision{
	"Reject takes a free key": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReject), live},
		want:  want{Rule: RuleTakeKey, Lease: `take Concurrency "db" over ""`, Live: true},
	},
	"Reject and a busy one": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReject), live, locked(key.Concurrency, heldBy("other", "uid-9", ""))},
		want:  rejects(),
	},
	"Reject and a blocked one": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReject), live, locked(key.Concurrency, blockedBy("dl-1"))},
		want:  rejects(),
	},
	"Reject and one that is promised to another": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReject), made(0), live, locked(key.Concurrency, promisedTo("older", time.Minute))},
		want:  rejects(),
	},
	"not while its holder is finished, and the keeper has yet to free it": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReject), live, locked(key.Concurrency, heldBy("other", "uid-9", "")), ending},
		want:  want{Rule: RuleAwaitKey, Status: "Available attempt 0", Waiting: "KeyBusy", Ready: "False/KeyBusy", Requeue: endingPatience},
	},
	"nor before its time": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReject), startsAt(time.Minute), locked(key.Concurrency, heldBy("other", "uid-9", ""))},
		want:  want{Rule: RuleStartAfter, Status: "Available attempt 0", Waiting: "StartAfter", Ready: "False/StartAfter", Requeue: time.Minute},
	},
	"nor a task that has begun: somebody took its key away": {
		given: []func(*Snapshot){backedOff, pauseOver, serial, policy(v1alpha1.KeyPolicyReject), live, locked(key.Concurrency, heldBy("other", "uid-9", ""))},
		want:  want{Rule: RuleAwaitKey, Status: "Available attempt 1", Waiting: "KeyBusy", Ready: "False/KeyBusy", Requeue: keyPatience},
	},
	"nor a replay": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReject), live, locked(key.Concurrency, heldBy("other", "uid-9", "")), replaying("dl-1"),
			locked(key.Idempotency, heldBy("task", "uid-1", ownHash))},
		want: want{Rule: RuleAwaitKey, Status: "Available attempt 0", Waiting: "KeyBusy", Ready: "False/KeyBusy", Requeue: keyPatience, Live: true},
	},
	"an idempotency key that is busy is waited for": {
		given: []func(*Snapshot){available, serial, keyed, policy(v1alpha1.KeyPolicyReject), live, locked(key.Idempotency, heldBy("other", "uid-9", ownHash)),
			locked(key.Concurrency, heldBy("other", "uid-9", ""))},
		want: want{Rule: RuleAwaitKey, Status: "Available attempt 0", Waiting: "KeyBusy", Ready: "False/KeyBusy", Requeue: keyPatience, Live: true},
	},
	"what a rejection leaves is a dead letter": {
		given: []func(*Snapshot){wasRejected},
		want: want{Rule: RuleGiveUp, Dead: "KeyRejected", Status: "DeadLettered attempt 0", Ready: "False/KeyRejected", Live: true,
			Counts: "finished DeadLettered, dead_letter KeyRejected"},
	},
	"a worker's reason of that name is a failure like any": {
		given: []func(*Snapshot){isOverFor(ReasonKeyRejected), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Retry.MaxAttempts = 1 })},
		want: want{Rule: RuleGiveUp, Dead: "BudgetExceeded", Status: "DeadLettered attempt 1", Ready: "False/BudgetExceeded", Live: true,
			Counts: "finished DeadLettered, dead_letter KeyRejected"},
	},

	"Replace takes a free key, and says that it replaces what is older": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReplace), live},
		want:  want{Rule: RuleTakeKey, Lease: `take Concurrency "db" over "" newest task`, Live: true},
	},
	"Replace and a busy one: it asks": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReplace), live, locked(key.Concurrency, heldBy("other", "uid-9", ""))},
		want:  want{Rule: RuleAskForKey, Lease: `take Concurrency "db" over "41" newest task`, Live: true},
	},
	"once it has asked, it waits": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReplace), made(0), locked(key.Concurrency, heldBy("other", "uid-9", "")), newest("task", "uid-1", 0)},
		want:  want{Rule: RuleAwaitKey, Status: "Available attempt 0", Waiting: "KeyBusy", Ready: "False/KeyBusy", Requeue: keyPatience},
	},
	"it asks for a blocked one, too": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReplace), live, locked(key.Concurrency, blockedBy("dl-1"))},
		want:  want{Rule: RuleAskForKey, Lease: `take Concurrency "db" over "41" blocked by dl-1 newest task`, Live: true},
	},
	"and then waits for that": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReplace), made(0), locked(key.Concurrency, blockedBy("dl-1")), newest("task", "uid-1", 0)},
		want:  want{Rule: RuleAwaitKey, Status: "Available attempt 0", Waiting: "KeyBlocked", Ready: "False/KeyBlocked", Requeue: keyPatience},
	},
	"it takes the place of an older one that has asked": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReplace), made(0), live, locked(key.Concurrency, heldBy("other", "uid-9", "")), newest("between", "uid-8", time.Minute)},
		want:  want{Rule: RuleAskForKey, Lease: `take Concurrency "db" over "41" newest task`, Live: true},
	},
	"it takes what is promised to it": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReplace), made(0), live, locked(key.Concurrency, promisedTo("task", 0)), newest("task", "uid-1", 0)},
		want:  want{Rule: RuleTakeKey, Lease: `take Concurrency "db" over "41" newest task`, Live: true},
	},
	"and what is promised to an older one": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReplace), made(0), live, locked(key.Concurrency, promisedTo("older", time.Minute))},
		want:  want{Rule: RuleTakeKey, Lease: `take Concurrency "db" over "41" newest task`, Live: true},
	},
	"a newer task that queues waits for who has it promised": {
		given: []func(*Snapshot){available, serial, made(0), locked(key.Concurrency, promisedTo("older", time.Minute))},
		want:  want{Rule: RuleAwaitKey, Status: "Available attempt 0", Waiting: "KeyBusy", Ready: "False/KeyBusy", Requeue: keyPatience},
	},
	"a suspended one replaces nothing": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReplace), suspend, locked(key.Concurrency, heldBy("other", "uid-9", ""))},
		want:  want{Rule: RuleSuspended, Status: "Available attempt 0", Waiting: "Suspended", Ready: "False/Suspended"},
	},
	"nor does a replay": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReplace), live, locked(key.Concurrency, heldBy("other", "uid-9", "")), replaying("dl-1"),
			locked(key.Idempotency, heldBy("task", "uid-1", ownHash))},
		want: want{Rule: RuleAwaitKey, Status: "Available attempt 0", Waiting: "KeyBusy", Ready: "False/KeyBusy", Requeue: keyPatience, Live: true},
	},
	"a request that the API server does not take is waited with": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReplace), live, locked(key.Concurrency, heldBy("other", "uid-9", "")), keyRefused},
		want:  want{Rule: RuleAskForKey, Status: "Available attempt 0", Waiting: "KeyRefused", Ready: "False/KeyRefused", Requeue: RefusedRetry},
	},

	"who waits, and is older than the newest, ends without having run": {
		given: []func(*Snapshot){available, serial, made(time.Hour), live, locked(key.Concurrency, heldBy("other", "uid-9", "")), newest("newer", "uid-8", 0)},
		want:  supersedes(RuleSuperseded, 0),
	},
	"also one that replaces in its turn": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReplace), made(time.Hour), live, locked(key.Concurrency, promisedTo("newer", 0))},
		want:  supersedes(RuleSuperseded, 0),
	},
	"and one that would be rejected": {
		given: []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReject), made(time.Hour), live, locked(key.Concurrency, heldBy("newer", "uid-8", "")), newest("newer", "uid-8", 0)},
		want:  supersedes(RuleSuperseded, 0),
	},
	"not before its time": {
		given: []func(*Snapshot){available, serial, made(time.Hour), suspend, locked(key.Concurrency, heldBy("newer", "uid-8", "")), newest("newer", "uid-8", 0)},
		want:  want{Rule: RuleSuspended, Status: "Available attempt 0", Waiting: "Suspended", Ready: "False/Suspended"},
	},
	"nor one that is newer": {
		given: []func(*Snapshot){available, serial, made(0), locked(key.Concurrency, heldBy("other", "uid-9", "")), newest("older", "uid-8", time.Minute)},
		want:  want{Rule: RuleAwaitKey, Status: "Available attempt 0", Waiting: "KeyBusy", Ready: "False/KeyBusy", Requeue: keyPatience},
	},
	"nor a replay of what blocks the key": {
		given: []func(*Snapshot){available, serial, made(time.Hour), live, locked(key.Concurrency, blockedBy("dl-1")), newest("newer", "uid-8", 0), replaying("dl-1"),
			locked(key.Idempotency, heldBy("task", "uid-1", ownHash))},
		want: want{Rule: RuleTakeKey, Lease: `take Concurrency "db" over "41" blocked by dl-1 newest newer`, Live: true},
	},
	"which keeps it, too": {
		given: []func(*Snapshot){onRecord, podRuns, serial, made(time.Hour), locked(key.Concurrency, heldBy("task", "uid-1", "")), blocked("dl-1"), newest("newer", "uid-8", 0), replaying("dl-1")},
		want:  want{Rule: RuleHeld, Status: "Running attempt 1", Ready: "False/Running", Watch: 25 * time.Second},
	},

	"the holder is told, as by a cancel": {
		given: []func(*Snapshot){onRecord, podRuns, replacedBy("newer")},
		want:  want{Rule: RuleStop, Lease: "stop Superseded 30", Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
	"also if it is a holder's only attempt": {
		given: []func(*Snapshot){onRecord, podRuns, onlyOnce, replacedBy("newer")},
		want:  want{Rule: RuleStop, Lease: "stop Superseded 30", Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
	"or a probe": {
		given: []func(*Snapshot){probingOnRecord, podRuns, replacedBy("newer")},
		want:  want{Rule: RuleStop, Lease: "stop Superseded 30", Status: "Probing attempt 2", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
	"not one that is newer": {
		given: []func(*Snapshot){onRecord, podRuns, serial, made(0), locked(key.Concurrency, heldBy("task", "uid-1", "")), newest("older", "uid-8", time.Minute)},
		want:  want{Rule: RuleHeld, Status: "Running attempt 1", Ready: "False/Running", Watch: 25 * time.Second},
	},
	"once told, the kubelet is asked to tell it too, and it is waited for": {
		given: []func(*Snapshot){onRecord, podRuns, replacedBy("newer"), told(fencing.ReasonSuperseded, 30, 0)},
		want:  want{Rule: RuleStopping, Status: "Running attempt 1", Ready: "False/Stopping", Pods: "limit " + holder + " 1", Watch: 25 * time.Second, Requeue: unheeded},
	},
	"a success that it submitted first wins": {
		given: []func(*Snapshot){onRecord, workerDied(0, "Completed", ""), replacedBy("newer"), told(fencing.ReasonSuperseded, 30, time.Second), submits(fencing.Succeeded)},
		want: want{Rule: RuleSubmitted, Status: "Completed attempt 1", Entry: "Succeeded Why Submission exit 3", Ready: "True/Completed",
			Counts: "attempt Succeeded, finished Completed"},
	},
	"it has stopped: Cancelled, and charged to no budget": {
		given: []func(*Snapshot){onRecord, pastDeadline, replacedBy("newer"), told(fencing.ReasonSuperseded, 30, time.Second), submits(fencing.Cancelled)},
		want: want{Rule: RuleSubmitted, Status: "Cancelled attempt 1", Entry: "Stopped Superseded Submission exit 3", Ready: "True/Superseded",
			Counts: "attempt Stopped, finished Cancelled"},
	},
	"it fails while it is being stopped: that is on record, and then why there is no other attempt": {
		given: []func(*Snapshot){onRecord, pastDeadline, replacedBy("newer"), told(fencing.ReasonSuperseded, 30, time.Second), submits(fencing.Failed)},
		want: want{Rule: RuleSubmitted, Status: "Cancelled attempt 1", Entry: "Stopped Superseded Key", Ready: "True/Superseded",
			Counts: "attempt Failed, finished Cancelled"},
	},
	"it does not heed: revoked, and Cancelled only once released": {
		given: []func(*Snapshot){onRecord, podRuns, pushed, replacedBy("newer"), told(fencing.ReasonSuperseded, 30, unheeded)},
		want: want{Rule: RuleStopUnheeded, Lease: "revoke this version", Status: "Expired attempt 1", Entry: "Stopped Superseded Observation", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Stopped"},
	},
	"on a lost node it may still run": {
		given: []func(*Snapshot){expiredOnce, noPod, replacedBy("newer")},
		want: want{Rule: RuleAwaitRelease, Status: "Expired attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease",
			Requeue: 20 * time.Second},
	},
	"and then the holder is Cancelled": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), replacedBy("newer")},
		want:  supersedes(RuleReplaced, 1),
	},
	"nobody has claimed: revoked, and nothing ever runs": {
		given: []func(*Snapshot){granted, noPod, replacedBy("newer")},
		want: want{Rule: RuleStopUnclaimed, Lease: "revoke", Status: "Cancelled attempt 1", Entry: "Stopped Superseded Observation", Ready: "True/Superseded", Live: true,
			Counts: "attempt Stopped, finished Cancelled"},
	},
	"a crash between revoke and record": {
		given: []func(*Snapshot){granted, revokedTerm, noPod, replacedBy("newer")},
		want: want{Rule: RuleRevokedUnclaimed, Status: "Cancelled attempt 1", Entry: "Stopped Superseded Observation", Ready: "True/Superseded", Live: true,
			Counts: "attempt Stopped, finished Cancelled"},
	},
	"a holder that has yet to be granted ends at once": {
		given: []func(*Snapshot){available, replacedBy("newer")},
		want:  supersedes(RuleReplaced, 0),
	},
	"and one in back-off": {
		given: []func(*Snapshot){backedOff, replacedBy("newer")},
		want:  supersedes(RuleReplaced, 1),
	},
	"and a suspended one": {
		given: []func(*Snapshot){backedOff, suspend, replacedBy("newer")},
		want:  supersedes(RuleReplaced, 1),
	},
	"and one whose budget is used up, without a dead letter": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), replacedBy("newer"), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Retry.MaxDisruptions = new(int32(0)) })},
		want:  supersedes(RuleReplaced, 1),
	},
	"and one whose time is over": {
		given: []func(*Snapshot){backedOff, totals(60), dueIn(0), replacedBy("newer")},
		want:  supersedes(RuleReplaced, 1),
	},
	"and one in doubt, without a probe": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), uncertain, reconcile(0), replacedBy("newer")},
		want:  supersedes(RuleReplaced, 1),
	},
	"one that is given up has its dead letter": {
		given: []func(*Snapshot){isOverFor("Why"), replacedBy("newer"), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Retry.MaxAttempts = 1 })},
		want: want{Rule: RuleGiveUp, Dead: "BudgetExceeded", Status: "DeadLettered attempt 1", Ready: "False/BudgetExceeded", Live: true,
			Counts: "finished DeadLettered, dead_letter Other"},
	},
	"superseded and cancelled: its owner's word": {
		given: []func(*Snapshot){backedOff, replacedBy("newer"), cancel},
		want:  cancels(RuleCancelled, "", ""),
	},
	"with an unrecorded grant: revoked first": {
		given: []func(*Snapshot){backedOff, unrecorded, replacedBy("newer")},
		want:  want{Rule: RuleUnrecordedGrant, Lease: "revoke", Live: true},
	},
	"a worker that calls its failure so has failed": {
		given: []func(*Snapshot){onRecord, noPod, submits(fencing.Failed, func(s *fencing.Submission) { s.Reason = fencing.ReasonSuperseded }), cancel},
		want: want{Rule: RuleSubmitted, Status: "Cancelled attempt 1", Entry: "Failed Superseded Submission exit 3", Ready: "True/Cancelled",
			Counts: "attempt Failed, finished Cancelled"},
	},
}

func policy(p v1alpha1.KeyPolicy) func(*Snapshot) {
	return func(s *Snapshot) { s.Task.Spec.KeyPolicy = p }
}

// made is a task that was made a while ago.
func made(ago time.Duration) func(*Snapshot) {
	return func(s *Snapshot) { s.Task.CreationTimestamp = metav1.NewTime(now.Add(-ago).Truncate(time.Second)) }
}

// onLock edits the Lease of the concurrency key.
func onLock(edit func(*key.Lock)) func(*Snapshot) {
	return func(s *Snapshot) { edit(s.Keys[len(s.Keys)-1].Lock) }
}

// newest is a task, made a while ago, that has asked for the key.
func newest(name, uid string, ago time.Duration) func(*Snapshot) {
	return onLock(func(l *key.Lock) {
		l.Newest = &key.Contender{Task: name, UID: uid, Created: metav1.NewTime(now.Add(-ago).Truncate(time.Second))}
	})
}

func blocked(letter string) func(*Snapshot) {
	return onLock(func(l *key.Lock) { l.BlockedBy = []string{letter} })
}

func promisedTo(name string, ago time.Duration) func(*key.Lock) {
	return func(l *key.Lock) {
		l.HolderName, l.HolderUID = "other", "uid-9"
		l.Newest = &key.Contender{Task: name, UID: "uid-of-" + name, Created: metav1.NewTime(now.Add(-ago).Truncate(time.Second))}
	}
}

func ending(s *Snapshot) { s.Keys[0].IsEnding = true }

// replacedBy is a task that has its key, and is older than one that has asked for it.
func replacedBy(name string) func(*Snapshot) {
	return func(s *Snapshot) {
		for _, edit := range []func(*Snapshot){serial, made(time.Hour), locked(key.Concurrency, heldBy("task", "uid-1", "")), newest(name, "uid-8", 0)} {
			edit(s)
		}
	}
}

// wasRejected is a task whose rejection is on record.
func wasRejected(s *Snapshot) {
	for _, edit := range []func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReject), live, locked(key.Concurrency, heldBy("other", "uid-9", ""))} {
		edit(s)
	}
	p, _ := keyRejected(s)
	s.Task.Status = *p.Status
}

func rejects() want {
	return want{Rule: RuleKeyRejected, Status: "Available attempt 0", Entry: "Failed KeyRejected Key", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true}
}

func supersedes(rule Rule, attempt int) want {
	w := want{Rule: rule, Status: "Cancelled attempt 0", Entry: "Stopped Superseded Key", Ready: "True/Superseded", Live: true, Counts: "finished Cancelled"}
	if attempt == 1 {
		w.Status = "Cancelled attempt 1"
	}
	return w
}

// TestWhatKeyPoliciesSay reads the sentences that people see, and what the worker is told.
func TestWhatKeyPoliciesSay(t *testing.T) {
	const both = `LeasedTask newer, which is newer, replaces it: both have the concurrencyKey "db"`
	tests := map[string]struct {
		given []func(*Snapshot)
		// of Ready, or of Waiting if that is True; the latest entry of the history; the last event
		condition, entry, event string
	}{
		"rejected": {[]func(*Snapshot){wasRejected},
			`KeyRejected: keyPolicy is Reject, and LeasedTask other has the concurrencyKey "db"`, `keyPolicy is Reject, and LeasedTask other has the concurrencyKey "db"`,
			`DeadLettered: KeyRejected: keyPolicy is Reject, and LeasedTask other has the concurrencyKey "db"; kept as DeadLetter ` + DeadLetterName("task", "uid-1")},
		"next": {[]func(*Snapshot){available, serial, policy(v1alpha1.KeyPolicyReplace), made(0), locked(key.Concurrency, heldBy("other", "uid-9", "")), newest("task", "uid-1", 0)},
			`KeyBusy: LeasedTask other has the concurrencyKey "db"; this task is to have it next`, "", ""},
		"behind the next": {[]func(*Snapshot){available, serial, made(0), locked(key.Concurrency, promisedTo("older", time.Minute))},
			`KeyBusy: LeasedTask older is to have the concurrencyKey "db" next`, "", ""},
		"superseded in the queue": {[]func(*Snapshot){available, serial, made(time.Hour), live, locked(key.Concurrency, promisedTo("newer", 0))},
			"Superseded: " + both, both, "Superseded: " + both},
		"told": {[]func(*Snapshot){onRecord, podRuns, replacedBy("newer")},
			"Stopping: attempt 1 on node node-1 is told to stop", "", "Stopping: Attempt 1 is told to stop within 30 s: Superseded: " + both},
		"stopped": {[]func(*Snapshot){onRecord, pastDeadline, replacedBy("newer"), told(fencing.ReasonSuperseded, 30, time.Second), saying(both), submits(fencing.Cancelled)},
			"Superseded: told to stop: " + both + "; because", "told to stop: " + both + "; because", "Superseded: told to stop: " + both + "; because"},
		"in doubt": {[]func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), uncertain, reconcile(0), replacedBy("newer")},
			"Superseded: " + both + " (attempt 1 may have had its effect)", both, "Superseded: " + both + " (attempt 1 may have had its effect)"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := given(test.given...)
			p := Decide(s)
			c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionWaiting)
			if c.Status == metav1.ConditionFalse {
				c = meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
			}
			event := ""
			if n := len(p.Events); n > 0 {
				event = p.Events[n-1].Reason + ": " + p.Events[n-1].Note
			}
			got := []string{c.Reason + ": " + c.Message, "", event}
			if len(test.entry) > 0 {
				got[1] = lastOf(p.Status.History).Message
			}
			if diff := cmp.Diff([]string{test.condition, test.entry, event}, got); diff != "" || event != test.event {
				t.Errorf("-want +got:\n%s%s", diff, cmp.Diff(test.event, event))
			}
			if p.Status.Failures+p.Status.Disruptions > s.Task.Status.Failures+s.Task.Status.Disruptions {
				t.Errorf("charged: %+v", p.Status)
			}
			if p.Stop != nil && !strings.Contains(p.Stop.Message, "LeasedTask newer") {
				t.Errorf("the worker is told %q", p.Stop.Message)
			}
		})
	}
}

// TestASupersededTaskStaysSo: the conditions of a finished task follow from its record alone. Others have its key by then.
func TestASupersededTaskStaysSo(t *testing.T) {
	s := given(available, serial, made(time.Hour), live, locked(key.Concurrency, promisedTo("newer", 0)))
	p := Decide(s)
	s.Task.Status, s.Keys = stored(t, p.Status), nil
	s.Task.Generation++ // its time to live was changed, say
	if p = Decide(s); p.Status == nil {
		t.Fatal("a changed spec is not acknowledged")
	}
	if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionSucceeded); c.Reason != v1alpha1.ReasonSuperseded || !strings.Contains(c.Message, "LeasedTask newer") {
		t.Errorf("condition %+v", c)
	}
	if p.Status.StartTime != nil || len(s.Pods) > 0 || p.CreatePod {
		t.Errorf("it ran: %+v", p.Status)
	}
}

// TestAFullHistoryKeepsTheAttemptInDoubt, also when its end without an attempt is the last entry.
func TestAFullHistoryKeepsTheAttemptInDoubt(t *testing.T) {
	s := given(expiredOnce, noPod, since(30*time.Second), uncertain, reconcile(0), replacedBy("newer"))
	first := s.Task.Status.History[0]
	for n := int32(2); len(s.Task.Status.History) < v1alpha1.MaxHistory; n++ {
		s.Task.Status.History = append(s.Task.Status.History, v1alpha1.AttemptRecord{Attempt: n, Outcome: v1alpha1.AttemptDisrupted, Reason: "R", EndTime: first.EndTime, ProbeFor: 1})
	}
	history := Decide(s).Status.History
	if len(history) != v1alpha1.MaxHistory || history[0].Attempt != first.Attempt || lastOf(history).Reason != fencing.ReasonSuperseded {
		t.Errorf("%d entries, the first %+v, the last %+v", len(history), history[0], lastOf(history))
	}
}
