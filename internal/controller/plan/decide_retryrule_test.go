package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// retryRuleTable: what spec.retry.rules make of an end.
var retryRuleTable = map[string]decision{
	"a failure that a rule ignores is a disruption": {
		given: []func(*Snapshot){onRecord, submits(fencing.Failed), retryRules(onExitCode(v1alpha1.RetryActionIgnore, 3))},
		want:  disrupted("Why Submission exit 3 Ignore"),
	},
	"a disruption that a rule retries is a failure": {
		given: []func(*Snapshot){onRecord, submits(fencing.Interrupted), retryRules(onReason(v1alpha1.RetryActionRetry, "Why"))},
		want:  fails("Why Submission exit 3 Retry"),
	},
	"a failure that a rule dead-letters ends the task": {
		given: []func(*Snapshot){onRecord, submits(fencing.Failed), retryRules(onExitCode(v1alpha1.RetryActionDeadLetter, 3))},
		want: want{Rule: RuleSubmitted, Status: "Expired attempt 1", Entry: "Failed Why Submission exit 3 DeadLetter", Waiting: "DeadLetterPending",
			Ready: "False/DeadLetterPending", Counts: "attempt Failed"},
	},
	"a success is not judged": {
		given: []func(*Snapshot){onRecord, submits(fencing.Succeeded), retryRules(onReason(v1alpha1.RetryActionDeadLetter, "Why"))},
		want: want{Rule: RuleSubmitted, Status: "Completed attempt 1", Entry: "Succeeded Why Submission exit 3", Ready: "True/Completed",
			Counts: "attempt Succeeded, finished Completed"},
	},
	"a loss that a rule dead-letters waits for its release": {
		given: []func(*Snapshot){onRecord, podRuns, since(30 * time.Second), retryRules(onReason(v1alpha1.RetryActionDeadLetter, ReasonLeaseExpired))},
		want: want{Rule: RuleExpired, Lease: "revoke this version", Status: "Expired attempt 1", Entry: "Failed LeaseExpired Observation DeadLetter",
			Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease", Requeue: settleTime, Live: true, Counts: "attempt Failed, expiry"},
	},
	"and is the end then, though budget is left": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), onTask(func(t *v1alpha1.LeasedTask) {
			t.Status.History[0].Action = v1alpha1.RetryActionDeadLetter
		})},
		want: want{Rule: RuleOver, Status: "Expired attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true},
	},
	"a start timeout is matched by what it was waiting for, too": {
		given: []func(*Snapshot){granted, func(s *Snapshot) { s.Task.Spec.Timeouts.StartSeconds = 30 }, containerWaits("ImagePullBackOff", "gone"),
			retryRules(onReason(v1alpha1.RetryActionRetry, v1alpha1.WaitingImagePull))},
		want: want{Rule: RuleStartTrouble, Lease: "revoke", Status: "Available attempt 1 next in 500ms", Entry: "Failed StartTimeout Pod Retry",
			Waiting: "Backoff", Ready: "False/Backoff", Pods: "delete " + holder, Live: true, Counts: "attempt Failed"},
	},
	"a start timeout that a rule ignores is tried again": {
		given: []func(*Snapshot){granted, func(s *Snapshot) { s.Task.Spec.Timeouts.StartSeconds = 30 },
			retryRules(onReason(v1alpha1.RetryActionIgnore, ReasonStartTimeout))},
		want: want{Rule: RuleStartTrouble, Lease: "revoke", Status: "Available attempt 1 next in 500ms", Entry: "Disrupted StartTimeout Pod Ignore",
			Waiting: "Backoff", Ready: "False/Backoff", Pods: "delete " + holder, Live: true, Counts: "attempt Disrupted"},
	},
}

func retryRules(rules ...v1alpha1.RetryRule) func(*Snapshot) {
	return onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Retry.Rules = rules })
}

func onExitCode(action v1alpha1.RetryAction, codes ...int32) v1alpha1.RetryRule {
	return v1alpha1.RetryRule{Action: action, OnExitCodes: v1alpha1.ExitCodeRequirement{Operator: v1alpha1.ExitCodeIn, Values: codes}}
}

