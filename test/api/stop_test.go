package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// edit changes a task's spec as its owner does.
func (s *scene) edit(task *v1alpha1.LeasedTask, change func(*v1alpha1.LeasedTaskSpec)) error {
	s.Helper()
	next := task.DeepCopy()
	change(&next.Spec)
	return admin.Patch(s.Context(), next, mergeFrom(task))
}

func cancelled(spec *v1alpha1.LeasedTaskSpec) {
	spec.Cancel = v1alpha1.CancelSpec{Reason: "no longer needed"}
}

func suspended(yes bool) func(*v1alpha1.LeasedTaskSpec) {
	return func(spec *v1alpha1.LeasedTaskSpec) { spec.Suspend = &yes }
}

// untilCancelled waits for the end, for so long at most, and checks what every cancelled task must be, and stays.
func (s *scene) untilCancelled(task *v1alpha1.LeasedTask, within time.Duration) {
	s.Helper()
	s.ok(s.Until(s.Context(), task, within, "cancelled", func(task *v1alpha1.LeasedTask) bool { return task.Status.Phase == v1alpha1.PhaseCancelled }))
	st := task.Status
	s.must(st.CompletionTime != nil && st.NextAttemptTime == nil && st.Result == nil, "status %+v", st)
	for kind, want := range map[string]string{
		v1alpha1.ConditionFinished: "True/Cancelled", v1alpha1.ConditionSucceeded: "False/Cancelled", v1alpha1.ConditionReady: "True/Cancelled",
		v1alpha1.ConditionCancelRequested: "True/Cancelled", v1alpha1.ConditionStalled: "False/NotStalled", v1alpha1.ConditionReconciling: "False/Cancelled",
		v1alpha1.ConditionWaiting: "False/NotWaiting", v1alpha1.ConditionLeaseHeld: "False/NotHeld",
	} {
		c := meta.FindStatusCondition(st.Conditions, kind)
		s.must(c != nil && fmt.Sprintf("%s/%s", c.Status, c.Reason) == want, "condition %s: %+v, want %s", kind, c, want)
	}
	s.must(strings.Contains(meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady).Message, "no longer needed"), "the reason is not told: %+v", st.Conditions)
}

// mustHaveNoPod: none that lives, now or later.
func (s *scene) mustHaveNoPod(task *v1alpha1.LeasedTask) {
	s.Helper()
	living := func() (n int) {
		pods, err := s.Pods(s.Context(), task)
		s.ok(err)
		for _, pod := range pods {
			if pod.DeletionTimestamp == nil {
				n++
			}
		}
		return n
	}
	s.ok(s.Poll(s.Context(), 10*time.Second, func() error {
		if living() > 0 {
			return errStillThere
		}
		return nil
	}))
	version := task.ResourceVersion
	time.Sleep(2 * time.Second)
	s.ok(admin.Get(s.Context(), client.ObjectKeyFromObject(task), task))
	s.must(living() == 0 && task.ResourceVersion == version, "a Pod was made, or the task written, afterwards: %s", cluster.Describe(task))
}

func TestCase20CancelWhileWaitingInBackoff(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("backoff", func(task *v1alpha1.LeasedTask) {
		task.Spec.Retry.Backoff = v1alpha1.BackoffSpec{InitialSeconds: 300, Jitter: v1alpha1.JitterNone}
	})
	s.untilGranted(task, 1)
	a := s.agentOf(task)
	s.ok(a.claimTerm())
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(1))}))
	s.until(task, "in back-off", waitsFor(v1alpha1.WaitingBackoff, "attempt 2"))
	s.ok(s.edit(task, cancelled))
	s.untilCancelled(task, 5*time.Second)
	s.must(task.Status.Attempt == 1 && task.Status.Failures == 1 && len(task.Status.History) == 1, "status %+v", task.Status)
	pods, err := s.Pods(t.Context(), task)
	s.ok(err)
	s.must(len(pods) == 1, "%d Pods, want the first attempt's only", len(pods))
}

