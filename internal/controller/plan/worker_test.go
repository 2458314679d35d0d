package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// permanently and after are what a worker says of its failure.
func permanently(s *fencing.Submission) { s.Retryable = new(false) }

func after(seconds int32) func(*fencing.Submission) {
	return func(s *fencing.Submission) { s.RetryAfterSeconds = &seconds }
}

// workerTable: the worker classifies its own failure, and says how far it has come.
var workerTable = map[string]decision{
	"a failure that its worker calls permanent ends the task": {
		given: []func(*Snapshot){onRecord, submits(fencing.Failed, permanently)},
		want: want{Rule: RuleSubmitted, Status: "Expired attempt 1", Entry: "Failed Why Submission exit 3", Waiting: "DeadLetterPending",
			Ready: "False/DeadLetterPending", Counts: "attempt Failed"},
	},
	"a rule is asked first: it tries again": {
		given: []func(*Snapshot){onRecord, submits(fencing.Failed, permanently), retryRules(onReason(v1alpha1.RetryActionRetry, "Why"))},
		want:  fails("Why Submission exit 3 Retry"),
	},
	"a disruption has no class": {
		given: []func(*Snapshot){onRecord, submits(fencing.Interrupted, permanently)},
		want:  disrupted("Why Submission exit 3"),
	},
	"a failure that may be tried again is charged to its budget": {
		given: []func(*Snapshot){onRecord, submits(fencing.Failed, func(s *fencing.Submission) { s.Retryable = new(true) })},
		want:  fails("Why Submission exit 3"),
	},
	"the dead letter says who ended it": {
		given: []func(*Snapshot){onRecord, submits(fencing.Failed, permanently), ended},
		want: want{Rule: RuleGiveUp, Dead: "NotRetryable", Status: "DeadLettered attempt 1", Ready: "False/NotRetryable", Live: true,
			Counts: "finished DeadLettered, dead_letter Other"},
	},
	"where a rule has it tried again, the budget ends it": {
		given: []func(*Snapshot){onRecord, submits(fencing.Failed, permanently), retryRules(onReason(v1alpha1.RetryActionRetry, "Why")),
			onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Retry.MaxAttempts = 1 }), ended},
		want: want{Rule: RuleGiveUp, Dead: "BudgetExceeded", Status: "DeadLettered attempt 1", Ready: "False/BudgetExceeded", Live: true,
			Counts: "finished DeadLettered, dead_letter Other"},
	},
	"a worker's pause takes the place of the back-off": {
		given: []func(*Snapshot){onRecord, submits(fencing.Failed, after(7200))},
		want: want{Rule: RuleSubmitted, Status: "Available attempt 1 next in 2h0m0s", Entry: "Failed Why Submission exit 3", Waiting: "Backoff",
			Ready: "False/Backoff", Counts: "attempt Failed"},
	},
	"and is kept, though no back-off is that long": {
		given: []func(*Snapshot){onRecord, submits(fencing.Failed, after(7200)), ended},
		want:  want{Rule: RuleBackoff, Status: "", Requeue: 2 * time.Hour},
	},
	"no pause is one, too": {
		given: []func(*Snapshot){onRecord, submits(fencing.Failed, after(0))},
		want: want{Rule: RuleSubmitted, Status: "Available attempt 1 next in 0s", Entry: "Failed Why Submission exit 3", Waiting: "Backoff",
			Ready: "False/Backoff", Counts: "attempt Failed"},
	},
	"a forged pause is bounded": {
		given: []func(*Snapshot){onRecord, submits(fencing.Failed, after(1<<30))},
		want: want{Rule: RuleSubmitted, Status: "Available attempt 1 next in 24h0m0s", Entry: "Failed Why Submission exit 3", Waiting: "Backoff",
			Ready: "False/Backoff", Counts: "attempt Failed"},
	},
	"a reference that is none is no success": {
		given: []func(*Snapshot){onRecord, submits(fencing.Succeeded, kept("ftp://x", "sha256:00", 1))},
		want:  fails("ResultInvalid Submission exit 3"),
	},
	"progress that is young waits": {
		given: []func(*Snapshot){onRecord, podRuns, written, progress(3), recorded(2, 4*time.Second)},
		want:  want{Rule: RuleHeld, Requeue: 6 * time.Second, Watch: 25 * time.Second},
	},
}

