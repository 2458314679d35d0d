package api

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

func mergeFrom(o client.Object) client.Patch {
	return client.MergeFrom(o.DeepCopyObject().(client.Object))
}

// waitsFor reports whether the Waiting condition is True for the reason, with the text in its message.
func waitsFor(reason, text string) func(*v1alpha1.LeasedTask) bool {
	return func(task *v1alpha1.LeasedTask) bool {
		w := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionWaiting)
		return w != nil && w.Status == metav1.ConditionTrue && w.Reason == reason && strings.Contains(w.Message, text)
	}
}

func TestASubmissionCompletesTheTaskAndALaterOneChangesNothing(t *testing.T) {
	s := sideBySide(t, nil)
	task, a := s.claimed("done")
	if err := a.claimTerm(); !apierrors.IsInvalid(err) {
		t.Fatalf("a second claim: %v", err)
	}
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Result: new("42")}))
	s.until(task, "completed", in(v1alpha1.PhaseCompleted, 1))
	if task.Status.Result == nil || *task.Status.Result != "42" {
		t.Errorf("result %v", task.Status.Result)
	}
	before := task.ResourceVersion
	time.Sleep(2 * time.Second)
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(task), task))
	if task.ResourceVersion != before {
		t.Errorf("a finished task was written again: %s, then %s", before, task.ResourceVersion)
	}
}

func TestAFailedAttemptIsFollowedByOneWithAHigherToken(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("twice")
	s.untilGranted(task, 1)
	token, a := task.Status.FencingToken, s.agentOf(task)
	s.ok(a.claimTerm())
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(7))}))
	s.untilGranted(task, 2)
	if task.Status.FencingToken <= token || task.Status.Failures != 1 {
		t.Errorf("status %+v", task.Status)
	}
	if err := a.renew(); !apierrors.IsInvalid(err) {
		t.Errorf("the first attempt can still renew: %v", err)
	}
}

func TestCase34RenewalsCostNoPass(t *testing.T) {
	s := set(t, nil)
	task, a := s.claimed("renewing")
	s.until(task, "running", in(v1alpha1.PhaseRunning, 1))
	time.Sleep(time.Second) // its own status write is still to be seen
	before, version := passes(t), task.ResourceVersion
	for range 20 {
		s.ok(a.renew())
		time.Sleep(50 * time.Millisecond)
	}
	if after := passes(t); after != before {
		t.Errorf("20 renewals cost %v passes", after-before)
	}
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(task), task))
	if task.ResourceVersion != version {
		t.Errorf("renewals wrote the task: %s, then %s", version, task.ResourceVersion)
	}
	s.ok(admin.Delete(t.Context(), task))
}

// passes is the number of passes over all tasks so far.
func passes(t *testing.T) (sum float64) {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "leasehold_decisions_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}

func TestAWorkerThatStopsRenewingIsReplacedAndCannotSubmit(t *testing.T) {
	s := sideBySide(t, nil)
	task, a := s.claimed("silent")
	s.untilGranted(task, 2)
	if err := a.submit(fencing.Submission{Outcome: fencing.Succeeded, Result: new("stale")}); !apierrors.IsInvalid(err) {
		t.Errorf("a late submission: %v", err)
	}
	if first := task.Status.History[0]; first.Reason != "LeaseExpired" || first.Outcome != v1alpha1.AttemptFailed {
		t.Errorf("history %+v", first)
	}
}

func TestATermThatNoPatchCanRevokeIsRevokedByDeletion(t *testing.T) {
	s := sideBySide(t, nil)
	task, a := s.claimed("wedged")
	// An empty submission reads as none, and does not pass for none in a test. The policy keeps workers from it.
	s.ok(a.patch([]byte(`[{"op":"add","path":"/metadata/annotations/leasehold.io~1submission","value":""}]`)))
	s.untilGranted(task, 2)
}

func TestATermThatNoPatchCanStopIsRevokedByDeletion(t *testing.T) {
	s := sideBySide(t, nil)
	task, a := s.claimed("wedged-too")
	s.ok(a.patch([]byte(`[{"op":"add","path":"/metadata/annotations/leasehold.io~1submission","value":""}]`)))
	s.ok(s.edit(task, cancelled))
	s.untilCancelled(task, patience)
	if h := task.Status.History[0]; h.Reason != "LeaseDeleted" {
		t.Errorf("history %+v", h)
	}
}

func TestALeaseCutShorterIsNotJudgedBeforeItsAgentHasFencedItself(t *testing.T) {
	s := sideBySide(t, nil)
	task, a := s.claimed("shortened", func(task *v1alpha1.LeasedTask) { task.Spec.Lease.DurationSeconds = 60 })
	s.ok(a.patch([]byte(`[{"op":"add","path":"/spec/leaseDurationSeconds","value":10}]`)))
	time.Sleep(15 * time.Second)
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(task), task))
	if task.Status.Attempt != 1 || task.Status.Phase != v1alpha1.PhaseRunning {
		t.Errorf("judged by the shortened Lease: %+v", task.Status)
	}
	s.ok(admin.Delete(t.Context(), task))
}