func TestCase21CancelBeforeTheWorkerEverStarted(t *testing.T) {
	s := sideBySide(t, nil)
	noRoom := set(t, nil)
	noRoom.closeQuota()
	podStatus := func(status corev1.PodStatus) func(*scene, *v1alpha1.LeasedTask) {
		return func(s *scene, task *v1alpha1.LeasedTask) {
			s.untilGranted(task, 1)
			pod := s.untilPod(task)
			pod.Status = status
			s.ok(admin.Status().Update(s.Context(), pod))
		}
	}
	tests := map[string]struct {
		in      *scene
		change  func(*v1alpha1.LeasedTask)
		prepare func(*scene, *v1alpha1.LeasedTask) // until it waits for what it waits for
		waits   string
		started bool // it had an attempt, which must be on record
	}{
		"created cancelled":   {in: s, change: func(task *v1alpha1.LeasedTask) { cancelled(&task.Spec) }},
		"at once":             {in: s},
		"before startAfter":   {in: s, waits: v1alpha1.WaitingStartAfter, change: func(task *v1alpha1.LeasedTask) { task.Spec.StartAfter = new(metav1.NewTime(time.Now().Add(time.Hour))) }},
		"while suspended":     {in: s, waits: v1alpha1.WaitingSuspended, change: func(task *v1alpha1.LeasedTask) { suspended(true)(&task.Spec) }},
		"while quota is used": {in: noRoom, waits: v1alpha1.WaitingQuotaExceeded, started: true},
		"while no node takes it": {in: s, waits: v1alpha1.WaitingUnschedulable, started: true, prepare: podStatus(corev1.PodStatus{Phase: corev1.PodPending,
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no room"}}})},
		"while the image is pulled": {in: s, waits: v1alpha1.WaitingImagePull, started: true, prepare: podStatus(corev1.PodStatus{Phase: corev1.PodPending,
			ContainerStatuses: []corev1.ContainerStatus{{Name: "worker", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}})},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &scene{T: t, Cluster: test.in.Cluster, namespace: test.in.namespace}
			task := s.start("early-"+strings.ReplaceAll(strings.ToLower(name), " ", "-"), func(task *v1alpha1.LeasedTask) {
				if test.change != nil {
					test.change(task)
				}
			})
			if test.prepare != nil {
				test.prepare(s, task)
			}
			if test.waits != "" {
				s.until(task, "waiting", waitsFor(test.waits, ""))
			}
			if !task.Spec.IsCancelled() {
				s.ok(s.edit(task, cancelled))
			}
			s.untilCancelled(task, 10*time.Second)
			s.must(task.Status.Failures == 0 && task.Status.Disruptions == 0 && task.Status.StartTime == nil, "status %+v", task.Status)
			for _, h := range task.Status.History {
				s.must(h.Outcome == v1alpha1.AttemptStopped && h.Reason == fencing.ReasonCancelled, "history %+v", h)
			}
			s.must(!test.started || len(task.Status.History) == 1, "history %+v", task.Status.History)
			s.mustHaveNoPod(task)
		})
	}
}

// TestCase22CancelRacesWithCompletion: the two at the same instant, again and again. There is one end, and it is what the Lease says.
func TestCase22CancelRacesWithCompletion(t *testing.T) {
	s := sideBySide(t, nil)
	ends := map[v1alpha1.Phase]int{}
	for i := range 12 {
		task, a := s.claimed(fmt.Sprintf("race-%d", i))
		s.until(task, "running", in(v1alpha1.PhaseRunning, 1))
		edited := make(chan error, 1)
		go func(task *v1alpha1.LeasedTask) { edited <- s.edit(task, cancelled) }(task.DeepCopy())
		time.Sleep(time.Duration(i) * 4 * time.Millisecond)
		if i%2 == 0 || a.bearsStop() == nil { // odd ones heed a stop that they see in time
			s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Result: new("42")}))
		} else {
			s.ok(a.submit(fencing.Submission{Outcome: fencing.Cancelled, Reason: fencing.ReasonCancelled}))
		}
		s.ok(<-edited)
		s.until(task, "finished", cluster.IsFinished)
		said, end := s.submissionOf(task), task.Status
		ends[end.Phase]++
		s.must((end.Phase == v1alpha1.PhaseCompleted) == (said.Outcome == fencing.Succeeded) && end.Phase != v1alpha1.PhaseDeadLettered,
			"the agent submitted %s, the task is %s", said.Outcome, cluster.Describe(task))
		s.must((end.Result != nil) == (end.Phase == v1alpha1.PhaseCompleted) && len(end.History) == 1, "status %+v", end)
	}
	t.Logf("ends: %v", ends)
}

