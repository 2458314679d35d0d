package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// reconciled lets probes find out about uncertain attempts: at most two for each.
func reconciled(task *v1alpha1.LeasedTask) {
	task.Spec.OnLostAttempt = v1alpha1.LostAttemptReconcile
	task.Spec.Reconcile = v1alpha1.ReconcileSpec{MaxProbes: 2, Template: cluster.Task("", "", "look").Spec.Template}
}

var (
	exit1 = fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(1))}
	exit2 = fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(2))}
	exit0 = fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted, ExitCode: new(int32(0)), Result: new("shipment 7")}
)

// TestTheOperatorMayDieAroundEveryWriteOfAProbe is TestCase14TheOperatorMayDieAfterEveryWrite for tasks whose attempts are uncertain.
func TestTheOperatorMayDieAroundEveryWriteOfAProbe(t *testing.T) {
	stories := map[string]struct {
		change func(*v1alpha1.LeasedTask)
		play   func(*mortal)
		want   ending
		dead   string // reason of its dead letter
	}{
		"a probe is lost, the next one finds nothing, a later one finds it": {change: reconciled, play: func(m *mortal) {
			m.claimed(1).says(exit1)
			m.probed(2).dies()
			m.probed(3).says(exit1)
			m.claimed(4).dies()
			m.probed(5).says(exit0)
			m.until("completed", cluster.IsFinished)
		}, want: ending{Phase: v1alpha1.PhaseCompleted, Result: "shipment 7", Failures: 2, Attempts: 5, Pods: 5,
			Ends: []string{"NonZeroExit by Submission", "WorkerVanished by Pod", "NoEffect by Submission", "WorkerVanished by Pod", "EffectFound by Submission"}}},
		"no probe can tell": {change: reconciled, play: func(m *mortal) {
			m.claimed(1).dies()
			m.probed(2).says(exit2)
			m.probed(3).says(exit2)
			m.until("given up", cluster.IsFinished)
		}, want: ending{Phase: v1alpha1.PhaseDeadLettered, Failures: 1, Attempts: 3, Pods: 3,
			Ends: []string{"WorkerVanished by Pod", "NonZeroExit by Submission", "NonZeroExit by Submission"}}, dead: v1alpha1.ReasonOutcomeUnknown},
		"it is cancelled while a probe runs": {change: reconciled, play: func(m *mortal) {
			m.claimed(1).says(exit1)
			probe := m.probed(2)
			m.owner(cancelled)
			m.until("told to stop", m.isPushed)
			probe.says(fencing.Submission{Outcome: fencing.Cancelled, Reason: fencing.ReasonCancelled, ExitCode: new(int32(143))})
			m.until("cancelled", cluster.IsFinished)
			m.must(m.task.Status.Uncertain.Attempt == 1, "it is forgotten that attempt 1 is uncertain: %+v", m.task.Status)
		}, want: ending{Phase: v1alpha1.PhaseCancelled, Failures: 1, Attempts: 2, Pods: 2, Ends: []string{"NonZeroExit by Submission", "Cancelled by Submission"}}},
		"the only chance is lost": {change: func(task *v1alpha1.LeasedTask) { task.Spec.OnLostAttempt = v1alpha1.LostAttemptDeadLetter }, play: func(m *mortal) {
			m.claimed(1).says(fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, Effect: fencing.EffectNone})
			m.claimed(2).dies()
			m.until("given up", cluster.IsFinished)
		}, want: ending{Phase: v1alpha1.PhaseDeadLettered, Failures: 2, Attempts: 2, Pods: 2,
			Ends: []string{"NonZeroExit by Submission", "WorkerVanished by Pod"}}, dead: v1alpha1.ReasonLostAttempt},
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for after := 0; ; after++ {
				m := newMortal(t, after, story.change)
				story.play(m)
				if diff := cmp.Diff(story.want, m.endingOf(m.task)); diff != "" {
					t.Errorf("dead after write %d (%s): -want +got:\n%s", after, m.lastWords, diff)
				}
				if got := m.deadLetterReasons(); got != story.dead {
					t.Errorf("dead after write %d (%s): dead letters for %q, want %q", after, m.lastWords, got, story.dead)
				}
				if !m.hasDied {
					t.Logf("%d writes, a death after each", after)
					return
				}
			}
		})
	}
}

