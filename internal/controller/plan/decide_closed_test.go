package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// restingTable: before the first phase, after the last, and on the way out.
var restingTable = map[string]decision{
	"a new task is accepted": {
		want: want{Rule: RuleAccept, Status: "Available attempt 0", Ready: "False/Pending"},
	},
	"a task that is being deleted is left alone, its Pods too": {
		given: []func(*Snapshot){expiredOnce, since(time.Hour), onTask(func(t *v1alpha1.LeasedTask) { t.DeletionTimestamp = at(-time.Minute) })},
		want:  want{Rule: RuleDeleting},
	},
	"a completed task rests": {
		given: []func(*Snapshot){finishedAs(v1alpha1.PhaseCompleted)},
		want:  want{Rule: RuleFinished, Status: "Completed attempt 1", Ready: "True/Completed"},
	},
	"a dead-lettered task stalls, and says why": {
		given: []func(*Snapshot){finishedAs(v1alpha1.PhaseDeadLettered), onTask(func(t *v1alpha1.LeasedTask) {
			t.Status.Failures, t.Spec.Retry.MaxAttempts = 1, 1
		})},
		want: want{Rule: RuleFinished, Status: "DeadLettered attempt 1", Ready: "False/BudgetExceeded"},
	},
	"a finished task waits for its time to live": {
		given: []func(*Snapshot){finishedAs(v1alpha1.PhaseCompleted), ttl(60)},
		want:  want{Rule: RuleFinished, Status: "Completed attempt 1", Ready: "True/Completed", Requeue: 50 * time.Second},
	},
	"a finished task is deleted when its time to live has passed": {
		given: []func(*Snapshot){finishedAs(v1alpha1.PhaseCompleted), ttl(10)},
		want:  want{Rule: RuleFinished, Status: "Completed attempt 1", Ready: "True/Completed", Deletes: true},
	},
	"a time to live of zero deletes at once": {
		given: []func(*Snapshot){finishedAs(v1alpha1.PhaseDeadLettered), ttl(0), onTask(func(t *v1alpha1.LeasedTask) { t.Status.CompletionTime = at(0) })},
		want:  want{Rule: RuleFinished, Status: "DeadLettered attempt 1", Ready: "False/BudgetExceeded", Deletes: true},
	},
	"a refused submission is put on record after the end, once": {
		given: []func(*Snapshot){onRecord, workerDied(1, "Error", report(fencing.Succeeded, fencing.DeliveryRefused, "Completed")), late},
		want:  want{Rule: RuleLateSubmission, Status: "DeadLettered attempt 1", Counts: "late_submission"},
	},
	"a submission that was accepted is not late": {
		given: []func(*Snapshot){onRecord, workerDied(0, "Completed", report(fencing.Succeeded, fencing.DeliveryAccepted, "Completed")), late},
		want:  want{Rule: RuleFinished, Status: "DeadLettered attempt 1", Ready: "False/BudgetExceeded"},
	},
	"a message that no agent wrote is not a late submission": {
		given: []func(*Snapshot){onRecord, workerDied(1, "Error", "panic: oh no"), late},
		want:  want{Rule: RuleFinished, Status: "DeadLettered attempt 1", Ready: "False/BudgetExceeded"},
	},
}

func ttl(seconds int32) func(*Snapshot) {
	return onTask(func(t *v1alpha1.LeasedTask) { t.Spec.TTLSecondsAfterFinished = &seconds })
}

// late is a dead-lettered task whose last Pod is still there.
func late(s *Snapshot) {
	pods := s.Pods
	finishedAs(v1alpha1.PhaseDeadLettered)(s)
	s.Pods = pods
}

