package plan

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// actionFor is what the first rule that matches makes of an attempt's end; empty: none matches, or nobody judges it: a success, or an attempt that was told to stop. pod is
// the attempt's, nil if it is gone.
func actionFor(rules []v1alpha1.RetryRule, e *end, pod *corev1.Pod) v1alpha1.RetryAction {
	if e.outcome == v1alpha1.AttemptSucceeded || e.outcome == v1alpha1.AttemptStopped {
		return ""
	}
	for i := range rules {
		if matches(&rules[i], e, pod) {
			return rules[i].Action
		}
	}
	return ""
}

// matches reports whether every requirement that the rule gives holds.
func matches(rule *v1alpha1.RetryRule, e *end, pod *corev1.Pod) bool {
	if len(rule.OnExitCodes.Values) > 0 && !hasExitCode(&rule.OnExitCodes, e) {
		return false
	}
	if len(rule.OnReasons) > 0 && !slices.ContainsFunc(rule.OnReasons, func(r string) bool { return r == recordedReason(e) || r == e.cause }) {
		return false
	}
	return len(rule.OnPodConditions) == 0 || hasCondition(rule.OnPodConditions, pod)
}

// hasExitCode compares the command's exit code. Without a submission, what the kubelet has is the agent's.
func hasExitCode(want *v1alpha1.ExitCodeRequirement, e *end) bool {
	return e.exitCode != nil && e.evidence == v1alpha1.EvidenceSubmission &&
		slices.Contains(want.Values, *e.exitCode) == (want.Operator == v1alpha1.ExitCodeIn)
}

func hasCondition(wanted []v1alpha1.PodConditionRequirement, pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	return slices.ContainsFunc(wanted, func(want v1alpha1.PodConditionRequirement) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return string(c.Type) == want.Type && c.Status == cmp.Or(want.Status, corev1.ConditionTrue)
		})
	})
}
