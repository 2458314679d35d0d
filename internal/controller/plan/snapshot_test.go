package plan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// now is when the tables decide: an hour after the start, so that there is a past.
var now = start.Add(time.Hour)

const (
	holder = "task-1-abc"
	token  = int64(1)<<44 + 77
	podUID = "pod-uid-1"
)

// given makes a snapshot of a task as it stands, for one edit after another.
func given(edits ...func(*Snapshot)) *Snapshot {
	s := &Snapshot{Now: now, Since: now, Task: newTask(), Jitter: 0.5, Suffix: "xyz"}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func onTask(edit func(*v1alpha1.LeasedTask)) func(*Snapshot) {
	return func(s *Snapshot) { edit(s.Task) }
}

func onTerm(edit func(*fencing.Term)) func(*Snapshot) {
	return func(s *Snapshot) { edit(s.Term) }
}

func onPod(edit func(*corev1.Pod)) func(*Snapshot) {
	return func(s *Snapshot) { edit(s.Pods[0]) }
}

// since says how long the record has been seen as it is.
func since(d time.Duration) func(*Snapshot) { return func(s *Snapshot) { s.Since = now.Add(-d) } }

// available is a task that was accepted and never granted.
func available(s *Snapshot) { s.Task.Status.Phase = v1alpha1.PhaseAvailable }

// granted is attempt 1 on record, its term granted a minute ago, its Pod made.
func granted(s *Snapshot) {
	s.Task.Status = v1alpha1.LeasedTaskStatus{Phase: v1alpha1.PhaseClaimed, Attempt: 1, FencingToken: token,
		Holder: v1alpha1.Holder{PodName: holder}, LeaseName: "lh-1", LeaseUID: "lease-1"}
	s.Term = &fencing.Term{Name: "lh-1", UID: "lease-1", ResourceVersion: "77", Task: "uid-1", Holder: holder, Attempt: 1,
		Duration: 30 * time.Second, GrantTime: now.Add(-time.Minute)}
	s.Since = s.Term.GrantTime
	s.Pods = []*corev1.Pod{podOf(s, 1)}
}

// claimed is that, claimed 20 seconds ago, seen to be so for 5.
func claimed(s *Snapshot) {
	granted(s)
	claim(s)
	s.Since = now.Add(-5 * time.Second)
}

// onRecord is that, recorded as running.
func onRecord(s *Snapshot) {
	claimed(s)
	s.Task.Status.Phase = v1alpha1.PhaseRunning
	s.Task.Status.Holder = v1alpha1.Holder{PodName: holder, NodeName: "node-1", PodUID: podUID, ClaimTime: at(-20 * time.Second)}
	s.Task.Status.StartTime = at(-20 * time.Second)
}

func claim(s *Snapshot) {
	c := fencing.ParseClaim("nonce/node-1/" + podUID)
	s.Term.Claim, s.Term.RenewTime = &c, now.Add(-20*time.Second)
}

// expiredOnce is attempt 1 revoked after its claim, as a disruption, its last renewal seen ten seconds ago.
func expiredOnce(s *Snapshot) {
	onRecord(s)
	s.Since = now.Add(-10 * time.Second)
	s.Task.Status.Phase = v1alpha1.PhaseExpired
	s.Task.Status.Disruptions = 1
	s.Task.Status.NextAttemptTime = new(metav1.NewMicroTime(now.Add(time.Second)))
	s.Task.Status.History = []v1alpha1.AttemptRecord{entry(1, v1alpha1.AttemptDisrupted, ReasonNodeLost)}
	s.Term.Holder = ""
}

// backedOff is attempt 1 over and released, before the second.
func backedOff(s *Snapshot) {
	expiredOnce(s)
	s.Task.Status.Phase = v1alpha1.PhaseAvailable
	s.Since = now.Add(-time.Minute)
	s.Pods = nil
}

// finishedAs is a task that has ended ten seconds ago.
func finishedAs(phase v1alpha1.Phase) func(*Snapshot) {
	return func(s *Snapshot) {
		onRecord(s)
		s.Task.Status.Phase = phase
		s.Task.Status.CompletionTime = at(-10 * time.Second)
		outcome := v1alpha1.AttemptFailed
		if phase == v1alpha1.PhaseCompleted {
			outcome = v1alpha1.AttemptSucceeded
		}
		s.Task.Status.History = []v1alpha1.AttemptRecord{entry(1, outcome, "Reason")}
		s.Pods = nil
	}
}

func entry(attempt int32, outcome v1alpha1.AttemptOutcome, reason string) v1alpha1.AttemptRecord {
	return v1alpha1.AttemptRecord{Attempt: attempt, FencingToken: token, PodName: holder, NodeName: "node-1", StartTime: at(-20 * time.Second),
		EndTime: at(-10 * time.Second), Outcome: outcome, Reason: reason, Message: "message", Evidence: v1alpha1.EvidenceObservation}
}

// revokedTerm empties the holder and leaves the rest.
func revokedTerm(s *Snapshot) { s.Term.Holder = "" }

// leaseGone is a Lease that somebody deleted.
func leaseGone(s *Snapshot) { s.Term = nil }

// unrecorded is a term of the attempt after the one on record.
func unrecorded(s *Snapshot) {
	s.Term = &fencing.Term{Name: "lh-1", UID: "lease-1", ResourceVersion: "99", Task: "uid-1", Holder: "task-9-zzz",
		Attempt: s.Task.Status.Attempt + 1, Duration: 30 * time.Second, GrantTime: now.Add(-time.Second)}
}

// submits puts a submission of the term's own token on the Lease, after an edit.
func submits(outcome fencing.Outcome, edits ...func(*fencing.Submission)) func(*Snapshot) {
	return func(s *Snapshot) {
		sub := fencing.Submission{Token: fencing.Token(token), Outcome: outcome, Reason: "Why", Message: "because", ExitCode: new(int32(3))}
		for _, edit := range edits {
			edit(&sub)
		}
		raw, err := sub.Encode()
		if err != nil {
			panic(err)
		}
		parsed := fencing.ParseSubmission(string(raw)) // as it is read from a Lease
		s.Term.Submission = &parsed
	}
}

func at(d time.Duration) *metav1.Time { return new(metav1.NewTime(now.Add(d))) }

func podOf(s *Snapshot, attempt int32) *corev1.Pod {
	pod := Pod(s.Task, AgentImage{Name: "agent"})
	pod.UID = types.UID(fmt.Sprintf("pod-uid-%d", attempt))
	pod.Status.Phase = corev1.PodPending
	return pod
}

func podRuns(s *Snapshot) {
	s.Pods[0].Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: at(-40 * time.Second), ContainerStatuses: []corev1.ContainerStatus{{
		Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *at(-20 * time.Second)}}}}}
}