// probed waits for a probe, and claims it as its agent.
func (m *mortal) probed(number int32) *mortalAgent {
	m.Helper()
	m.until(fmt.Sprintf("in probe %d, with a Pod", number), func(task *v1alpha1.LeasedTask) bool {
		return in(v1alpha1.PhaseProbing, number)(task) &&
			admin.Get(m.Context(), client.ObjectKey{Namespace: m.namespace, Name: task.Status.Holder.PodName}, &corev1.Pod{}) == nil
	})
	a := &mortalAgent{agent: m.agentOf(m.task), m: m}
	m.ok(a.claimTerm())
	m.until("claimed by the probe", func(task *v1alpha1.LeasedTask) bool { return task.Status.Holder.ClaimTime != nil })
	return a
}

// says submits, and waits until that is on record.
func (a *mortalAgent) says(sub fencing.Submission) {
	a.Helper()
	a.ok(a.submit(sub))
	a.untilOnRecord()
}

// dies is the worker container's end without a submission, as a kubelet reports it.
func (a *mortalAgent) dies() {
	a.Helper()
	pod := a.untilPod(a.m.task)
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "Error", ContainerID: "containerd://1", StartedAt: metav1.Now(), FinishedAt: metav1.Now()}}}}
	a.ok(admin.Status().Update(a.Context(), pod))
	a.untilOnRecord()
}

func (a *mortalAgent) untilOnRecord() {
	a.Helper()
	number := a.m.task.Status.Attempt
	a.m.until(fmt.Sprintf("done with %d", number), func(task *v1alpha1.LeasedTask) bool {
		n := len(task.Status.History)
		return n > 0 && task.Status.History[n-1].Attempt >= number
	})
}

// deadLetterReasons are the reasons of all dead letters of the namespace.
func (s *scene) deadLetterReasons() string {
	s.Helper()
	dead := &v1alpha1.DeadLetterList{}
	s.ok(admin.List(s.Context(), dead, client.InNamespace(s.namespace)))
	var reasons []string
	for i := range dead.Items {
		reasons = append(reasons, dead.Items[i].Spec.Reason)
	}
	return strings.Join(reasons, " ")
}

// TestAnUncertainAttemptIsProbedForUnderAHigherToken: from the failure over the probe to the next attempt, with the operator that runs.
func TestAnUncertainAttemptIsProbedForUnderAHigherToken(t *testing.T) {
	t.Parallel()
	s := set(t, nil)
	task, first := s.claimed("shipment", reconciled, func(task *v1alpha1.LeasedTask) { task.Spec.Payload = new("42") })
	s.ok(first.submit(exit1))
	s.until(task, "probing", in(v1alpha1.PhaseProbing, 2))
	doubt, probe := task.Status.Uncertain, s.agentOf(task)
	s.must(doubt.Attempt == 1 && doubt.FencingToken < task.Status.FencingToken && task.Status.Holder.ProbeFor == 1, "status %+v", task.Status)
	s.must(s.untilPod(task).Annotations[v1alpha1.PayloadAnnotation] == "42", "the probe's Pod has another payload")
	stale := task.DeepCopy()
	stale.Status.FencingToken = doubt.FencingToken
	s.must((&agent{scene: s, task: stale, claim: first.claim}).submit(exit0) != nil, "the attempt that is probed for can still submit")
	s.ok(probe.claimTerm())
	s.ok(probe.submit(exit1))
	s.until(task, "tried again", in(v1alpha1.PhaseClaimed, 3))
	s.must(task.Status.Uncertain.Attempt == 0 && task.Status.Failures == 1 && task.Status.Holder.ProbeFor == 0, "status %+v", task.Status)
	s.must(task.Status.History[1].ProbeFor == 1 && task.Status.History[1].Reason == "NoEffect", "history %+v", task.Status.History)
}