func TestCase10APodThatViolatesPodSecurityGivesAConditionThatQuotesIt(t *testing.T) {
	s := sideBySide(t, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	task := s.start("privileged", func(task *v1alpha1.LeasedTask) {
		task.Spec.Template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		task.Spec.Timeouts.StartSeconds = 15
	})
	s.until(task, "waiting with the violation", waitsFor(v1alpha1.WaitingPodRefused, "privileged"))
	s.until(task, "dead-lettered", in(v1alpha1.PhaseDeadLettered, 1))
	if h := task.Status.History[0]; h.Reason != "StartTimeout" || !strings.Contains(h.Message, "PodRefused") {
		t.Errorf("history %+v", h)
	}
}

func TestCase10ACompliantTemplateYieldsACompliantPod(t *testing.T) {
	s := sideBySide(t, map[string]string{"pod-security.kubernetes.io/enforce": "restricted"})
	task := s.start("compliant")
	s.untilGranted(task, 1)
	s.untilPod(task)
}

func TestAQuotaWithoutRoomIsWaitingNotFailing(t *testing.T) {
	s := sideBySide(t, nil)
	quota := s.closeQuota()
	task := s.start("waits")
	s.until(task, "waiting for quota", waitsFor(v1alpha1.WaitingQuotaExceeded, "exceeded quota"))
	s.ok(admin.Delete(t.Context(), quota))
	s.untilPod(task)
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(task), task))
	if task.Status.Failures != 0 || task.Status.Attempt != 1 {
		t.Errorf("waiting used a budget: %+v", task.Status)
	}
}

// closeQuota leaves the namespace no room for Pods.
func (s *scene) closeQuota() *corev1.ResourceQuota {
	s.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "none"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
	s.ok(admin.Create(s.Context(), quota))
	quota.Status.Hard, quota.Status.Used = quota.Spec.Hard, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	s.ok(admin.Status().Update(s.Context(), quota)) // the controller-manager's part
	return quota
}

func TestATemplateThatMakesNoValidPodEndsTheTaskAtOnce(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("invalid", func(task *v1alpha1.LeasedTask) {
		task.Spec.Template.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "missing", MountPath: "/missing"}}
	})
	s.until(task, "dead-lettered", in(v1alpha1.PhaseDeadLettered, 1))
	if h := task.Status.History[0]; h.Reason != "PodInvalid" || !strings.Contains(h.Message, "volumeMounts") {
		t.Errorf("history %+v", h)
	}
}