// bearsStop is the stop on the Lease, as the agent hears of it: with a renewal.
func (a *agent) bearsStop() *fencing.Stop {
	a.Helper()
	lease := a.lease()
	a.ok(admin.Patch(a.Context(), lease, client.RawPatch("application/json-patch+json", fencing.RenewPatch(a.task.Status.Holder.PodName, a.claim, time.Now()))))
	if stop := lease.Annotations[fencing.StopAnnotation]; stop != "" {
		parsed := fencing.ParseStop(stop)
		return &parsed
	}
	return nil
}

func (a *agent) lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: a.namespace, Name: a.task.Status.LeaseName}}
}

// untilTold waits until the Lease bears a stop, and the Pod the push.
func (a *agent) untilTold(reason string) (stop *fencing.Stop) {
	a.Helper()
	a.ok(a.Poll(a.Context(), patience, func() error {
		if stop = a.bearsStop(); stop == nil {
			return fmt.Errorf("the Lease bears no stop")
		}
		if pod := a.untilPod(a.task); pod.Spec.ActiveDeadlineSeconds == nil || *pod.Spec.ActiveDeadlineSeconds != 1 {
			return fmt.Errorf("the Pod is not told to end")
		}
		return nil
	}))
	a.must(stop.Reason == reason, "the Lease bears %+v", stop)
	return stop
}

func (s *scene) submissionOf(task *v1alpha1.LeasedTask) fencing.Submission {
	s.Helper()
	lease := &coordinationv1.Lease{}
	s.ok(admin.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: task.Status.LeaseName}, lease))
	return fencing.ParseSubmission(lease.Annotations[fencing.SubmissionAnnotation])
}

func TestCase22CancelAfterTheEndComesTooLateAndCancelledIsFinal(t *testing.T) {
	s := sideBySide(t, nil)
	task, a := s.claimed("late")
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded}))
	s.until(task, "completed", in(v1alpha1.PhaseCompleted, 1))
	s.ok(s.edit(task, cancelled))
	s.until(task, "told that it is too late", func(task *v1alpha1.LeasedTask) bool {
		c := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionCancelRequested)
		return task.Status.Phase == v1alpha1.PhaseCompleted && c != nil && c.Status == metav1.ConditionTrue && c.Reason == v1alpha1.ReasonTooLate
	})
	s.ok(s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) { spec.Cancel = v1alpha1.CancelSpec{} })) // it had no effect

	final := s.start("final", func(task *v1alpha1.LeasedTask) { cancelled(&task.Spec) })
	s.untilCancelled(final, 10*time.Second)
	for what, change := range map[string]func(*v1alpha1.LeasedTaskSpec){
		"taken back": func(spec *v1alpha1.LeasedTaskSpec) { spec.Cancel = v1alpha1.CancelSpec{} },
		"changed":    func(spec *v1alpha1.LeasedTaskSpec) { spec.Cancel.Reason = "another" },
		"hurried":    func(spec *v1alpha1.LeasedTaskSpec) { spec.Cancel.GracePeriodSeconds = 1 },
	} {
		if err := s.edit(final, change); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.cancel") || !strings.Contains(err.Error(), "final") {
			t.Errorf("%s after Cancelled: %v", what, err)
		}
	}
	s.ok(s.edit(final, func(spec *v1alpha1.LeasedTaskSpec) { spec.TTLSecondsAfterFinished = new(int32(1000)) }))
}

func TestCase23CancelReachesABusyWorker(t *testing.T) {
	s := sideBySide(t, nil)
	task, a := s.claimed("busy")
	s.until(task, "running", in(v1alpha1.PhaseRunning, 1))
	s.ok(s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) {
		cancelled(spec)
		spec.Cancel.GracePeriodSeconds = 3
	}))
	stop := a.untilTold(fencing.ReasonCancelled)
	s.must(stop.Message == "no longer needed" && stop.GraceSeconds == 3 && time.Since(stop.Time) < patience, "stop %+v", stop)
	s.until(task, "visibly stopping, and not yet cancelled", func(task *v1alpha1.LeasedTask) bool {
		ready := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionReady)
		return in(v1alpha1.PhaseRunning, 1)(task) && ready.Reason == v1alpha1.ReasonStopping &&
			meta.IsStatusConditionTrue(task.Status.Conditions, v1alpha1.ConditionCancelRequested)
	})
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Cancelled, Reason: fencing.ReasonCancelled, Message: "the command ended without a result", ExitCode: new(int32(143))}))
	s.untilCancelled(task, 5*time.Second)
	h := task.Status.History[0]
	s.must(h.Outcome == v1alpha1.AttemptStopped && h.Reason == "Cancelled" && h.Evidence == v1alpha1.EvidenceSubmission && *h.ExitCode == 143 &&
		strings.Contains(h.Message, "no longer needed"), "history %+v", h)
	s.must(task.Status.Failures == 0 && task.Status.Disruptions == 0, "status %+v", task.Status)
}

