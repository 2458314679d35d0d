package plan

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// heldTable: claimed, and alive.
var heldTable = map[string]decision{
	"a young claim is not recorded yet": {
		given: []func(*Snapshot){claimed, podRuns, since(500 * time.Millisecond)},
		want:  want{Rule: RuleClaimSeen, Requeue: 1500 * time.Millisecond, Watch: 29500 * time.Millisecond},
	},
	"an older claim is recorded": {
		given: []func(*Snapshot){claimed, podRuns, since(2 * time.Second)},
		want:  want{Rule: RuleRunning, Status: "Running attempt 1", Ready: "False/Running", Watch: 28 * time.Second, Counts: "claim"},
	},
	"a claim whose time was removed is recorded": {
		given: []func(*Snapshot){claimed, since(2 * time.Second), onTerm(func(t *fencing.Term) { t.RenewTime = time.Time{} })},
		want:  want{Rule: RuleRunning, Status: "Running attempt 1", Ready: "False/Running", Watch: 28 * time.Second, Counts: "claim"},
	},
	"all is well": {
		given: []func(*Snapshot){onRecord, podRuns},
		want:  want{Rule: RuleHeld, Status: "Running attempt 1", Ready: "False/Running", Watch: 25 * time.Second},
	},
	"the end of a process that never had the term is not the holder's": {
		given: []func(*Snapshot){onRecord, workerDied(121, "Error", report(fencing.Fenced, fencing.DeliveryNone, ""))},
		want:  want{Rule: RuleHeld, Status: "Running attempt 1", Ready: "False/Running", Watch: 25 * time.Second},
	},
	"a Pod that is being deleted may still submit": {
		given: []func(*Snapshot){onRecord, podRuns, podDeleted},
		want:  want{Rule: RuleHeld, Status: "Running attempt 1", Ready: "False/Running", Watch: 25 * time.Second},
	},
	"a Pod that is gone leaves the lease to decide": {
		given: []func(*Snapshot){onRecord, noPod},
		want:  want{Rule: RuleHeld, Status: "Running attempt 1", Ready: "False/Running", Watch: 25 * time.Second},
	},
	"the duration on the Lease counts, not the one in the spec": {
		given: []func(*Snapshot){onRecord, podRuns, onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Lease.DurationSeconds = 10 }), since(15 * time.Second)},
		want:  want{Rule: RuleHeld, Status: "Running attempt 1", Ready: "False/Running", Watch: 15 * time.Second},
	},
}