func TestWithoutTheEpochThereAreNoGrants(t *testing.T) {
	s := set(t, nil)
	cm := &corev1.ConfigMap{}
	s.ok(admin.Get(t.Context(), epoch, cm))
	s.ok(admin.Delete(t.Context(), cm))
	task := s.start("epochless")
	s.until(task, "waiting for the epoch", waitsFor(v1alpha1.WaitingEpochMissing, "is missing"))
	cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: epoch.Namespace, Name: epoch.Name}, Data: map[string]string{controller.EpochKey: "1"}}
	s.ok(admin.Create(t.Context(), cm))
	s.untilGranted(task, 1)
}

func TestTheEpochIsNeverLowered(t *testing.T) {
	s := sideBySide(t, nil)
	set := func(data map[string]string) error {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: epoch.Name}, Data: data}
		return admin.Update(t.Context(), cm)
	}
	s.ok(admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: epoch.Name},
		Data: map[string]string{controller.EpochKey: "9"}}))
	s.ok(s.Poll(t.Context(), patience, func() error { // a policy acts a moment late
		if err := set(map[string]string{controller.EpochKey: "none"}); err == nil {
			return errors.New("an epoch that is no number is taken")
		}
		return set(map[string]string{controller.EpochKey: "9"})
	}))
	for _, allowed := range []string{"9", "10", "524287"} {
		if err := set(map[string]string{controller.EpochKey: allowed, "note": "of " + allowed}); err != nil {
			t.Errorf("%s after a lower one, or itself: %v", allowed, err)
		}
	}
	for _, refused := range []string{"524286", "9", "524288", "-1", "0", "01", "1e9", "99999999999999999999", "none", ""} {
		if err := set(map[string]string{controller.EpochKey: refused}); err == nil || !strings.Contains(err.Error(), "data.epoch: ") {
			t.Errorf("%q after 524287: %v, want a refusal that names the field", refused, err)
		}
	}
	if err := set(nil); err == nil {
		t.Error("an epoch can be taken away")
	}
}

func TestWithoutTheAdmissionPoliciesNobodyGetsTheWorkerRole(t *testing.T) {
	s := set(t, nil)
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
	s.ok(admin.Get(t.Context(), client.ObjectKey{Name: "leasehold-mailbox"}, binding))
	s.ok(admin.Delete(t.Context(), binding))
	task := s.start("unguarded")
	s.until(task, "waiting for the policies", waitsFor(v1alpha1.WaitingWorkerRole, "leasehold-mailbox is missing"))
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: controller.WorkerRole}, &rbacv1.RoleBinding{}); !apierrors.IsNotFound(err) {
		t.Errorf("the worker role's binding: %v, want none", err)
	}
	binding.ResourceVersion = ""
	s.ok(admin.Create(t.Context(), binding))
	s.untilGranted(task, 1)
}

func TestCase09AStartTimeoutNamesItsCauseAndRemovesThePod(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("never-starts", func(task *v1alpha1.LeasedTask) { task.Spec.Timeouts.StartSeconds = 3 })
	s.until(task, "dead-lettered", in(v1alpha1.PhaseDeadLettered, 1))
	if h := task.Status.History[0]; h.Reason != "StartTimeout" || !strings.Contains(h.Message, "PodStarting") {
		t.Errorf("history %+v", h)
	}
	s.ok(s.Poll(t.Context(), patience, func() error {
		pod := &corev1.Pod{}
		err := admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: task.Status.History[0].PodName}, pod)
		if apierrors.IsNotFound(err) || err == nil && pod.DeletionTimestamp != nil {
			return nil
		}
		return errStillThere
	}))
}