// TestCase23CancelReachesAWorkerThatNeverHeeds: it renews, and does not submit. It is revoked p + grace + 10 s after the stop, and
// Cancelled is not said before its process must be over.
func TestCase23CancelReachesAWorkerThatNeverHeeds(t *testing.T) {
	s := sideBySide(t, nil)
	task, a := s.claimed("deaf")
	s.until(task, "running", in(v1alpha1.PhaseRunning, 1))
	begin := time.Now()
	s.ok(s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) {
		cancelled(spec)
		spec.Cancel.GracePeriodSeconds = 1
	}))
	var renewed, refused time.Time
	for refused.IsZero() {
		if err := a.renew(); apierrors.IsInvalid(err) {
			refused = time.Now()
		} else {
			s.ok(err)
			renewed = time.Now()
			time.Sleep(500 * time.Millisecond)
		}
	}
	const bound = 13500 * time.Millisecond // D/4 + 1 s + 10 s
	if took := refused.Sub(begin); took < bound || took > bound+20*time.Second {
		t.Errorf("revoked after %s, want %s and a little", took, bound)
	}
	s.untilCancelled(task, patience)
	if waited := time.Since(renewed); waited < 9*time.Second {
		t.Errorf("Cancelled %s after its last renewal: its process may still run", waited)
	}
	h := task.Status.History[0]
	s.must(h.Outcome == v1alpha1.AttemptStopped && h.Reason == "Cancelled" && h.Evidence == v1alpha1.EvidenceObservation, "history %+v", h)
}

func TestCase24SuspendedAtCreation(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("suspended", func(task *v1alpha1.LeasedTask) { suspended(true)(&task.Spec) })
	s.until(task, "suspended", waitsFor(v1alpha1.WaitingSuspended, ""))
	version := task.ResourceVersion
	time.Sleep(2 * time.Second)
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(task), task))
	st := task.Status
	s.must(task.ResourceVersion == version && st.Attempt == 0 && st.StartTime == nil && st.FencingToken == 0 && st.LeaseName == "", "status %+v", st)
	for what, list := range map[string]client.ObjectList{"Pods": &corev1.PodList{}, "Leases": &coordinationv1.LeaseList{}, "events": &eventsv1.EventList{}} {
		s.ok(admin.List(t.Context(), list, client.InNamespace(s.namespace)))
		if n := meta.LenList(list); n > 0 {
			t.Errorf("%d %s of a task that never ran", n, what)
		}
	}
	s.ok(s.edit(task, suspended(false)))
	s.untilGranted(task, 1)
	s.untilPod(task)

	gone := s.start("deleted", func(task *v1alpha1.LeasedTask) { suspended(true)(&task.Spec) })
	s.until(gone, "suspended", waitsFor(v1alpha1.WaitingSuspended, ""))
	s.ok(admin.Delete(t.Context(), gone))
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(gone), gone); !apierrors.IsNotFound(err) {
		t.Errorf("a suspended task is not deleted at once: %v", err)
	}
}

func TestCase25SuspendedTimeCountsForNoStartDeadline(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("patient", func(task *v1alpha1.LeasedTask) { task.Spec.Timeouts.StartSeconds = 8 })
	s.untilGranted(task, 1)
	s.untilPod(task)
	s.ok(s.edit(task, suspended(true)))
	s.until(task, "suspended", waitsFor(v1alpha1.WaitingSuspended, ""))
	s.mustHaveNoPod(task)
	time.Sleep(9 * time.Second)
	s.ok(s.edit(task, suspended(false)))
	s.untilGranted(task, 2)
	time.Sleep(4 * time.Second)
	s.until(task, "still starting", in(v1alpha1.PhaseClaimed, 2))
	s.until(task, "timed out, with the whole deadline of its own", in(v1alpha1.PhaseDeadLettered, 2))
	last := task.Status.History[1]
	s.must(last.Reason == "StartTimeout" && task.Status.History[0].Reason == "Suspended" && task.Status.Failures == 1 && task.Status.Disruptions == 0,
		"task %s", cluster.Describe(task))
}