// submittedTable: the agent has spoken.
var submittedTable = map[string]decision{
	"a success is the end": {
		given: []func(*Snapshot){onRecord, podRuns, submits(fencing.Succeeded, result("42"))},
		want: want{Rule: RuleSubmitted, Status: "Completed attempt 1 result 42", Entry: "Succeeded Why Submission exit 3", Ready: "True/Completed",
			Counts: "attempt Succeeded, finished Completed", Requeue: settleTime},
	},
	"a quick success skips Running": {
		given: []func(*Snapshot){claimed, workerDied(0, "Completed", ""), submits(fencing.Succeeded)},
		want: want{Rule: RuleSubmitted, Status: "Completed attempt 1", Entry: "Succeeded Why Submission exit 3", Ready: "True/Completed",
			Counts: "claim, attempt Succeeded, finished Completed"},
	},
	"a success counts also when its Pod is being deleted and the lease is old": {
		given: []func(*Snapshot){onRecord, podRuns, podDeleted, since(time.Hour), submits(fencing.Succeeded)},
		want: want{Rule: RuleSubmitted, Status: "Completed attempt 1", Entry: "Succeeded Why Submission exit 3", Ready: "True/Completed",
			Counts: "attempt Succeeded, finished Completed"},
	},
	"a success under another token is a failure": {
		given: []func(*Snapshot){onRecord, noPod, submits(fencing.Succeeded, result("42"), func(s *fencing.Submission) { s.Token-- })},
		want:  fails("TokenMismatch Submission exit 3"),
	},
	"a success that calls itself malformed is checked like any other": {
		given: []func(*Snapshot){onRecord, noPod, submits(fencing.Succeeded, func(s *fencing.Submission) { s.Token, s.Reason = 1, fencing.ReasonMalformedSubmission })},
		want:  fails("TokenMismatch Submission exit 3"),
	},
	"a result above the limit is a failure": {
		given: []func(*Snapshot){onRecord, noPod, submits(fencing.Succeeded, result(strings.Repeat("x", fencing.MaxResultBytes+1)))},
		want:  fails("ResultTooLarge Submission exit 3"),
	},
	"a submission that cannot be read is a failure": {
		given: []func(*Snapshot){onRecord, noPod, onTerm(func(t *fencing.Term) { t.Submission = new(fencing.ParseSubmission("{")) })},
		want:  fails("MalformedSubmission Submission"),
	},
	"a failure is tried again": {
		given: []func(*Snapshot){onRecord, noPod, submits(fencing.Failed)},
		want:  fails("Why Submission exit 3"),
	},
	"a failure without a reason is recorded as that": {
		given: []func(*Snapshot){onRecord, noPod, submits(fencing.Failed, func(s *fencing.Submission) { s.Reason = "" })},
		want:  fails("Unspecified Submission exit 3"),
	},
	"a worker cannot end its task by naming the controller's reasons": {
		given: []func(*Snapshot){onRecord, noPod, submits(fencing.Failed, func(s *fencing.Submission) { s.Reason = ReasonStartTimeout })},
		want:  fails("StartTimeout Submission exit 3"),
	},
	"the last failure is the end": {
		given: []func(*Snapshot){onRecord, noPod, submits(fencing.Failed), onTask(func(t *v1alpha1.LeasedTask) { t.Status.Failures = 4 })},
		want: want{Rule: RuleSubmitted, Status: "Expired attempt 1", Entry: "Failed Why Submission exit 3", Waiting: "DeadLetterPending",
			Ready: "False/DeadLetterPending", Counts: "attempt Failed"},
	},
	"a self-fence is a disruption": {
		given: []func(*Snapshot){onRecord, noPod, submits(fencing.Fenced)},
		want:  disrupted("Why Submission exit 3"),
	},
	"an interruption is a disruption, and the Pod knows why": {
		given: []func(*Snapshot){onRecord, workerDied(143, "Error", ""), submits(fencing.Interrupted),
			podCondition(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI")},
		want: disrupted("EvictionByEvictionAPI Submission exit 3"),
	},
	"disruptions do not use up the attempts": {
		given: []func(*Snapshot){onRecord, noPod, submits(fencing.Interrupted), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Retry.MaxAttempts = 1 })},
		want:  disrupted("Why Submission exit 3"),
	},
	"one disruption too many is the end": {
		given: []func(*Snapshot){onRecord, noPod, submits(fencing.Fenced), onTask(func(t *v1alpha1.LeasedTask) { t.Status.Disruptions = 10 })},
		want: want{Rule: RuleSubmitted, Status: "Expired attempt 1", Entry: "Disrupted Why Submission exit 3", Waiting: "DeadLetterPending",
			Ready: "False/DeadLetterPending", Counts: "attempt Disrupted"},
	},
}

func result(text string) func(*fencing.Submission) {
	return func(s *fencing.Submission) { s.Result = &text }
}

func fails(entry string) want {
	return want{Rule: RuleSubmitted, Status: "Available attempt 1 next in 500ms", Entry: "Failed " + entry, Waiting: "Backoff", Ready: "False/Backoff", Counts: "attempt Failed"}
}

func disrupted(entry string) want {
	return want{Rule: RuleSubmitted, Status: "Available attempt 1 next in 500ms", Entry: "Disrupted " + entry, Waiting: "Backoff", Ready: "False/Backoff", Counts: "attempt Disrupted"}
}