// availableTable: between two attempts.
var availableTable = map[string]decision{
	"the first grant creates the Lease": {
		given: []func(*Snapshot){available},
		want:  want{Rule: RuleGrant, Lease: `grant task-1-xyz attempt 1 over ""`, Pods: "create", Live: true, Counts: "grant"},
	},
	"before its time there is no grant": {
		given: []func(*Snapshot){available, startsAt(90 * time.Second)},
		want:  want{Rule: RuleStartAfter, Status: "Available attempt 0", Waiting: "StartAfter", Ready: "False/StartAfter", Requeue: 90 * time.Second},
	},
	"at its time there is": {
		given: []func(*Snapshot){available, startsAt(0)},
		want:  want{Rule: RuleGrant, Lease: `grant task-1-xyz attempt 1 over ""`, Pods: "create", Live: true, Counts: "grant"},
	},
	"its time does not matter to later attempts": {
		given: []func(*Snapshot){backedOff, pauseOver, startsAt(time.Hour)},
		want:  want{Rule: RuleGrant, Lease: `grant task-2-xyz attempt 2 over "77"`, Pods: "create", Live: true, Counts: "grant"},
	},
	"the next grant goes over the ended term, by its resourceVersion": {
		given: []func(*Snapshot){backedOff, pauseOver},
		want:  want{Rule: RuleGrant, Lease: `grant task-2-xyz attempt 2 over "77"`, Pods: "create", Live: true, Counts: "grant"},
	},
	"the next grant after the Lease was deleted creates it": {
		given: []func(*Snapshot){backedOff, leaseGone, pauseOver},
		want:  want{Rule: RuleGrant, Lease: `grant task-2-xyz attempt 2 over ""`, Pods: "create", Live: true, Counts: "grant"},
	},
	"no epoch, no grant": {
		given: []func(*Snapshot){available, func(s *Snapshot) {
			s.GrantProblem = &GrantProblem{Reason: v1alpha1.WaitingEpochMissing, Message: "there is none"}
		}},
		want: want{Rule: RuleGrant, Status: "Available attempt 0", Waiting: "EpochMissing", Ready: "False/EpochMissing", Requeue: grantRetry},
	},
	"no worker role, no grant": {
		given: []func(*Snapshot){available, func(s *Snapshot) {
			s.GrantProblem = &GrantProblem{Reason: v1alpha1.WaitingWorkerRole, Message: "binds another"}
		}},
		want: want{Rule: RuleGrant, Status: "Available attempt 0", Waiting: "WorkerRole", Ready: "False/WorkerRole", Requeue: grantRetry},
	},
	"the pause is kept": {
		given: []func(*Snapshot){backedOff},
		want:  want{Rule: RuleBackoff, Status: "Available attempt 1", Waiting: "Backoff", Ready: "False/Backoff", Requeue: time.Second},
	},
	"a grant that was not recorded is revoked, unclaimed": {
		given: []func(*Snapshot){backedOff, unrecorded, since(2 * time.Second)},
		want:  want{Rule: RuleUnrecordedGrant, Lease: "revoke", Live: true},
	},
	"a young one may be that of another controller, about to be recorded": {
		given: []func(*Snapshot){backedOff, unrecorded, since(500 * time.Millisecond)},
		want:  want{Rule: RuleUnrecordedGrant, Requeue: 1500 * time.Millisecond},
	},
	"once revoked unclaimed, it is granted again under the same number": {
		given: []func(*Snapshot){backedOff, unrecorded, revokedTerm, pauseOver},
		want:  want{Rule: RuleGrant, Lease: `grant task-2-xyz attempt 2 over "99"`, Pods: "create", Live: true, Counts: "grant"},
	},
	"a claim that was not recorded is left alone while it is held": {
		given: []func(*Snapshot){backedOff, unrecorded, claim, since(12 * time.Second)},
		want:  want{Rule: RuleUnrecordedClaim, Watch: 18 * time.Second},
	},
	"so is its Pod, which a record read too early does not know": {
		given: []func(*Snapshot){backedOff, laterPod, unrecorded, claim, since(12 * time.Second)},
		want:  want{Rule: RuleUnrecordedClaim, Watch: 18 * time.Second},
	},
	"and a Pod of a later grant is kept whatever the cache shows": {
		given: []func(*Snapshot){backedOff, laterPod},
		want:  want{Rule: RuleBackoff, Status: "Available attempt 1", Waiting: "Backoff", Ready: "False/Backoff", Requeue: time.Second},
	},
	"a claim that was not recorded expires": {
		given: []func(*Snapshot){backedOff, unrecorded, claim, since(30 * time.Second)},
		want:  want{Rule: RuleUnrecordedClaim, Lease: "revoke this version", Live: true},
	},
	"a revoked claim that was never recorded is waited for": {
		given: []func(*Snapshot){backedOff, pauseOver, unrecorded, claim, revokedTerm, since(12 * time.Second)},
		want: want{Rule: RuleUnrecordedRelease, Status: "Available attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease",
			Requeue: 18 * time.Second},
	},
	"and then granted over": {
		given: []func(*Snapshot){backedOff, pauseOver, unrecorded, claim, revokedTerm, since(30 * time.Second)},
		want:  want{Rule: RuleGrant, Lease: `grant task-2-xyz attempt 2 over "99"`, Pods: "create", Live: true, Counts: "grant"},
	},
	"a submission that was not recorded is put on record first": {
		given: []func(*Snapshot){backedOff, unrecorded, claim, submits(fencing.Succeeded, func(s *fencing.Submission) { s.Token += 5 })},
		want: want{Rule: RuleUnrecordedSubmission, Status: "Claimed attempt 2 token 17592186044498", Waiting: "PodStarting",
			Ready: "False/PodStarting"},
	},
}