func TestCase26SuspendAndResumeInTheMiddleOfARun(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("pausing", func(task *v1alpha1.LeasedTask) {
		task.Spec.Retry.MaxAttempts, task.Spec.Retry.MaxDisruptions = 1, new(int32(0)) // any charge would end it
	})
	s.untilGranted(task, 1)
	token, a := task.Status.FencingToken, s.agentOf(task)
	s.ok(a.claimTerm())
	s.until(task, "running", in(v1alpha1.PhaseRunning, 1))
	s.ok(s.edit(task, suspended(true)))
	a.untilTold(fencing.ReasonSuspended)
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Cancelled, Reason: fencing.ReasonSuspended, ExitCode: new(int32(143))}))
	s.until(task, "suspended", waitsFor(v1alpha1.WaitingSuspended, ""))
	st := task.Status
	s.must(st.Phase == v1alpha1.PhaseAvailable && st.Failures == 0 && st.Disruptions == 0 && st.NextAttemptTime == nil, "status %+v", st)
	s.must(st.History[0].Outcome == v1alpha1.AttemptStopped && st.History[0].Reason == "Suspended", "history %+v", st.History[0])
	s.ok(s.edit(task, suspended(false)))
	s.untilGranted(task, 2)
	s.must(task.Status.FencingToken > token, "token %d is not above %d", task.Status.FencingToken, token)
	if err := a.renew(); !apierrors.IsInvalid(err) {
		t.Errorf("the stopped attempt can still renew: %v", err)
	}
	b := s.agentOf(task)
	s.ok(b.claimTerm())
	s.must(b.bearsStop() == nil, "the next term bears the last one's stop")

	// Once more, and this time it finishes instead.
	s.until(task, "running", in(v1alpha1.PhaseRunning, 2))
	s.ok(s.edit(task, suspended(true)))
	b.untilTold(fencing.ReasonSuspended)
	s.ok(b.submit(fencing.Submission{Outcome: fencing.Succeeded, Result: new("42")}))
	s.until(task, "completed", in(v1alpha1.PhaseCompleted, 2))
}

// TestARefusedPushLeavesThePull: a webhook or a policy of somebody else's may forbid what tells the kubelet. The Lease bears the
// stop all the same, and the operator does not hammer.
func TestARefusedPushLeavesThePull(t *testing.T) {
	s := set(t, map[string]string{"pods": "frozen"})
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "frozen-pods"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pods": "frozen"}},
			ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}}}},
		Validations: []admissionv1.Validation{{Expression: "!has(object.spec.activeDeadlineSeconds)", Message: "deadlines are not for you"}}}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	s.ok(admin.Create(t.Context(), policy))
	s.ok(admin.Create(t.Context(), binding))
	t.Cleanup(func() {
		_ = admin.Delete(context.Background(), binding)
		_ = admin.Delete(context.Background(), policy)
	})
	task, a := s.claimed("unpushed")
	s.until(task, "running", in(v1alpha1.PhaseRunning, 1))
	s.ok(s.Poll(t.Context(), patience, func() error { // a new policy acts some seconds late
		pod := s.untilPod(task)
		next := pod.DeepCopy()
		next.Spec.ActiveDeadlineSeconds = new(int64(1 << 20))
		if err := admin.Patch(t.Context(), next, mergeFrom(pod), client.DryRunAll); err == nil {
			return errors.New("the policy does not act yet")
		}
		return nil
	}))
	s.ok(s.edit(task, cancelled))
	s.ok(s.Poll(t.Context(), patience, func() error {
		if a.bearsStop() == nil {
			return errors.New("the Lease bears no stop")
		}
		return nil
	}))
	s.until(task, "stopping", func(task *v1alpha1.LeasedTask) bool {
		return meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionReady).Reason == v1alpha1.ReasonStopping
	})
	time.Sleep(time.Second)
	before := passes(t)
	time.Sleep(4 * time.Second)
	if made := passes(t) - before; made > 1 {
		t.Errorf("%v passes in 4 s: the push is tried again and again", made)
	}
	s.must(s.untilPod(task).Spec.ActiveDeadlineSeconds == nil, "the policy has not acted")
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Cancelled, Reason: fencing.ReasonCancelled}))
	s.untilCancelled(task, 5*time.Second)
}