// ended carries out what the plan before wants, as far as status goes.
func ended(s *Snapshot) {
	if p := Decide(s); p.Status != nil {
		s.Task.Status, s.Live = *p.Status, true
	}
	s.Pods = nil
}

// written is a status whose conditions are written.
func written(s *Snapshot) {
	if p := Decide(s); p.Status != nil {
		s.Task.Status = *p.Status
	}
}

func kept(uri, digest string, size int64) func(*fencing.Submission) {
	return func(s *fencing.Submission) {
		s.ResultRef = &fencing.ResultRef{URI: uri, Digest: digest, SizeBytes: size}
	}
}

func progress(current int64) func(*Snapshot) {
	return onTerm(func(t *fencing.Term) { t.Progress = &fencing.Progress{Current: current, Total: 9, Message: "m"} })
}

// recorded puts progress on record, some time ago.
func recorded(current int64, ago time.Duration) func(*Snapshot) {
	return onTask(func(t *v1alpha1.LeasedTask) {
		t.Status.Progress = v1alpha1.Progress{Current: &current, Total: 9, Message: "m", RecordTime: at(-ago)}
	})
}

func TestProgressIsRecordedAtABoundedRate(t *testing.T) {
	tests := map[string]struct {
		given    []func(*Snapshot)
		recorded int64 // what the status says after the plan
		requeue  time.Duration
		writes   bool
	}{
		"the first":                       {[]func(*Snapshot){onRecord, written, progress(1)}, 1, 0, true},
		"unchanged":                       {[]func(*Snapshot){onRecord, written, progress(1), recorded(1, time.Minute)}, 1, 0, false},
		"young":                           {[]func(*Snapshot){onRecord, written, progress(2), recorded(1, 9*time.Second)}, 1, time.Second, false},
		"old enough":                      {[]func(*Snapshot){onRecord, written, progress(2), recorded(1, 10*time.Second)}, 2, 0, true},
		"a clock was set back":            {[]func(*Snapshot){onRecord, written, progress(2), recorded(1, -time.Hour)}, 2, 0, true},
		"with the claim":                  {[]func(*Snapshot){claimed, progress(1)}, 1, 0, true},
		"with the end, however young":     {[]func(*Snapshot){onRecord, written, progress(2), recorded(1, time.Second), submits(fencing.Failed)}, 2, 0, true},
		"with the success":                {[]func(*Snapshot){onRecord, written, progress(2), recorded(1, time.Second), submits(fencing.Succeeded)}, 2, 0, true},
		"of a term that is not on record": {[]func(*Snapshot){onRecord, written, recorded(1, time.Minute), progress(2), onTerm(func(t *fencing.Term) { t.UID = "other" })}, 1, 0, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := given(tc.given...)
			p := Decide(s)
			status := p.Status
			if (status != nil) != tc.writes {
				t.Fatalf("rule %s writes: %t", p.Rule, status != nil)
			}
			if status == nil {
				status = &s.Task.Status
			}
			if *status.Progress.Current != tc.recorded || (tc.requeue != 0 && p.Requeue != tc.requeue) {
				t.Errorf("rule %s: progress %d, requeue %s", p.Rule, *status.Progress.Current, p.Requeue)
			}
			if stored := stored(t, status); stored.Progress.Message != "m" || stored.Progress.Total != 9 {
				t.Errorf("stored as %+v", stored.Progress)
			}
		})
	}
}

func TestANewAttemptBeginsWithoutProgressAndWithTheCheckpoint(t *testing.T) {
	s := given(onRecord, progress(2), onTerm(func(t *fencing.Term) { t.Checkpoint = "row 41" }), submits(fencing.Failed, after(0)), ended)
	if s.Task.Status.Checkpoint != "row 41" || *s.Task.Status.Progress.Current != 2 {
		t.Fatalf("on record: %q, %+v", s.Task.Status.Checkpoint, s.Task.Status.Progress)
	}
	p := Decide(s)
	if p.Grant == nil || p.Grant.Checkpoint != "row 41" {
		t.Fatalf("rule %s, grant %+v", p.Rule, p.Grant)
	}
	next := Granted(s, p.Grant, "lease-1", fencing.Token(token)+1)
	if next.Checkpoint != "row 41" || (next.Progress != v1alpha1.Progress{}) {
		t.Errorf("after the grant: %q, %+v", next.Checkpoint, next.Progress)
	}
}