func onReason(action v1alpha1.RetryAction, reasons ...string) v1alpha1.RetryRule {
	return v1alpha1.RetryRule{Action: action, OnReasons: reasons}
}

func TestWhichRetryRuleMatches(t *testing.T) {
	const retry, ignore, dead = v1alpha1.RetryActionRetry, v1alpha1.RetryActionIgnore, v1alpha1.RetryActionDeadLetter
	notIn := v1alpha1.RetryRule{Action: dead, OnExitCodes: v1alpha1.ExitCodeRequirement{Operator: v1alpha1.ExitCodeNotIn, Values: []int32{1, 2}}}
	onPod := func(kind corev1.PodConditionType, status corev1.ConditionStatus) v1alpha1.RetryRule {
		return v1alpha1.RetryRule{Action: ignore, OnPodConditions: []v1alpha1.PodConditionRequirement{{Type: string(kind), Status: status}}}
	}
	both := onExitCode(dead, 7)
	both.OnReasons = []string{"Bad"}
	hurt := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}, {Type: corev1.PodReady, Status: corev1.ConditionFalse}}}}
	tests := map[string]struct {
		rules  []v1alpha1.RetryRule
		code   *int32
		reason string
		pod    *corev1.Pod
		want   v1alpha1.RetryAction
	}{
		"no rules":                          {nil, new(int32(1)), "Bad", nil, ""},
		"the first that matches":            {[]v1alpha1.RetryRule{onExitCode(retry, 9), onExitCode(ignore, 1), onExitCode(dead, 1)}, new(int32(1)), "Bad", nil, ignore},
		"none matches":                      {[]v1alpha1.RetryRule{onExitCode(retry, 9), onReason(dead, "Worse")}, new(int32(1)), "Bad", nil, ""},
		"none of the codes":                 {[]v1alpha1.RetryRule{notIn}, new(int32(3)), "Bad", nil, dead},
		"one of the codes":                  {[]v1alpha1.RetryRule{notIn}, new(int32(2)), "Bad", nil, ""},
		"no code is not another code":       {[]v1alpha1.RetryRule{notIn}, nil, "Bad", nil, ""},
		"no code is not code 0":             {[]v1alpha1.RetryRule{onExitCode(dead, 0)}, nil, "Bad", nil, ""},
		"an empty reason":                   {[]v1alpha1.RetryRule{onReason(dead, ReasonUnspecified)}, nil, "", nil, dead},
		"a condition":                       {[]v1alpha1.RetryRule{onPod(corev1.DisruptionTarget, "")}, nil, "Bad", hurt, ignore},
		"a condition of another status":     {[]v1alpha1.RetryRule{onPod(corev1.PodReady, "")}, nil, "Bad", hurt, ""},
		"a condition of that status":        {[]v1alpha1.RetryRule{onPod(corev1.PodReady, corev1.ConditionFalse)}, nil, "Bad", hurt, ignore},
		"a condition of a Pod that is gone": {[]v1alpha1.RetryRule{onPod(corev1.DisruptionTarget, "")}, nil, "Bad", nil, ""},
		"both requirements hold":            {[]v1alpha1.RetryRule{both}, new(int32(7)), "Bad", nil, dead},
		"one of both":                       {[]v1alpha1.RetryRule{both}, new(int32(7)), "Worse", nil, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := &end{outcome: v1alpha1.AttemptFailed, reason: tc.reason, exitCode: tc.code, evidence: v1alpha1.EvidenceSubmission}
			if got := actionFor(tc.rules, e, tc.pod); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestTheAgentsOwnExitCodeMatchesNoRule(t *testing.T) {
	fenced := &end{outcome: v1alpha1.AttemptDisrupted, reason: "RenewalFailed", exitCode: new(int32(122)), evidence: v1alpha1.EvidencePod}
	if got := actionFor([]v1alpha1.RetryRule{onExitCode(v1alpha1.RetryActionDeadLetter, 122)}, fenced, nil); got != "" {
		t.Errorf("a fenced agent is judged as a command that exited: %s", got)
	}
}

// startsAt gives the task an earliest time, from now.
func startsAt(d time.Duration) func(*Snapshot) {
	return onTask(func(t *v1alpha1.LeasedTask) { t.Spec.StartAfter = new(metav1.NewTime(now.Add(d))) })
}