// workerDied is the kubelet's account of the worker container's end.
func workerDied(code int32, reason, message string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Pods[0].Status = corev1.PodStatus{Phase: corev1.PodFailed, StartTime: at(-40 * time.Second), ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "c1", ExitCode: code, Reason: reason,
				Message: message, StartedAt: *at(-20 * time.Second), FinishedAt: *at(-2 * time.Second)}}}}}
	}
}

func containerWaits(reason, message string) func(*Snapshot) {
	return onPod(func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "example.com/app:1",
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
	})
}

func podCondition(kind corev1.PodConditionType, value corev1.ConditionStatus, reason string) func(*Snapshot) {
	return onPod(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: kind, Status: value, Reason: reason, Message: "says the Pod"}}
	})
}

func podDeleted(s *Snapshot) { s.Pods[0].DeletionTimestamp = at(-time.Second) }

func noPod(s *Snapshot) { s.Pods = nil }

func refused(kind RefusalKind) func(*Snapshot) {
	return func(s *Snapshot) { s.PodRefusal = &PodRefusal{Kind: kind, Message: "says the API server"} }
}

// report is what an agent left in its termination message.
func report(outcome fencing.Outcome, delivery fencing.Delivery, reason string) string {
	return string(fencing.Report{Token: fencing.Token(token), Outcome: outcome, Delivery: delivery, Reason: reason, Message: "said the agent"}.Encode())
}