// lostTable: the term ends, or has ended, without a submission.
var lostTable = map[string]decision{
	"no renewal for one duration": {
		given: []func(*Snapshot){onRecord, podRuns, since(30 * time.Second)},
		want:  loses(RuleExpired, "Failed LeaseExpired Observation", settleTime),
	},
	"no renewal, and the claim was never recorded": {
		given: []func(*Snapshot){claimed, noPod, since(30 * time.Second)},
		want: want{Rule: RuleExpired, Lease: "revoke this version", Status: "Expired attempt 1 next in 500ms", Entry: "Disrupted PodDeleted Observation",
			Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease", Live: true, Counts: "claim, attempt Disrupted, expiry"},
	},
	"no renewal, and a second process found the term claimed by the first": {
		given: []func(*Snapshot){onRecord, workerDied(121, "Error", report(fencing.Fenced, fencing.DeliveryNone, "")), since(30 * time.Second)},
		want: want{Rule: RuleExpired, Lease: "revoke this version", Status: "Expired attempt 1 next in 500ms", Entry: "Disrupted ClaimRefused Pod exit 121",
			Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Disrupted, expiry"},
	},
	"no renewal, and the node is lost": {
		given: []func(*Snapshot){onRecord, podRuns, since(30 * time.Second), func(s *Snapshot) { s.NodeLost = "node node-1 is gone" }},
		want:  loses(RuleExpired, "Disrupted NodeLost Observation", settleTime),
	},
	"no renewal, and the Pod is being deleted": {
		given: []func(*Snapshot){onRecord, podRuns, podDeleted, since(30 * time.Second)},
		want:  loses(RuleExpired, "Disrupted PodDeleted Pod", 0),
	},
	"the worker vanished": {
		given: []func(*Snapshot){onRecord, workerDied(137, "Error", "")},
		want:  loses(RuleWorkerEnded, "Failed WorkerVanished Pod exit 137", 0),
	},
	"the worker exits 0 and says nothing: no success": {
		given: []func(*Snapshot){onRecord, workerDied(0, "Completed", "")},
		want:  loses(RuleWorkerEnded, "Failed WorkerVanished Pod exit 0", 0),
	},
	"the worker ran out of memory": {
		given: []func(*Snapshot){onRecord, workerDied(137, "OOMKilled", "")},
		want:  loses(RuleWorkerEnded, "Failed OOMKilled Pod exit 137", 0),
	},
	"the worker was evicted": {
		given: []func(*Snapshot){onRecord, workerDied(137, "Error", ""), onPod(func(p *corev1.Pod) { p.Status.Reason = "Evicted" })},
		want:  loses(RuleWorkerEnded, "Disrupted Evicted Pod exit 137", 0),
	},
	"the worker fenced itself and could not say so": {
		given: []func(*Snapshot){onRecord, workerDied(1, "Error", report(fencing.Fenced, fencing.DeliveryUnknown, "RenewalFailed"))},
		want:  loses(RuleWorkerEnded, "Disrupted RenewalFailed Pod exit 1", 0),
	},
	"the worker was interrupted and could not say so": {
		given: []func(*Snapshot){onRecord, workerDied(1, "Error", report(fencing.Interrupted, fencing.DeliveryUnknown, "Terminated"))},
		want:  loses(RuleWorkerEnded, "Disrupted Terminated Pod exit 1", 0),
	},
	"the worker succeeded and could not say so: no success": {
		given: []func(*Snapshot){onRecord, workerDied(0, "Completed", report(fencing.Succeeded, fencing.DeliveryUnknown, "Completed"))},
		want:  loses(RuleWorkerEnded, "Disrupted SubmissionLost Pod exit 0", 0),
	},
	"the worker failed and could not say so": {
		given: []func(*Snapshot){onRecord, workerDied(2, "Error", report(fencing.Failed, fencing.DeliveryUnknown, "NonZeroExit"))},
		want:  loses(RuleWorkerEnded, "Failed NonZeroExit Pod exit 2", 0),
	},
	"a report that names a reason of the controller's ends nothing": {
		given: []func(*Snapshot){onRecord, workerDied(2, "Error", report(fencing.Failed, fencing.DeliveryUnknown, ReasonPodInvalid))},
		want:  loses(RuleWorkerEnded, "Failed PodInvalid Pod exit 2", 0),
	},
	"a report under another token is none": {
		given: []func(*Snapshot){onRecord, onTask(func(t *v1alpha1.LeasedTask) { t.Status.FencingToken++ }),
			workerDied(1, "Error", report(fencing.Fenced, fencing.DeliveryUnknown, "RenewalFailed"))},
		want: loses(RuleWorkerEnded, "Failed WorkerVanished Pod exit 1", 0),
	},
	"the last failure waits for the release all the same": {
		given: []func(*Snapshot){onRecord, noPod, since(30 * time.Second), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Retry.MaxDisruptions = new(int32(0)) })},
		want: want{Rule: RuleExpired, Lease: "revoke this version", Status: "Expired attempt 1", Entry: "Disrupted PodDeleted Observation",
			Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Disrupted, expiry"},
	},
	"revoked, and a crash before the record": {
		given: []func(*Snapshot){onRecord, noPod, revokedTerm, since(31 * time.Second)},
		want: want{Rule: RuleRevoked, Status: "Expired attempt 1 next in 500ms", Entry: "Disrupted PodDeleted Observation", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Disrupted"},
	},
	"it takes too long, and its agent does nothing about it": {
		given: []func(*Snapshot){onRecord, podRuns, limited(60, 120*time.Second)},
		want: want{Rule: RuleOverdue, Lease: "revoke this version", Status: "Expired attempt 1 next in 500ms", Entry: "Failed DeadlineExceeded Observation",
			Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease", Requeue: settleTime, Live: true, Counts: "attempt Failed"},
	},
	"it may take a little longer": {
		given: []func(*Snapshot){onRecord, podRuns, limited(60, 119*time.Second)},
		want:  want{Rule: RuleHeld, Status: "Running attempt 1", Ready: "False/Running", Requeue: time.Second, Watch: 25 * time.Second},
	},
	"it takes too long, by the first sight of another process": {
		given: []func(*Snapshot){claimed, podRuns, limited(60, 0)},
		want:  want{Rule: RuleRunning, Status: "Running attempt 1", Ready: "False/Running", Requeue: 2 * time.Minute, Watch: 25 * time.Second, Counts: "claim"},
	},
	"somebody deletes the Lease of a running worker": {
		given: []func(*Snapshot){onRecord, podRuns, leaseGone},
		want: want{Rule: RuleLeaseLost, Status: "Expired attempt 1 next in 500ms", Entry: "Disrupted LeaseDeleted Observation", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Requeue: settleTime, Live: true, Counts: "attempt Disrupted"},
	},
	"a Lease made anew for the same attempt, and revoked unclaimed, is another": {
		given: []func(*Snapshot){onRecord, noPod, revokedTerm, onTerm(func(t *fencing.Term) { t.UID, t.Claim, t.RenewTime = "lease-2", nil, time.Time{} })},
		want: want{Rule: RuleLeaseLost, Status: "Expired attempt 1 next in 500ms", Entry: "Disrupted LeaseDeleted Observation", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Disrupted"},
	},
	"a Lease whose UID is not on record is another": {
		given: []func(*Snapshot){onRecord, noPod, onTask(func(t *v1alpha1.LeasedTask) { t.Status.LeaseUID = "" })},
		want: want{Rule: RuleLeaseLost, Status: "Expired attempt 1 next in 500ms", Entry: "Disrupted LeaseDeleted Observation", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Disrupted"},
	},
	"somebody replaces the Lease": {
		given: []func(*Snapshot){onRecord, noPod, onTerm(func(t *fencing.Term) { t.Holder = "somebody" })},
		want: want{Rule: RuleLeaseLost, Status: "Expired attempt 1 next in 500ms", Entry: "Disrupted LeaseDeleted Observation", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Disrupted"},
	},
}

func loses(rule Rule, entry string, requeue time.Duration) want {
	w := want{Rule: rule, Lease: "revoke", Status: "Expired attempt 1 next in 500ms", Entry: entry, Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease",
		Requeue: requeue, Live: true, Counts: "attempt " + strings.Fields(entry)[0]}
	if rule == RuleExpired {
		w.Lease, w.Counts = "revoke this version", w.Counts+", expiry"
	}
	return w
}

// limited bounds an attempt whose claim was first seen a while ago. With the defaults, 60 s for stop and lease come on top.
func limited(seconds int32, seen time.Duration) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Task.Spec.Timeouts.AttemptSeconds, s.ClaimedSince = seconds, now.Add(-seen)
	}
}
