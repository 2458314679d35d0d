package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// unheeded is p + grace + 10 s, for the defaults.
const unheeded = 47500 * time.Millisecond

// stopTable: cancel and suspend, whatever the task is doing.
var stopTable = map[string]decision{
	"Case 20: cancelled in back-off, at once": {
		given: []func(*Snapshot){backedOff, cancel},
		want:  cancels(RuleCancelled, "", ""),
	},
	"Case 21: cancelled before the first grant": {
		given: []func(*Snapshot){available, cancel},
		want:  want{Rule: RuleCancelled, Status: "Cancelled attempt 0", Ready: "True/Cancelled", Live: true, Counts: "finished Cancelled"},
	},
	"Case 21: cancelled before startAfter": {
		given: []func(*Snapshot){available, startsAt(time.Hour), cancel},
		want:  want{Rule: RuleCancelled, Status: "Cancelled attempt 0", Ready: "True/Cancelled", Live: true, Counts: "finished Cancelled"},
	},
	"Case 21: cancelled before it was seen: accepted first, for there is no other first phase": {
		given: []func(*Snapshot){cancel},
		want:  want{Rule: RuleAccept, Status: "Available attempt 0", Ready: "False/Pending"},
	},
	"Case 21: cancelled while no node takes the Pod": {
		given: []func(*Snapshot){granted, podCondition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable), cancel},
		want:  cancels(RuleStopUnclaimed, "Stopped Cancelled Observation", "delete "+holder),
	},
	"Case 21: cancelled while the image is pulled": {
		given: []func(*Snapshot){granted, containerWaits("ImagePullBackOff", "Back-off"), cancel},
		want:  cancels(RuleStopUnclaimed, "Stopped Cancelled Observation", "delete "+holder),
	},
	"Case 21: cancelled before the Pod was made: it never is": {
		given: []func(*Snapshot){granted, noPod, cancel},
		want:  cancels(RuleStopUnclaimed, "Stopped Cancelled Observation", ""),
	},
	"cancelled, and a crash between revoke and record": {
		given: []func(*Snapshot){granted, revokedTerm, cancel},
		want:  cancels(RuleRevokedUnclaimed, "Stopped Cancelled Observation", "delete "+holder),
	},
	"cancelled when its start had timed out: stopped, not failed": {
		given: []func(*Snapshot){granted, startSeconds(60), cancel},
		want:  cancels(RuleStopUnclaimed, "Stopped Cancelled Observation", "delete "+holder),
	},
	"cancelled with an unrecorded grant: revoked first": {
		given: []func(*Snapshot){backedOff, unrecorded, cancel},
		want:  want{Rule: RuleUnrecordedGrant, Lease: "revoke", Live: true},
	},
	"cancelled with an unrecorded claim: left alone while it is held": {
		given: []func(*Snapshot){backedOff, unrecorded, claim, since(12 * time.Second), cancel},
		want:  want{Rule: RuleUnrecordedClaim, Watch: 18 * time.Second},
	},
	"Case 22: cancelled with an unrecorded submission: that is put on record first, and may be a success": {
		given: []func(*Snapshot){backedOff, unrecorded, claim, submits(fencing.Succeeded, func(s *fencing.Submission) { s.Token += 5 }), cancel},
		want:  want{Rule: RuleUnrecordedSubmission, Status: "Claimed attempt 2 token 17592186044498", Waiting: "PodStarting", Ready: "False/PodStarting"},
	},

	"Case 23: cancelled while it runs: the holder is told": {
		given: []func(*Snapshot){onRecord, podRuns, cancel},
		want:  want{Rule: RuleStop, Lease: "stop Cancelled 30", Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
	"cancelled while its claim is young: told at once, and the claim is recorded": {
		given: []func(*Snapshot){claimed, podRuns, since(500 * time.Millisecond), cancel},
		want: want{Rule: RuleStop, Lease: "stop Cancelled 30", Status: "Running attempt 1", Ready: "False/Stopping", Watch: 29500 * time.Millisecond, Live: true,
			Counts: "claim"},
	},
	"a cancel can shorten the grace": {
		given: []func(*Snapshot){onRecord, podRuns, cancel, grace(7)},
		want:  want{Rule: RuleStop, Lease: "stop Cancelled 7", Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
	"and cannot stretch it": {
		given: []func(*Snapshot){onRecord, podRuns, cancel, grace(3600)},
		want:  want{Rule: RuleStop, Lease: "stop Cancelled 30", Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
	"once told, the kubelet is asked to tell it too": {
		given: []func(*Snapshot){onRecord, podRuns, cancel, told(fencing.ReasonCancelled, 30, 0)},
		want: want{Rule: RuleStopping, Status: "Running attempt 1", Ready: "False/Stopping", Pods: "limit " + holder + " 1", Watch: 25 * time.Second,
			Requeue: unheeded},
	},
	"a straggler's deadline is lowered": {
		given: []func(*Snapshot){onRecord, podRuns, cancel, told(fencing.ReasonCancelled, 30, 0), onPod(func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(310)) })},
		want: want{Rule: RuleStopping, Status: "Running attempt 1", Ready: "False/Stopping", Pods: "limit " + holder + " 1", Watch: 25 * time.Second,
			Requeue: unheeded},
	},
	"once pushed, it is waited for": {
		given: []func(*Snapshot){onRecord, podRuns, pushed, cancel, told(fencing.ReasonCancelled, 30, 40*time.Second)},
		want:  want{Rule: RuleStopping, Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Requeue: 7500 * time.Millisecond},
	},
	"a Pod that is being deleted needs no push": {
		given: []func(*Snapshot){onRecord, podRuns, podDeleted, cancel, told(fencing.ReasonCancelled, 30, 0)},
		want:  want{Rule: RuleStopping, Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Requeue: unheeded},
	},
	"a Pod that is not ours gets no push": {
		given: []func(*Snapshot){onRecord, podRuns, onPod(func(p *corev1.Pod) { p.OwnerReferences = nil }), cancel, told(fencing.ReasonCancelled, 30, 0)},
		want:  want{Rule: RuleStopping, Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Requeue: unheeded},
	},
	"told, and the grace is lowered: told again": {
		given: []func(*Snapshot){onRecord, podRuns, cancel, grace(1), told(fencing.ReasonCancelled, 30, 0)},
		want:  want{Rule: RuleStop, Lease: "stop Cancelled 1", Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
	"told to suspend, then cancelled: it has been told": {
		given: []func(*Snapshot){onRecord, podRuns, pushed, cancel, told(fencing.ReasonSuspended, 30, 0)},
		want:  want{Rule: RuleStopping, Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Requeue: unheeded},
	},
	"told, and the wish is taken back: what was told stands": {
		given: []func(*Snapshot){onRecord, podRuns, pushed, told(fencing.ReasonSuspended, 30, 0)},
		want:  want{Rule: RuleStopping, Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Requeue: unheeded},
	},
	"Case 23: not heeded: revoked, and Cancelled only once released": {
		given: []func(*Snapshot){onRecord, podRuns, pushed, cancel, told(fencing.ReasonCancelled, 30, unheeded)},
		want: want{Rule: RuleStopUnheeded, Lease: "revoke this version", Status: "Expired attempt 1", Entry: "Stopped Cancelled Observation", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Stopped"},
	},
	"a shorter grace is waited for less": {
		given: []func(*Snapshot){onRecord, podRuns, pushed, cancel, grace(1), told(fencing.ReasonCancelled, 1, 18500*time.Millisecond)},
		want: want{Rule: RuleStopUnheeded, Lease: "revoke this version", Status: "Expired attempt 1", Entry: "Stopped Cancelled Observation", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Stopped"},
	},
	"Case 3: cancelled on a lost node: Expired until released": {
		given: []func(*Snapshot){expiredOnce, noPod, cancel},
		want: want{Rule: RuleAwaitRelease, Status: "Expired attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease",
			Requeue: 20 * time.Second},
	},
	"Case 3: and then Cancelled": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), cancel},
		want:  cancels(RuleCancelled, "", ""),
	},
	"cancelled with a used-up budget: Cancelled, no dead letter": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), cancel, onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Retry.MaxDisruptions = new(int32(0)) })},
		want:  cancels(RuleCancelled, "", ""),
	},

	"Case 22: a success that was submitted first wins": {
		given: []func(*Snapshot){onRecord, workerDied(0, "Completed", ""), cancel, told(fencing.ReasonCancelled, 30, time.Second), submits(fencing.Succeeded)},
		want: want{Rule: RuleSubmitted, Status: "Completed attempt 1", Entry: "Succeeded Why Submission exit 3", Ready: "True/Completed",
			Counts: "attempt Succeeded, finished Completed"},
	},
	"a submission that it was stopped: acknowledged": {
		given: []func(*Snapshot){onRecord, pastDeadline, cancel, told(fencing.ReasonCancelled, 30, time.Second), submits(fencing.Cancelled)},
		want:  cancels(RuleSubmitted, "Stopped Cancelled Submission exit 3", ""),
	},
	"and before the claim was on record": {
		given: []func(*Snapshot){claimed, pastDeadline, cancel, told(fencing.ReasonCancelled, 30, time.Second), submits(fencing.Cancelled)},
		want: want{Rule: RuleSubmitted, Status: "Cancelled attempt 1", Entry: "Stopped Cancelled Submission exit 3", Ready: "True/Cancelled",
			Counts: "claim, attempt Stopped, finished Cancelled"},
	},
	"an agent that heard the signal only: the Lease says what for": {
		given: []func(*Snapshot){onRecord, pastDeadline, cancel, told(fencing.ReasonCancelled, 30, time.Second), submits(fencing.Interrupted)},
		want:  cancels(RuleSubmitted, "Stopped Cancelled Submission exit 3", ""),
	},
	"a failure while it is cancelled is recorded as that": {
		given: []func(*Snapshot){onRecord, pastDeadline, cancel, told(fencing.ReasonCancelled, 30, time.Second), submits(fencing.Failed)},
		want:  cancels(RuleSubmitted, "Failed Why Submission exit 3", ""),
	},
	"no rule judges an attempt that was stopped": {
		given: []func(*Snapshot){onRecord, pastDeadline, suspend, told(fencing.ReasonSuspended, 30, time.Second), submits(fencing.Cancelled), onTask(func(t *v1alpha1.LeasedTask) {
			t.Spec.Retry.Rules = []v1alpha1.RetryRule{{Action: v1alpha1.RetryActionDeadLetter, OnReasons: []string{fencing.ReasonSuspended}}}
		})},
		want: suspends(RuleSubmitted, "Stopped Suspended Submission exit 3"),
	},
	"a worker that says so and was not told is a disruption: it has a budget": {
		given: []func(*Snapshot){onRecord, noPod, submits(fencing.Cancelled)},
		want:  disrupted("Why Submission exit 3"),
	},
	"its agent's network went first: its report says that it stopped": {
		given: []func(*Snapshot){onRecord, pastDeadline, cancel, told(fencing.ReasonCancelled, 30, time.Second),
			workerDied(143, "Error", report(fencing.Cancelled, fencing.DeliveryUnknown, fencing.ReasonCancelled))},
		want: want{Rule: RuleWorkerEnded, Lease: "revoke", Status: "Expired attempt 1", Entry: "Stopped Cancelled Pod exit 143", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Stopped"},
	},
	"the kubelet killed it in the end: stopped, whatever the Pod calls that": {
		given: []func(*Snapshot){onRecord, pastDeadline, cancel, told(fencing.ReasonCancelled, 30, time.Second)},
		want: want{Rule: RuleWorkerEnded, Lease: "revoke", Status: "Expired attempt 1", Entry: "Stopped Cancelled Pod exit 137", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Stopped"},
	},
	"the same without a stop on the Lease was no stop": {
		given: []func(*Snapshot){onRecord, pastDeadline},
		want:  loses(RuleWorkerEnded, "Failed WorkerVanished Pod exit 137", 0),
	},
	"it ran out of memory while it was being stopped": {
		given: []func(*Snapshot){onRecord, workerDied(137, "OOMKilled", ""), suspend, told(fencing.ReasonSuspended, 30, time.Second)},
		want:  loses(RuleWorkerEnded, "Failed OOMKilled Pod exit 137", 0),
	},
	"it falls silent while it is being stopped": {
		given: []func(*Snapshot){onRecord, podRuns, pushed, since(30 * time.Second), cancel, told(fencing.ReasonCancelled, 30, 30*time.Second)},
		want: want{Rule: RuleExpired, Lease: "revoke this version", Status: "Expired attempt 1", Entry: "Stopped Cancelled Observation", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Stopped, expiry"},
	},
	"somebody deletes the Lease while it is being stopped": {
		given: []func(*Snapshot){onRecord, noPod, leaseGone, cancel},
		want: want{Rule: RuleLeaseLost, Status: "Expired attempt 1 next in 500ms", Entry: "Disrupted LeaseDeleted Observation", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Disrupted"},
	},

	"Case 22: cancelled after the end: too late": {
		given: []func(*Snapshot){finishedAs(v1alpha1.PhaseCompleted), cancel},
		want:  want{Rule: RuleFinished, Status: "Completed attempt 1", Ready: "True/Completed"},
	},
	"a cancelled task rests": {
		given: []func(*Snapshot){finishedAs(v1alpha1.PhaseCancelled), cancel, ttl(60)},
		want:  want{Rule: RuleFinished, Status: "Cancelled attempt 1", Ready: "True/Cancelled", Requeue: 50 * time.Second},
	},

	"Case 24: suspended at creation: nothing but the record of it": {
		given: []func(*Snapshot){available, suspend},
		want:  want{Rule: RuleSuspended, Status: "Available attempt 0", Waiting: "Suspended", Ready: "False/Suspended"},
	},
	"Case 24: suspended, and its time would not have come either": {
		given: []func(*Snapshot){available, suspend, startsAt(time.Hour)},
		want:  want{Rule: RuleSuspended, Status: "Available attempt 0", Waiting: "Suspended", Ready: "False/Suspended"},
	},
	"Case 24: no longer suspended": {
		given: []func(*Snapshot){available, onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Suspend = new(false) })},
		want:  want{Rule: RuleGrant, Lease: `grant task-1-xyz attempt 1 over ""`, Pods: "create", Live: true, Counts: "grant"},
	},
	"suspended and cancelled: Cancelled": {
		given: []func(*Snapshot){available, suspend, cancel},
		want:  want{Rule: RuleCancelled, Status: "Cancelled attempt 0", Ready: "True/Cancelled", Live: true, Counts: "finished Cancelled"},
	},
	"Case 26: suspended in back-off: the pause is kept, and not waited for": {
		given: []func(*Snapshot){backedOff, suspend},
		want:  want{Rule: RuleSuspended, Status: "Available attempt 1", Waiting: "Suspended", Ready: "False/Suspended"},
	},
	"Case 25: suspended while it starts: no start deadline runs": {
		given: []func(*Snapshot){granted, startSeconds(60), suspend},
		want: want{Rule: RuleStopUnclaimed, Lease: "revoke", Status: "Available attempt 1", Entry: "Stopped Suspended Observation", Waiting: "Suspended",
			Ready: "False/Suspended", Pods: "delete " + holder, Live: true, Counts: "attempt Stopped"},
	},
	"Case 26: suspended while it runs: the holder is told": {
		given: []func(*Snapshot){onRecord, podRuns, suspend},
		want:  want{Rule: RuleStop, Lease: "stop Suspended 30", Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
	"Case 26: it has stopped: no budget used, no pause": {
		given: []func(*Snapshot){onRecord, pastDeadline, suspend, told(fencing.ReasonSuspended, 30, time.Second), submits(fencing.Cancelled)},
		want:  suspends(RuleSubmitted, "Stopped Suspended Submission exit 3"),
	},
	"Case 26: a success that was submitted first wins": {
		given: []func(*Snapshot){onRecord, workerDied(0, "Completed", ""), suspend, told(fencing.ReasonSuspended, 30, time.Second), submits(fencing.Succeeded)},
		want: want{Rule: RuleSubmitted, Status: "Completed attempt 1", Entry: "Succeeded Why Submission exit 3", Ready: "True/Completed",
			Counts: "attempt Succeeded, finished Completed"},
	},
	"suspended, and it fails: the pause begins": {
		given: []func(*Snapshot){onRecord, pastDeadline, suspend, told(fencing.ReasonSuspended, 30, time.Second), submits(fencing.Failed)},
		want: want{Rule: RuleSubmitted, Status: "Available attempt 1 next in 500ms", Entry: "Failed Why Submission exit 3", Waiting: "Suspended", Ready: "False/Suspended",
			Counts: "attempt Failed"},
	},
	"suspended, and it expires: released, then held": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), suspend},
		want:  want{Rule: RuleReassign, Status: "Available attempt 1", Waiting: "Suspended", Ready: "False/Suspended", Live: true},
	},
	"Case 26: resumed after a stop: the next attempt begins at once": {
		given: []func(*Snapshot){backedOff, onTask(func(t *v1alpha1.LeasedTask) {
			t.Status.NextAttemptTime, t.Status.Disruptions = nil, 0
			t.Status.History[0].Outcome, t.Status.History[0].Reason = v1alpha1.AttemptStopped, fencing.ReasonSuspended
		})},
		want: want{Rule: RuleGrant, Lease: `grant task-2-xyz attempt 2 over "77"`, Pods: "create", Live: true, Counts: "grant"},
	},
}

