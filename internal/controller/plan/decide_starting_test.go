package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// left is what is left of the default start timeout a minute after the grant.
const left = 59 * time.Minute

// startingTable: granted, and nobody has claimed.
var startingTable = map[string]decision{
	"the Pod is made": {
		given: []func(*Snapshot){granted, noPod},
		want:  want{Rule: RulePodMissing, Pods: "create", Live: true},
	},
	"no quota for the Pod": {
		given: []func(*Snapshot){granted, noPod, refused(RefusedQuota)},
		want:  waitsToStart(RulePodMissing, "QuotaExceeded", RefusedRetry),
	},
	"no admission for the Pod": {
		given: []func(*Snapshot){granted, noPod, refused(RefusedPolicy)},
		want:  waitsToStart(RulePodMissing, "PodRefused", RefusedRetry),
	},
	"a refused Pod is not tried beyond the start timeout": {
		given: []func(*Snapshot){granted, noPod, refused(RefusedPolicy), startSeconds(63)},
		want:  waitsToStart(RulePodMissing, "PodRefused", 3*time.Second),
	},
	"the Pod starts":           {given: []func(*Snapshot){granted}, want: waitsToStart(RuleStarting, "PodStarting", left)},
	"the worker runs, briefly": {given: []func(*Snapshot){granted, podRuns, runsFor(5 * time.Second)}, want: waitsToStart(RuleStarting, "PodStarting", agentPatience-5*time.Second)},
	"the worker runs, and its agent is not heard": {
		given: []func(*Snapshot){granted, podRuns, runsFor(15 * time.Second)},
		want:  waitsToStart(RuleStarting, "AgentUnreachable", left),
	},
	"no node takes the Pod": {
		given: []func(*Snapshot){granted, podCondition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable)},
		want:  waitsToStart(RuleStarting, "Unschedulable", left),
	},
	"Kueue, say, has not admitted the Pod": {
		given: []func(*Snapshot){granted, podCondition(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated)},
		want:  waitsToStart(RuleStarting, "SchedulingGated", left),
	},
	"the image is pulled again and again": {
		given: []func(*Snapshot){granted, containerWaits("ImagePullBackOff", `Back-off pulling image "example.com/app:1": ErrImagePull: no such host`)},
		want:  waitsToStart(RuleStarting, "ImagePull", left),
	},
	"a ConfigMap is missing": {
		given: []func(*Snapshot){granted, containerWaits("CreateContainerConfigError", `configmap "c" not found`)},
		want:  waitsToStart(RuleStarting, "ContainerConfig", left),
	},
	"an image's name is no name": {
		given: []func(*Snapshot){granted, containerWaits("InvalidImageName", "cannot parse")},
		want:  cannotStart("InvalidImageName Pod", "delete "+holder),
	},
	"the template makes no valid Pod": {
		given: []func(*Snapshot){granted, noPod, refused(RefusedInvalid)},
		want:  cannotStart("PodInvalid Pod", ""),
	},
	"the start timeout is over": {
		given: []func(*Snapshot){granted, startSeconds(60)},
		want:  cannotStart("StartTimeout Pod", "delete "+holder),
	},
	"the start timeout is over before any Pod could be made": {
		given: []func(*Snapshot){granted, noPod, refused(RefusedQuota), startSeconds(60)},
		want:  cannotStart("StartTimeout Pod", ""),
	},
	"a Lease without acquireTime times out all the same": {
		given: []func(*Snapshot){granted, startSeconds(60), since(time.Minute), onTerm(func(t *fencing.Term) { t.GrantTime = time.Time{} })},
		want:  cannotStart("StartTimeout Pod", "delete "+holder),
	},
	"the clock that timed the grant was ahead: the start timeout counts from when the grant was seen": {
		given: []func(*Snapshot){granted, startSeconds(60), since(time.Minute), onTerm(func(t *fencing.Term) { t.GrantTime = now.Add(time.Hour) })},
		want:  cannotStart("StartTimeout Pod", "delete "+holder),
	},
	"the Pod's name is taken": {
		given: []func(*Snapshot){granted, noPod, refused(RefusedTaken)},
		want:  triesAgain("Disrupted PodNameTaken Pod", ""),
	},
	"the Pod of that name is another attempt's": {
		given: []func(*Snapshot){granted, onPod(func(p *corev1.Pod) { p.Annotations[v1alpha1.TokenAnnotation] = "7" })},
		want:  triesAgain("Disrupted PodNameTaken Pod", "delete "+holder),
	},
	"the Pod is deleted before its worker claimed": {
		given: []func(*Snapshot){granted, podDeleted},
		want:  triesAgain("Disrupted PodDeleted Pod", ""),
	},
	"the Pod is preempted before its worker claimed": {
		given: []func(*Snapshot){granted, podCondition(corev1.DisruptionTarget, corev1.ConditionTrue, "PreemptionByScheduler")},
		want:  triesAgain("Disrupted PreemptionByScheduler Pod", "delete "+holder),
	},
	"a disruption without a reason is recorded as that": {
		given: []func(*Snapshot){granted, podCondition(corev1.DisruptionTarget, corev1.ConditionTrue, "")},
		want:  triesAgain("Disrupted Unspecified Pod", "delete "+holder),
	},
	"the kubelet does not take the Pod": {
		given: []func(*Snapshot){granted, onPod(func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu"} })},
		want:  triesAgain("Disrupted PodFailed Pod", ""),
	},
	"the worker container ends without a claim": {
		given: []func(*Snapshot){granted, workerDied(127, "StartError", "no such file")},
		want:  triesAgain("Failed StartFailed Pod exit 127", ""),
	},
	"an init container fails": {
		given: []func(*Snapshot){granted, onPod(func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: []corev1.ContainerStatus{{Name: "init",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 4}}}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "main"}}}
		})},
		want: triesAgain("Failed StartFailed Pod exit 4", ""),
	},
	"revoked after a crash: the evidence is still there": {
		given: []func(*Snapshot){granted, revokedTerm, podDeleted},
		want:  want{Rule: RuleRevokedUnclaimed, Status: "Available attempt 1 next in 500ms", Entry: "Disrupted PodDeleted Pod", Waiting: "Backoff", Ready: "False/Backoff", Live: true, Counts: "attempt Disrupted"},
	},
	"revoked by somebody": {
		given: []func(*Snapshot){granted, revokedTerm},
		want: want{Rule: RuleRevokedUnclaimed, Status: "Available attempt 1 next in 500ms", Entry: "Disrupted Revoked Observation", Waiting: "Backoff",
			Ready: "False/Backoff", Pods: "delete " + holder, Live: true, Counts: "attempt Disrupted"},
	},
	"the Lease is deleted before any claim": {
		given: []func(*Snapshot){granted, leaseGone},
		want: want{Rule: RuleLeaseLost, Status: "Expired attempt 1 next in 500ms", Entry: "Disrupted LeaseDeleted Observation", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Pods: "delete " + holder, Live: true, Counts: "attempt Disrupted"},
	},
}

func startSeconds(n int32) func(*Snapshot) {
	return onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Timeouts.StartSeconds = n })
}

func runsFor(d time.Duration) func(*Snapshot) {
	return onPod(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Running.StartedAt = *at(-d) })
}

func waitsToStart(rule Rule, reason string, requeue time.Duration) want {
	return want{Rule: rule, Status: "Claimed attempt 1", Waiting: reason, Ready: "False/" + reason, Requeue: requeue}
}

func cannotStart(entry, pods string) want {
	return want{Rule: RuleStartTrouble, Lease: "revoke", Status: "Expired attempt 1", Entry: "Failed " + entry, Waiting: "DeadLetterPending",
		Ready: "False/DeadLetterPending", Pods: pods, Live: true, Counts: "attempt Failed"}
}

func triesAgain(entry, pods string) want {
	outcome := "Failed"
	if entry[0] == 'D' {
		outcome = "Disrupted"
	}
	return want{Rule: RuleStartTrouble, Lease: "revoke", Status: "Available attempt 1 next in 500ms", Entry: entry, Waiting: "Backoff", Ready: "False/Backoff",
		Pods: pods, Live: true, Counts: "attempt " + outcome}
}