func TestWhatFollowsAnUncertainAttemptIsCheckedAndImmutable(t *testing.T) {
	t.Parallel()
	s := set(t, nil)
	template := func(change func(*corev1.PodSpec)) func(*v1alpha1.LeasedTask) {
		return func(task *v1alpha1.LeasedTask) {
			reconciled(task)
			change(&task.Spec.Reconcile.Template.Spec)
		}
	}
	tests := map[string]struct {
		change func(*v1alpha1.LeasedTask)
		want   []string // all of them are in the answer
	}{
		"unknown policy":           {func(task *v1alpha1.LeasedTask) { task.Spec.OnLostAttempt = "Hope" }, []string{"spec.onLostAttempt", "Reconcile"}},
		"no probe":                 {func(task *v1alpha1.LeasedTask) { task.Spec.OnLostAttempt = v1alpha1.LostAttemptReconcile }, []string{"spec.reconcile", "is required with"}},
		"a probe for nothing":      {func(task *v1alpha1.LeasedTask) { reconciled(task); task.Spec.OnLostAttempt = "" }, []string{"spec.reconcile", "with no other"}},
		"a probe without template": {func(task *v1alpha1.LeasedTask) { reconciled(task); task.Spec.Reconcile.Template = nil }, []string{"spec.reconcile.template", "Required"}},
		"no command":               {template(func(p *corev1.PodSpec) { p.Containers[0].Command = nil }), []string{"spec.reconcile.template", "needs a command"}},
		"two containers":           {template(func(p *corev1.PodSpec) { p.Containers = append(p.Containers, corev1.Container{Name: "b"}) }), []string{"spec.reconcile.workerContainer", "required"}},
		"unknown worker": {func(task *v1alpha1.LeasedTask) { reconciled(task); task.Spec.Reconcile.WorkerContainer = "nobody" },
			[]string{"spec.reconcile.workerContainer", "names no container"}},
		"restartPolicy": {template(func(p *corev1.PodSpec) { p.RestartPolicy = corev1.RestartPolicyAlways }), []string{"spec.reconcile.template.spec.restartPolicy", "must be Never"}},
		"hostPID":       {template(func(p *corev1.PodSpec) { p.HostPID = true }), []string{"spec.reconcile.template.spec.hostPID", "process 1"}},
		"our volume":    {template(func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{{Name: "leasehold-bin"}} }), []string{"spec.reconcile.template.spec.volumes", "leasehold-"}},
		"negative settling": {func(task *v1alpha1.LeasedTask) { reconciled(task); task.Spec.Reconcile.SettleSeconds = new(int32(-1)) },
			[]string{"spec.reconcile.settleSeconds", "0"}},
		"settling for more than a day": {func(task *v1alpha1.LeasedTask) {
			reconciled(task)
			task.Spec.Reconcile.SettleSeconds = new(int32(86401))
		},
			[]string{"spec.reconcile.settleSeconds", "86400"}},
		"101 probes": {func(task *v1alpha1.LeasedTask) { reconciled(task); task.Spec.Reconcile.MaxProbes = 101 }, []string{"spec.reconcile.maxProbes", "100"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			task := cluster.Task(s.namespace, "bad", "true")
			test.change(task)
			err := admin.Create(t.Context(), task)
			if !apierrors.IsInvalid(err) {
				t.Fatalf("want 422 Invalid, got %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the answer does not say %q: %v", want, err)
				}
			}
		})
	}
	task := s.start("granted", reconciled)
	s.untilGranted(task, 1)
	for field, change := range map[string]func(*v1alpha1.LeasedTaskSpec){
		"spec.onLostAttempt": func(spec *v1alpha1.LeasedTaskSpec) { spec.OnLostAttempt, spec.Reconcile = "", v1alpha1.ReconcileSpec{} },
		"spec.reconcile":     func(spec *v1alpha1.LeasedTaskSpec) { spec.Reconcile.MaxProbes = 99 },
	} {
		err := s.edit(task, change)
		s.must(apierrors.IsInvalid(err) && strings.Contains(err.Error(), field+": Forbidden: immutable after the first grant"), "%s: %v", field, err)
	}
}
