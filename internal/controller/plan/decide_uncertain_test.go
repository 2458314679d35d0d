package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// uncertainTable: attempts that may have had their effect.
var uncertainTable = map[string]decision{
	"a submitted failure is probed for": {
		given: []func(*Snapshot){onRecord, noPod, reconcile(0), submits(fencing.Failed)},
		want:  doubts(RuleSubmitted, "Failed Why Submission exit 3", "Backoff", 0),
	},
	"one that was not on record as running too": {
		given: []func(*Snapshot){claimed, noPod, reconcile(0), submits(fencing.Failed)},
		want: want{Rule: RuleSubmitted, Status: "Probing attempt 1", Entry: "Failed Why Submission exit 3", Waiting: "Backoff", Ready: "False/Backoff",
			Counts: "claim, attempt Failed"},
	},
	"the probe waits for what was asked to settle": {
		given: []func(*Snapshot){onRecord, noPod, reconcile(90), submits(fencing.Fenced)},
		want:  doubts(RuleSubmitted, "Disrupted Why Submission exit 3", "Settling", 90*time.Second),
	},
	"a worker that had no effect is tried again": {
		given: []func(*Snapshot){onRecord, noPod, reconcile(90), submits(fencing.Failed, noEffect)},
		want:  fails("Why Submission exit 3"),
	},
	"a worker that had no effect is tried again, though it would be the only chance": {
		given: []func(*Snapshot){onRecord, noPod, onlyOnce, submits(fencing.Failed, noEffect)},
		want:  fails("Why Submission exit 3"),
	},
	"whatever else a worker says of its effect says nothing": {
		given: []func(*Snapshot){onRecord, noPod, reconcile(0), submits(fencing.Failed, func(s *fencing.Submission) { s.Effect = "Perhaps" })},
		want:  doubts(RuleSubmitted, "Failed Why Submission exit 3", "Backoff", 0),
	},
	"that it had no effect is believed under its own token only": {
		given: []func(*Snapshot){onRecord, noPod, reconcile(0), submits(fencing.Failed, noEffect, func(s *fencing.Submission) { s.Token-- })},
		want:  doubts(RuleSubmitted, "Failed TokenMismatch Submission exit 3", "Backoff", 0),
	},
	"a lost worker is released first": {
		given: []func(*Snapshot){onRecord, noPod, reconcile(0), revokedTerm},
		want: want{Rule: RuleRevoked, Status: "Expired attempt 1", Entry: "Disrupted PodDeleted Observation", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Disrupted"},
	},
	"then it is probed for": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), uncertain, reconcile(20)},
		want:  want{Rule: RuleProbe, Status: "Probing attempt 1 next in 20s", Waiting: "Settling", Ready: "False/Settling", Live: true},
	},
	"of a Lease that is gone nobody knows whether it was claimed": {
		given: []func(*Snapshot){granted, noPod, onlyOnce, leaseGone},
		want: want{Rule: RuleLeaseLost, Status: "Expired attempt 1", Entry: "Disrupted LeaseDeleted Observation", Waiting: "AwaitingRelease",
			Ready: "False/AwaitingRelease", Live: true, Counts: "attempt Disrupted"},
	},
	"an attempt that nobody claimed is tried again": {
		given: []func(*Snapshot){granted, onlyOnce, podDeleted},
		want: want{Rule: RuleStartTrouble, Lease: "revoke", Status: "Available attempt 1 next in 500ms", Entry: "Disrupted PodDeleted Pod", Waiting: "Backoff",
			Ready: "False/Backoff", Live: true, Counts: "attempt Disrupted"},
	},
	"the only chance is over: that is put on record": {
		given: []func(*Snapshot){onRecord, noPod, onlyOnce, submits(fencing.Failed)},
		want: want{Rule: RuleSubmitted, Status: "Expired attempt 1", Entry: "Failed Why Submission exit 3", Waiting: "DeadLetterPending",
			Ready: "False/DeadLetterPending", Counts: "attempt Failed"},
	},
	"and the dead letter says why": {
		given: []func(*Snapshot){expiredOnce, noPod, since(30 * time.Second), uncertain, onlyOnce, onTask(func(t *v1alpha1.LeasedTask) { t.Status.DeadLetterName = "dl" })},
		want: want{Rule: RuleGiveUp, Dead: "LostAttempt", Status: "DeadLettered attempt 1", Ready: "False/LostAttempt", Live: true,
			Counts: "finished DeadLettered, dead_letter NodeLost"},
	},
	"suspend does not stop the only chance": {
		given: []func(*Snapshot){onRecord, podRuns, onlyOnce, suspend},
		want:  want{Rule: RuleHeld, Status: "Running attempt 1", Ready: "False/Running", Watch: 25 * time.Second},
	},
	"it does before the claim, for nothing ran": {
		given: []func(*Snapshot){granted, noPod, onlyOnce, suspend},
		want: want{Rule: RuleStopUnclaimed, Lease: "revoke", Status: "Available attempt 1", Entry: "Stopped Suspended Observation", Waiting: "Suspended",
			Ready: "False/Suspended", Live: true, Counts: "attempt Stopped"},
	},
	"cancel does": {
		given: []func(*Snapshot){onRecord, podRuns, onlyOnce, suspend, cancel},
		want:  want{Rule: RuleStop, Lease: "stop Cancelled 30", Status: "Running attempt 1", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
}

// reconcile lets probes find out about uncertain attempts.
func reconcile(settle int32) func(*Snapshot) {
	return onTask(func(t *v1alpha1.LeasedTask) {
		t.Spec.OnLostAttempt = v1alpha1.LostAttemptReconcile
		t.Spec.Reconcile = v1alpha1.ReconcileSpec{SettleSeconds: &settle, Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "look", Image: "example.com/look:1", Command: []string{"/look"}}}}}}
	})
}