func TestWhichCheckpointIsCarried(t *testing.T) {
	onStatus := onTask(func(t *v1alpha1.LeasedTask) { t.Status.Checkpoint = "recorded" })
	onLease := onTerm(func(t *fencing.Term) { t.Checkpoint = "leased" })
	tests := map[string]struct {
		given []func(*Snapshot)
		want  string
	}{
		"the Lease's":                   {[]func(*Snapshot){backedOff, pauseOver, onStatus, onLease}, "leased"},
		"taken back by the worker":      {[]func(*Snapshot){backedOff, pauseOver, onStatus}, ""},
		"the Lease is gone":             {[]func(*Snapshot){backedOff, pauseOver, onStatus, leaseGone}, "recorded"},
		"the Lease is another":          {[]func(*Snapshot){backedOff, pauseOver, onStatus, onTerm(func(t *fencing.Term) { t.UID = "other" })}, "recorded"},
		"of no Lease on record":         {[]func(*Snapshot){backedOff, pauseOver, onStatus, onLease, onTask(func(t *v1alpha1.LeasedTask) { t.Status.LeaseUID = "" })}, "recorded"},
		"of the first attempt: nothing": {[]func(*Snapshot){available}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := given(tc.given...).carriedCheckpoint(); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

// TestALostLeaseKeepsTheRecordedCheckpoint: what its worker said since is gone with it.
func TestALostLeaseKeepsTheRecordedCheckpoint(t *testing.T) {
	s := given(onRecord, onTask(func(t *v1alpha1.LeasedTask) { t.Status.Checkpoint = "recorded" }), leaseGone)
	if p := Decide(s); p.Rule != RuleLeaseLost || p.Status.Checkpoint != "recorded" {
		t.Errorf("rule %s, checkpoint %q", p.Rule, p.Status.Checkpoint)
	}
}

func TestWhatTheWorkerSaidOfItsFailureIsOnRecord(t *testing.T) {
	digest := "sha256:" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	s := given(onRecord, submits(fencing.Failed, after(60)))
	got := lastOf(Decide(s).Status.History)
	want := v1alpha1.AttemptRecord{RetryAfterSeconds: new(int32(60))}
	if got.FailureClass != "" || *got.RetryAfterSeconds != *want.RetryAfterSeconds {
		t.Errorf("%+v", got)
	}
	s = given(onRecord, submits(fencing.Failed, permanently))
	if got := lastOf(Decide(s).Status.History); got.FailureClass != v1alpha1.FailurePermanent || got.RetryAfterSeconds != nil {
		t.Errorf("%+v", got)
	}
	s = given(onRecord, submits(fencing.Succeeded, kept("s3://bucket/key", digest, 7)))
	ref := Decide(s).Status.ResultRef
	if diff := cmp.Diff(v1alpha1.ResultRef{URI: "s3://bucket/key", Digest: digest, SizeBytes: new(int64(7))}, ref); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCRDGuardsTheReference(t *testing.T) {
	refuse := refusals(t)
	with := func(phase v1alpha1.Phase, fields ...any) map[string]any {
		status := statusOf(phase, 1, 100)
		for i := 0; i < len(fields); i += 2 {
			status[fields[i].(string)] = fields[i+1]
		}
		return status
	}
	ref := func(uri string) map[string]any {
		return map[string]any{"uri": uri, "digest": "d", "sizeBytes": int64(1)}
	}
	tests := map[string]struct {
		was, is map[string]any
		refused bool
	}{
		"it comes with the completion": {with("Running"), with("Completed", "resultRef", ref("a:b")), false},
		"it changes":                   {with("Completed", "resultRef", ref("a:b")), with("Completed", "resultRef", ref("a:c")), true},
		"it is removed":                {with("Completed", "resultRef", ref("a:b")), with("Completed"), true},
		"beside a result":              {with("Running"), with("Completed", "resultRef", ref("a:b"), "result", "r"), true},
		"before there was a phase":     {nil, map[string]any{"phase": "Available", "resultRef": ref("a:b")}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := refuse(tc.was, tc.is); (got != "") != tc.refused {
				t.Errorf("refused with %q", got)
			}
		})
	}
}