func cancel(s *Snapshot) { s.Task.Spec.Cancel.Reason = "no longer needed" }

func grace(seconds int32) func(*Snapshot) {
	return func(s *Snapshot) { s.Task.Spec.Cancel.GracePeriodSeconds = seconds }
}

func suspend(s *Snapshot) { s.Task.Spec.Suspend = new(true) }

// told puts a stop on the Lease that was first seen a while ago.
func told(reason string, grace int32, seen time.Duration) func(*Snapshot) {
	return func(s *Snapshot) {
		stop := fencing.ParseStop(fencing.Stop{Reason: reason, GraceSeconds: grace, Time: now.Add(-seen)}.String())
		s.Term.Stop, s.StoppedSince = &stop, now.Add(-seen)
	}
}

// pushed is a Pod that the kubelet is told to end.
func pushed(s *Snapshot) { s.Pods[0].Spec.ActiveDeadlineSeconds = new(int64(pushSeconds)) }

// pastDeadline is a Pod that the kubelet has ended, as it sees it, for its deadline.
func pastDeadline(s *Snapshot) {
	pushed(s)
	workerDied(137, "Error", "")(s)
	s.Pods[0].Status.Reason, s.Pods[0].Status.Message = "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
}

func cancels(rule Rule, entry, pods string) want {
	w := want{Rule: rule, Status: "Cancelled attempt 1", Entry: entry, Ready: "True/Cancelled", Pods: pods, Live: rule != RuleSubmitted, Counts: "finished Cancelled"}
	if entry != "" {
		outcome := "Stopped"
		if entry[0] == 'F' {
			outcome = "Failed"
		}
		w.Counts = "attempt " + outcome + ", " + w.Counts
	}
	if rule == RuleStopUnclaimed {
		w.Lease = "revoke"
	}
	return w
}