func pauseOver(s *Snapshot) { s.Task.Status.NextAttemptTime = new(metav1.NewMicroTime(now)) }

// laterPod is the Pod of attempt 2, made by another controller for a grant that this status does not know.
func laterPod(s *Snapshot) {
	later := *s
	later.Task = s.Task.DeepCopy()
	later.Task.Status.Attempt, later.Task.Status.FencingToken, later.Task.Status.Holder.PodName = 2, token+5, "task-9-zzz"
	s.Pods = []*corev1.Pod{podOf(&later, 2)}
}

// expiredTable: the term is revoked, its process may still run.
var expiredTable = map[string]decision{
	"the old process is waited for": {
		given: []func(*Snapshot){expiredOnce, podRuns},
		want: want{Rule: RuleAwaitRelease, Status: "Expired attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease",
			Requeue: 20 * time.Second},
	},
	"a Pod that is gone proves nothing": {
		given: []func(*Snapshot){expiredOnce, noPod},
		want: want{Rule: RuleAwaitRelease, Status: "Expired attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease",
			Requeue: 20 * time.Second},
	},
	"a Pod's phase alone proves nothing": {
		given: []func(*Snapshot){expiredOnce, onPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })},
		want: want{Rule: RuleAwaitRelease, Status: "Expired attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease",
			Requeue: 20 * time.Second},
	},
	"the end of a process that never had the term proves nothing": {
		given: []func(*Snapshot){expiredOnce, workerDied(121, "Error", report(fencing.Fenced, fencing.DeliveryNone, ""))},
		want: want{Rule: RuleAwaitRelease, Status: "Expired attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease",
			Requeue: 20 * time.Second},
	},
	"an end that the kubelet did not see proves nothing": {
		given: []func(*Snapshot){expiredOnce, workerDied(137, "ContainerStatusUnknown", "")},
		want: want{Rule: RuleAwaitRelease, Status: "Expired attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease",
			Requeue: 20 * time.Second},
	},
	"an end without a container ID proves nothing": {
		given: []func(*Snapshot){expiredOnce, workerDied(137, "Error", ""), onPod(func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State.Terminated.ContainerID = ""
		})},
		want: want{Rule: RuleAwaitRelease, Status: "Expired attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease",
			Requeue: 20 * time.Second},
	},
	"the end of another Pod proves nothing": {
		given: []func(*Snapshot){expiredOnce, workerDied(137, "Error", ""), onPod(func(p *corev1.Pod) { p.UID = "another" })},
		want: want{Rule: RuleAwaitRelease, Status: "Expired attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease",
			Requeue: 20 * time.Second},
	},
	"the kubelet's word of its end releases": {
		given: []func(*Snapshot){expiredOnce, workerDied(137, "Error", "")},
		want:  want{Rule: RuleReassign, Status: "Available attempt 1", Waiting: "Backoff", Ready: "False/Backoff", Live: true},
	},
	"one duration without a renewal releases, whatever the Pod says": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second)},
		want:  want{Rule: RuleReassign, Status: "Available attempt 1", Waiting: "Backoff", Ready: "False/Backoff", Live: true},
	},
	"a deleted Lease releases one duration after that was seen": {
		given: []func(*Snapshot){expiredOnce, podRuns, leaseGone, since(29 * time.Second)},
		want: want{Rule: RuleAwaitRelease, Status: "Expired attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease",
			Requeue: time.Second},
	},
	"a deleted Lease and the kubelet's word release at once": {
		given: []func(*Snapshot){expiredOnce, leaseGone, workerDied(1, "Error", ""), since(0)},
		want:  want{Rule: RuleReassign, Status: "Available attempt 1", Waiting: "Backoff", Ready: "False/Backoff", Live: true},
	},
	"a Lease made anew for the same attempt, and revoked unclaimed, releases nothing": {
		given: []func(*Snapshot){expiredOnce, noPod, onTerm(func(t *fencing.Term) { t.UID, t.Claim, t.RenewTime = "lease-2", nil, time.Time{} })},
		want: want{Rule: RuleAwaitRelease, Status: "Expired attempt 1", Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease",
			Requeue: 20 * time.Second},
	},
	"released with a used-up budget is the end": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Retry.MaxDisruptions = new(int32(0)) })},
		want:  want{Rule: RuleOver, Status: "Expired attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true},
	},
	"a task without a next time is reassigned all the same": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), onTask(func(t *v1alpha1.LeasedTask) { t.Status.NextAttemptTime = nil })},
		want:  want{Rule: RuleReassign, Status: "Available attempt 1", Waiting: "Backoff", Ready: "False/Backoff", Live: true},
	},
}
