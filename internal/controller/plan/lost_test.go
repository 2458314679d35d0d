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
		want: want{Rule: RuleSubmitted, Status: "Available attempt 1 next in 2m30s", Entry: "Failed Why Submission exit 3", Waiting: "Backoff", Ready: "False/Backoff",
			Counts: "attempt Failed"},
	},
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