// onlyOnce lets no attempt follow an uncertain one.
func onlyOnce(s *Snapshot) { s.Task.Spec.OnLostAttempt = v1alpha1.LostAttemptDeadLetter }

// uncertain puts on record that attempt 1 is.
func uncertain(s *Snapshot) {
	s.Task.Status.Uncertain = v1alpha1.UncertainAttempt{Attempt: 1, FencingToken: token}
	s.Task.Status.NextAttemptTime = nil
}

func noEffect(s *fencing.Submission) { s.Effect = fencing.EffectNone }

func doubts(rule Rule, entry, waiting string, settle time.Duration) want {
	w := want{Rule: rule, Status: "Probing attempt 1", Entry: entry, Waiting: waiting, Ready: "False/" + waiting, Counts: "attempt " + entry[:len("Failed")]}
	if settle > 0 {
		w.Status += " next in " + settle.String()
	}
	if entry[:len("Failed")] != "Failed" {
		w.Counts = "attempt Disrupted"
	}
	return w
}

const probePod = "task-2-abc"

// probeTable: what becomes of a probe.
var probeTable = map[string]decision{
	"it gets the next term": {
		given: []func(*Snapshot){probeDue, reconcile(0)},
		want:  want{Rule: RuleGrant, Lease: `grant task-2-xyz attempt 2 over "77"`, Pods: "create", Live: true, Counts: "grant"},
	},
	"it waits while things settle": {
		given: []func(*Snapshot){probeDue, reconcile(60), nextIn(20 * time.Second)},
		want:  want{Rule: RuleSettling, Status: "Probing attempt 1", Waiting: "Settling", Ready: "False/Settling", Requeue: 20 * time.Second},
	},
	"it waits anew when a clock was set back": {
		given: []func(*Snapshot){probeDue, reconcile(60), nextIn(time.Hour)},
		want:  want{Rule: RuleSettling, Status: "Probing attempt 1", Waiting: "Settling", Ready: "False/Settling", Requeue: time.Minute},
	},
	"the one after a probe without an answer waits for the pause alone": {
		given: []func(*Snapshot){probeDue, reconcile(60), probedInVain(1), nextIn(20 * time.Second)},
		want:  want{Rule: RuleBackoff, Status: "Probing attempt 2", Waiting: "Backoff", Ready: "False/Backoff", Requeue: 20 * time.Second},
	},
	"it waits for the epoch as any grant": {
		given: []func(*Snapshot){probeDue, reconcile(0), func(s *Snapshot) { s.GrantProblem = &GrantProblem{Reason: v1alpha1.WaitingEpochMissing} }},
		want:  want{Rule: RuleGrant, Status: "Probing attempt 1", Waiting: "EpochMissing", Ready: "False/EpochMissing", Requeue: grantRetry},
	},
	"a grant of it that was not recorded is revoked": {
		given: []func(*Snapshot){probeDue, reconcile(0), unrecorded, since(2 * time.Second)},
		want:  want{Rule: RuleUnrecordedGrant, Lease: "revoke", Live: true},
	},
	"what it submitted without a record is recorded as a probe's": {
		given: []func(*Snapshot){probeDue, reconcile(0), unrecorded, claim, submits(fencing.Failed, func(s *fencing.Submission) { s.Token += 5 })},
		want:  want{Rule: RuleUnrecordedSubmission, Status: "Probing attempt 2 token 17592186044498", Waiting: "PodStarting", Ready: "False/PodStarting"},
	},
	"suspended, it is not granted": {
		given: []func(*Snapshot){probeDue, reconcile(0), suspend},
		want:  want{Rule: RuleSuspended, Status: "Probing attempt 1", Waiting: "Suspended", Ready: "False/Suspended"},
	},
	"cancelled, nothing is found out": {
		given: []func(*Snapshot){probeDue, reconcile(60), nextIn(time.Minute), cancel},
		want:  want{Rule: RuleCancelled, Status: "Cancelled attempt 1", Ready: "True/Cancelled", Live: true, Counts: "finished Cancelled"},
	},
	"it starts": {
		given: []func(*Snapshot){probing, onTerm(func(t *fencing.Term) { t.Claim = nil })},
		want:  want{Rule: RuleStarting, Status: "Probing attempt 2", Waiting: "PodStarting", Ready: "False/PodStarting", Requeue: 59 * time.Minute},
	},
	"its Pod is made again": {
		given: []func(*Snapshot){probing, onTerm(func(t *fencing.Term) { t.Claim = nil }), noPod},
		want:  want{Rule: RulePodMissing, Pods: "create", Live: true},
	},
	"its claim is put on record": {
		given: []func(*Snapshot){probing, since(2 * time.Second)},
		want:  want{Rule: RuleRunning, Status: "Probing attempt 2", Ready: "False/Probing", Watch: 28 * time.Second, Counts: "claim"},
	},
	"it is held": {
		given: []func(*Snapshot){probingOnRecord},
		want:  want{Rule: RuleHeld, Status: "Probing attempt 2", Ready: "False/Probing", Watch: 25 * time.Second},
	},
	"it found the effect": {
		given: []func(*Snapshot){probingOnRecord, noPod, submits(fencing.Succeeded, result("42"), probes)},
		want: want{Rule: RuleSubmitted, Status: "Completed attempt 2 result 42", Entry: "Succeeded EffectFound Submission exit 3", Ready: "True/Completed",
			Counts: "probe EffectFound, finished Completed"},
	},
	"it found none: the next attempt follows, after its pause": {
		given: []func(*Snapshot){probingOnRecord, noPod, submits(fencing.Failed, probes, exits(1))},
		want: want{Rule: RuleSubmitted, Status: "Available attempt 2 next in 500ms", Entry: "Succeeded NoEffect Submission exit 1", Waiting: "Backoff",
			Ready: "False/Backoff", Counts: "probe NoEffect"},
	},
	"it found none, and no budget is left": {
		given: []func(*Snapshot){probingOnRecord, noPod, submits(fencing.Failed, probes, exits(1)), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Retry.MaxDisruptions = new(int32(0)) })},
		want: want{Rule: RuleSubmitted, Status: "Expired attempt 2", Entry: "Succeeded NoEffect Submission exit 1", Waiting: "DeadLetterPending",
			Ready: "False/DeadLetterPending", Counts: "probe NoEffect"},
	},
	"any other exit code says nothing": {
		given: []func(*Snapshot){probingOnRecord, noPod, submits(fencing.Failed, probes, exits(2))},
		want:  unanswered("Failed NonZeroExit Submission exit 2"),
	},
	"one that ran out of memory says nothing, whatever its exit code": {
		given: []func(*Snapshot){probingOnRecord, noPod, submits(fencing.Failed, probes, exits(1), func(s *fencing.Submission) { s.Reason = fencing.ReasonOOMKilled })},
		want:  unanswered("Failed OOMKilled Submission exit 1"),
	},
	"one that was interrupted says nothing": {
		given: []func(*Snapshot){probingOnRecord, noPod, submits(fencing.Interrupted, probes, exits(1))},
		want:  unanswered("Disrupted NonZeroExit Submission exit 1"),
	},
	"an answer under another token is none": {
		given: []func(*Snapshot){probingOnRecord, noPod, submits(fencing.Failed, exits(1))},
		want:  unanswered("Failed TokenMismatch Submission exit 1"),
	},
	"no rule is asked about it, and no effect of its own": {
		given: []func(*Snapshot){probingOnRecord, noPod, submits(fencing.Failed, probes, exits(2), noEffect), retryRules(onExitCode(v1alpha1.RetryActionDeadLetter, 2))},
		want:  unanswered("Failed NonZeroExit Submission exit 2"),
	},
	"the last one without an answer is the end": {
		given: []func(*Snapshot){probingOnRecord, noPod, submits(fencing.Failed, probes, exits(2)), onTask(func(t *v1alpha1.LeasedTask) { t.Status.Uncertain.Probes = 4 })},
		want: want{Rule: RuleSubmitted, Status: "Expired attempt 2", Entry: "Failed NonZeroExit Submission exit 2", Waiting: "DeadLetterPending",
			Ready: "False/DeadLetterPending", Counts: "probe Failed"},
	},
	"and the dead letter says so": {
		given: []func(*Snapshot){probeDue, reconcile(0), probedInVain(5), onTask(func(t *v1alpha1.LeasedTask) { t.Status.Phase, t.Status.DeadLetterName = v1alpha1.PhaseExpired, "dl" })},
		want: want{Rule: RuleGiveUp, Dead: "OutcomeUnknown", Status: "DeadLettered attempt 6", Ready: "False/OutcomeUnknown", Live: true,
			Counts: "finished DeadLettered, dead_letter NonZeroExit"},
	},
	"one that is lost is released first": {
		given: []func(*Snapshot){probingOnRecord, noPod, since(30 * time.Second)},
		want: want{Rule: RuleExpired, Lease: "revoke this version", Status: "Expired attempt 2 next in 500ms", Entry: "Disrupted PodDeleted Observation",
			Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease", Live: true, Counts: "probe Disrupted, expiry"},
	},
	"the kubelet's word on it is about its own container": {
		given: []func(*Snapshot){probingOnRecord, workerDied(1, "Error", ""), onPod(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Name = "look" })},
		want: want{Rule: RuleWorkerEnded, Lease: "revoke", Status: "Expired attempt 2 next in 500ms", Entry: "Failed WorkerVanished Pod exit 1",
			Waiting: "AwaitingRelease", Ready: "False/AwaitingRelease", Live: true, Counts: "probe Failed"},
	},
	"one that cannot start is tried again": {
		given: []func(*Snapshot){probing, onTerm(func(t *fencing.Term) { t.Claim = nil }), noPod, refused(RefusedInvalid)},
		want: want{Rule: RuleStartTrouble, Lease: "revoke", Status: "Probing attempt 2 next in 500ms", Entry: "Failed PodInvalid Pod", Waiting: "Backoff",
			Ready: "False/Backoff", Live: true, Counts: "probe Failed"},
	},
	"cancelled, it is told to stop": {
		given: []func(*Snapshot){probingOnRecord, cancel},
		want:  want{Rule: RuleStop, Lease: "stop Cancelled 30", Status: "Probing attempt 2", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
	"suspended too": {
		given: []func(*Snapshot){probingOnRecord, suspend},
		want:  want{Rule: RuleStop, Lease: "stop Suspended 30", Status: "Probing attempt 2", Ready: "False/Stopping", Watch: 25 * time.Second, Live: true},
	},
	"one that was stopped by suspend is not counted": {
		given: []func(*Snapshot){probingOnRecord, noPod, suspend, told(fencing.ReasonSuspended, 30, 0), submits(fencing.Cancelled, probes, exits(143))},
		want: want{Rule: RuleSubmitted, Status: "Probing attempt 2", Entry: "Stopped Suspended Submission exit 143", Waiting: "Suspended",
			Ready: "False/Suspended", Counts: "probe Stopped"},
	},
	"an answer that came before the stop counts": {
		given: []func(*Snapshot){probingOnRecord, noPod, cancel, told(fencing.ReasonCancelled, 30, 0), submits(fencing.Succeeded, probes)},
		want: want{Rule: RuleSubmitted, Status: "Completed attempt 2", Entry: "Succeeded EffectFound Submission exit 3", Ready: "True/Completed",
			Counts: "probe EffectFound, finished Completed"},
	},
	"that there was no effect does not keep a task from being cancelled": {
		given: []func(*Snapshot){probingOnRecord, noPod, cancel, submits(fencing.Failed, probes, exits(1))},
		want: want{Rule: RuleSubmitted, Status: "Cancelled attempt 2", Entry: "Succeeded NoEffect Submission exit 1", Ready: "True/Cancelled",
			Counts: "probe NoEffect, finished Cancelled"},
	},
}

// probeDue is attempt 1 over, released, and in doubt.
func probeDue(s *Snapshot) {
	backedOff(s)
	uncertain(s)
	s.Task.Status.Phase = v1alpha1.PhaseProbing
}

// probing is a probe with a young claim.
func probing(s *Snapshot) {
	probeDue(s)
	reconcile(0)(s)
	status := &s.Task.Status
	status.Attempt, status.FencingToken, status.Holder = 2, token+22, v1alpha1.Holder{PodName: probePod, ProbeFor: 1}
	s.Term = &fencing.Term{Name: "lh-1", UID: "lease-1", ResourceVersion: "99", Task: "uid-1", Holder: probePod, Attempt: 2,
		Duration: 30 * time.Second, GrantTime: now.Add(-time.Minute)}
	c := fencing.ParseClaim("nonce/node-2/pod-uid-2")
	s.Term.Claim, s.Term.RenewTime = &c, now.Add(-20*time.Second)
	s.Since = now.Add(-time.Minute)
	s.Pods = []*corev1.Pod{podOf(s, 2)}
}

// probingOnRecord is one that is held.
func probingOnRecord(s *Snapshot) {
	probing(s)
	s.Since = now.Add(-5 * time.Second)
	s.Task.Status.Holder = v1alpha1.Holder{PodName: probePod, NodeName: "node-2", PodUID: "pod-uid-2", ClaimTime: at(-20 * time.Second), ProbeFor: 1}
}

// probedInVain is what the status says after so many probes.
func probedInVain(n int32) func(*Snapshot) {
	return func(s *Snapshot) {
		status := &s.Task.Status
		for i := range n {
			e := entry(2+i, v1alpha1.AttemptFailed, fencing.ReasonNonZeroExit)
			e.ProbeFor = 1
			status.History = append(status.History, e)
		}
		status.Attempt, status.Uncertain.Probes, status.Holder.ProbeFor = 1+n, n, 1
		s.Term.Attempt = 1 + n
	}
}

func nextIn(d time.Duration) func(*Snapshot) {
	return func(s *Snapshot) { s.Task.Status.NextAttemptTime = new(metav1.NewMicroTime(now.Add(d))) }
}

// probes makes a submission the probe's, with the reason that an agent gives.
func probes(s *fencing.Submission) {
	s.Token, s.Reason = fencing.Token(token+22), fencing.ReasonNonZeroExit
}

func exits(code int32) func(*fencing.Submission) {
	return func(s *fencing.Submission) { s.ExitCode = &code }
}

func unanswered(entry string) want {
	outcome := "Failed"
	if entry[0] == 'D' {
		outcome = "Disrupted"
	}
	return want{Rule: RuleSubmitted, Status: "Probing attempt 2 next in 500ms", Entry: entry, Waiting: "Backoff", Ready: "False/Backoff", Counts: "probe " + outcome}
}

// TestTheUncertainAttemptStaysInTheHistory: what its end means is decided after its probes, however many there are.
func TestTheUncertainAttemptStaysInTheHistory(t *testing.T) {
	s := given(probingOnRecord, noPod, submits(fencing.Failed, probes, exits(1)), probedInVain(30), func(s *Snapshot) {
		status := &s.Task.Status
		status.History[0].Action = v1alpha1.RetryActionDeadLetter
		status.History = append([]v1alpha1.AttemptRecord{status.History[0]}, status.History[12:]...)
		status.Attempt, s.Term.Attempt = 99, 99
	})
	p := Decide(s)
	history := p.Status.History
	if len(history) != v1alpha1.MaxHistory || history[0].Attempt != 1 || history[1].Attempt != 14 || lastOf(history).Attempt != 99 {
		t.Errorf("history %+v", history)
	}
	if p.Status.Phase != v1alpha1.PhaseExpired || p.Status.DeadLetterName == "" || p.Status.Uncertain != (v1alpha1.UncertainAttempt{}) {
		t.Errorf("status %+v", p.Status)
	}
	s.Task.Status = *p.Status
	p = Decide(s)
	if p.DeadLetter == nil || p.DeadLetter.Spec.Reason != v1alpha1.ReasonRetryRule {
		t.Errorf("dead letter %+v", p.DeadLetter)
	}
	if diff := cmp.Diff(p.DeadLetter.Spec.Fingerprint, Fingerprint("task", history[0])); diff != "" {
		t.Errorf("the fingerprint is not the attempt's: %s", diff)
	}
}

// TestAProbesPod: it is made of the template for probes, and finds what an attempt finds, and what it is to look for.
func TestAProbesPod(t *testing.T) {
	s := given(probing, onTask(func(task *v1alpha1.LeasedTask) {
		task.Spec.Payload, task.Spec.WorkerContainer = new("exact"), "main"
		task.Spec.Reconcile.WorkerContainer = "look"
		side := corev1.Container{Name: "side", Image: "side"}
		task.Spec.Reconcile.Template.Spec.Containers = append([]corev1.Container{side}, task.Spec.Reconcile.Template.Spec.Containers...)
	}))
	pod := Pod(s.Task, AgentImage{Name: "agent"})
	worker := pod.Spec.Containers[1]
	if diff := cmp.Diff([]string{"/leasehold/bin/agent", "--", "/look"}, worker.Command); diff != "" || len(pod.Spec.Containers[0].Command) > 0 {
		t.Errorf("containers %+v: %s", pod.Spec.Containers, diff)
	}
	got := map[string]string{}
	for _, v := range worker.Env {
		got[v.Name] = v.Value
	}
	want := map[string]string{"LEASEHOLD_ATTEMPT": "2", "LEASEHOLD_FENCING_TOKEN": fmt.Sprint(token + 22), "LEASEHOLD_IDEMPOTENCY_KEY": "uid-1",
		"LEASEHOLD_PROBE_ATTEMPT": "1", "LEASEHOLD_PROBE_FENCING_TOKEN": fmt.Sprint(token)}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, want %q", name, got[name], value)
		}
	}
	if pod.Annotations[v1alpha1.PayloadAnnotation] != "exact" || pod.Annotations[v1alpha1.ProbeForAnnotation] != "1" {
		t.Errorf("annotations %v", pod.Annotations)
	}
	attempt := Pod(given(onRecord, reconcile(0), onTask(func(task *v1alpha1.LeasedTask) {
		task.Spec.Template.Annotations = map[string]string{v1alpha1.ProbeForAnnotation: "1"} // of a template copied from a Pod, say
	})).Task, AgentImage{Name: "agent"})
	for _, v := range attempt.Spec.Containers[0].Env {
		if v.Name == "LEASEHOLD_PROBE_ATTEMPT" {
			t.Error("an attempt's Pod looks like a probe's")
		}
	}
	if isProbePod(attempt) {
		t.Errorf("annotations of an attempt %v", attempt.Annotations)
	}
}