func suspends(rule Rule, entry string) want {
	return want{Rule: rule, Status: "Available attempt 1", Entry: entry, Waiting: "Suspended", Ready: "False/Suspended", Counts: "attempt Stopped"}
}

// TestWhatAStopSays: to whom, and in which words.
func TestWhatAStopSays(t *testing.T) {
	tests := map[string]struct {
		given                    []func(*Snapshot)
		asked, readiness, record string // "REASON: MESSAGE" of CancelRequested and of Ready; the new entry's message
		event                    string
	}{
		"told": {
			given: []func(*Snapshot){onRecord, podRuns, cancel},
			asked: "Requested: no longer needed", readiness: "Stopping: attempt 1 on node node-1 is told to stop",
			event: "Stopping: Attempt 1 is told to stop within 30 s: Cancelled: no longer needed",
		},
		"acknowledged": {
			given: []func(*Snapshot){onRecord, pastDeadline, cancel, told(fencing.ReasonCancelled, 30, time.Second), saying("no longer needed"), submits(fencing.Cancelled)},
			asked: "Cancelled: no longer needed", readiness: "Cancelled: no longer needed", record: "told to stop: no longer needed; because",
			event: "Cancelled: no longer needed",
		},
		"not heeded": {
			given: []func(*Snapshot){onRecord, podRuns, pushed, cancel, told(fencing.ReasonCancelled, 30, unheeded)},
			asked: "Requested: no longer needed", readiness: "AwaitingRelease: the process of attempt 1 may still run",
			record: "told to stop; it did not submit within 47.5s", event: "AttemptStopped: Attempt 1: Cancelled: told to stop; it did not submit within 47.5s",
		},
		"stopped before the claim": {
			given: []func(*Snapshot){granted, suspend},
			asked: "NotRequested: ", readiness: "Suspended: spec.suspend is true", record: "stopped before a worker claimed",
			event: "AttemptStopped: Attempt 1: Suspended: stopped before a worker claimed",
		},
		"too late": {
			given: []func(*Snapshot){finishedAs(v1alpha1.PhaseCompleted), cancel},
			asked: "TooLate: too late, the task is Completed: no longer needed", readiness: "Completed: attempt 1 succeeded",
		},
		"overtaken by a success": {
			given: []func(*Snapshot){onRecord, podRuns, cancel, told(fencing.ReasonCancelled, 30, time.Second), submits(fencing.Succeeded)},
			asked: "TooLate: too late, the task is Completed: no longer needed", readiness: "Completed: attempt 1 succeeded", record: "because",
			event: "Completed: Attempt 1 succeeded under token 17592186044493",
		},
		"a message of any length fits the record": {
			given: []func(*Snapshot){onRecord, pastDeadline, cancel, told(fencing.ReasonCancelled, 30, time.Second), saying(strings.Repeat("x", 1024)), submits(fencing.Cancelled)},
			asked: "Cancelled: no longer needed", readiness: "Cancelled: no longer needed", record: "told to stop: " + strings.Repeat("x", 253) + "...; because",
			event: "Cancelled: no longer needed",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := given(test.given...)
			p := Decide(s)
			says := func(kind string) string {
				c := meta.FindStatusCondition(p.Status.Conditions, kind)
				return c.Reason + ": " + c.Message
			}
			record, event := "", ""
			if len(p.Status.History) > len(s.Task.Status.History) {
				record = lastOf(p.Status.History).Message
			}
			if p.Status.Failures != 0 || p.Status.Disruptions != 0 {
				t.Errorf("charged: %d failures, %d disruptions", p.Status.Failures, p.Status.Disruptions)
			}
			if n := len(p.Events); n > 0 {
				event = p.Events[n-1].Reason + ": " + p.Events[n-1].Note
			}
			got := []string{says(v1alpha1.ConditionCancelRequested), says(v1alpha1.ConditionReady), record, event}
			if diff := cmp.Diff([]string{test.asked, test.readiness, test.record, test.event}, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// saying gives the stop on the Lease a message.
func saying(message string) func(*Snapshot) {
	return func(s *Snapshot) { s.Term.Stop.Message = message }
}