func TestATimeToLiveDeletesTheFinishedTaskAndARaisedOneIsHonoured(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("short-lived", func(task *v1alpha1.LeasedTask) { task.Spec.TTLSecondsAfterFinished = new(int32(2)) })
	kept := s.start("kept", func(task *v1alpha1.LeasedTask) { task.Spec.TTLSecondsAfterFinished = new(int32(4)) })
	for _, task := range []*v1alpha1.LeasedTask{task, kept} {
		s.untilGranted(task, 1)
		a := s.agentOf(task)
		s.ok(a.claimTerm())
		s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded}))
		s.until(task, "completed", in(v1alpha1.PhaseCompleted, 1))
	}
	raised := kept.DeepCopy()
	raised.Spec.TTLSecondsAfterFinished = new(int32(1000))
	s.ok(admin.Patch(t.Context(), raised, mergeFrom(kept)))
	s.ok(s.Poll(t.Context(), patience, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(task), task); !apierrors.IsNotFound(err) {
			return errStillThere
		}
		return nil
	}))
	time.Sleep(5 * time.Second)
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(kept), kept))
	if *kept.Status.ObservedGeneration != kept.Generation {
		t.Errorf("observedGeneration %d, generation %d", *kept.Status.ObservedGeneration, kept.Generation)
	}
}

var errStillThere = apierrors.NewBadRequest("it is still there")

func TestAServiceAccountThatDoesNotExistIsNamedAndWaitedFor(t *testing.T) {
	s := sideBySide(t, nil)
	s.untilGranted(s.start("first"), 1) // the namespace has its binding
	under := func(account string) func(*v1alpha1.LeasedTask) {
		return func(task *v1alpha1.LeasedTask) { task.Spec.Template.Spec.ServiceAccountName = account }
	}
	impossible, missing := s.start("misnamed", under("My_SA")), s.start("early", under("mine"))
	s.until(impossible, "waiting for a person", waitsFor(v1alpha1.WaitingWorkerRole, `service account "My_SA" does not exist`))
	s.until(missing, "waiting for its account", waitsFor(v1alpha1.WaitingWorkerRole, `service account "mine" does not exist`))
	version := impossible.ResourceVersion
	time.Sleep(3 * time.Second)
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(impossible), impossible))
	s.must(impossible.ResourceVersion == version, "waiting writes: %s, then %s", version, impossible.ResourceVersion)

	s.ok(admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "mine"}}))
	s.untilGranted(missing, 1)
	binding := &rbacv1.RoleBinding{}
	s.ok(admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: controller.WorkerRole}, binding))
	s.must(len(binding.Subjects) == 2, "the worker role is bound to %+v, want default and mine", binding.Subjects)
}

func TestOneNamespaceGivesTheWorkerRoleToABoundedNumberOfAccounts(t *testing.T) {
	s := sideBySide(t, nil)
	s.untilGranted(s.start("first"), 1)
	binding := &rbacv1.RoleBinding{}
	s.ok(admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: controller.WorkerRole}, binding))
	full := binding.DeepCopy()
	for i := range 99 {
		full.Subjects = append(full.Subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: fmt.Sprintf("a%d", i)})
	}
	s.ok(admin.Patch(t.Context(), full, mergeFrom(binding)))
	s.ok(admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "one-more"}}))
	task := s.start("one-more", func(task *v1alpha1.LeasedTask) { task.Spec.Template.Spec.ServiceAccountName = "one-more" })
	s.until(task, "waiting for a person", waitsFor(v1alpha1.WaitingWorkerRole, "has 100 accounts"))
}

// TestTheAPIServerTakesTheWholeConfiguration, as somebody applies it who uses kustomize. It is a dry run: this cluster has no nodes, and this
// process has made some of the objects before.
func TestTheAPIServerTakesTheWholeConfiguration(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, kubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), "--kubeconfig", kubeconfig,
		"apply", "--server-side", "--dry-run=server", "--force-conflicts", "-k", filepath.Join("..", "..", "config", "default"))
	printed, err := kubectl.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	for _, object := range []string{"customresourcedefinition.apiextensions.k8s.io/leasedtasks.leasehold.io", "deployment.apps/leasehold-manager",
		"validatingadmissionpolicy.admissionregistration.k8s.io/leasehold-epoch"} {
		if !strings.Contains(string(printed), object) {
			t.Errorf("%s is not in\n%s", object, printed)
		}
	}
}
