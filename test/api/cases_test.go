package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
	"github.com/leasehold-io/leasehold/test/kstatus"
)

// Situations that bit users of comparable systems and are nowhere else; docs/cases.md lists them all.

func TestCase11ARestartInPlaceIsRefusedAndNeverIsSaidForIt(t *testing.T) {
	s := sideBySide(t, nil)
	always := corev1.ContainerRestartPolicyAlways
	for what, test := range map[string]struct {
		change func(*corev1.PodSpec)
		field  string
	}{
		"OnFailure":         {func(p *corev1.PodSpec) { p.RestartPolicy = corev1.RestartPolicyOnFailure }, "spec.template.spec.restartPolicy"},
		"Always":            {func(p *corev1.PodSpec) { p.RestartPolicy = corev1.RestartPolicyAlways }, "spec.template.spec.restartPolicy"},
		"a container's own": {func(p *corev1.PodSpec) { p.Containers[0].RestartPolicy = &always }, "spec.template.spec.containers"},
		"a rule of a container": {func(p *corev1.PodSpec) {
			never := corev1.ContainerRestartPolicyNever
			p.Containers[0].RestartPolicy = &never
			p.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}}}}
		}, "spec.template.spec.containers"},
	} {
		task := cluster.Task(s.namespace, "restarts", "true")
		test.change(&task.Spec.Template.Spec)
		if err := admin.Create(t.Context(), task); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.field) || !strings.Contains(err.Error(), "outside its attempt") {
			t.Errorf("%s: %v", what, err)
		}
	}
	task := s.start("unsaid")
	s.untilGranted(task, 1)
	s.must(s.untilPod(task).Spec.RestartPolicy == corev1.RestartPolicyNever, "an unset restartPolicy is not Never in the Pod")
}

// TestCase13WhatIsReadLateDoesNoHarm: at each stage of a task's life one operator reads, and falls asleep. Later it decides on what
// it remembers of the task, its Lease, its Pods, or all of them.
func TestCase13WhatIsReadLateDoesNoHarm(t *testing.T) {
	t.Parallel()
	g := newModelGround(t)
	w := g.newWorld(1 << 40)
	spec := cluster.Task(modelNamespace, "late", "true")
	if err := w.under.Create(w.ctx, spec); err != nil {
		t.Fatal(err)
	}
	task, leader := w.enter(spec, 0), w.operators[0]
	var sleepers []*operator
	everybodyWakes := func(stage string) {
		for i, o := range sleepers {
			known, lists := o.cache.known, o.cache.lists
			for _, fresh := range []int{0, freshTask, freshLease, freshPods, freshTask | freshPods, freshLease | freshPods, freshTask | freshLease} {
				o.cache.known, o.cache.lists = maps.Clone(known), maps.Clone(lists)
				o.begin(fresh, -1, 0, nil)
				w.tracef("%s: who read at stage %d wakes", stage, i)
				o.pass(task)
			}
			o.cache.known, o.cache.lists = known, lists
		}
		sleeper := w.newOperator(fmt.Sprintf("sleeper-%d", len(sleepers)))
		sleeper.reads(task)
		sleepers = append(sleepers, sleeper)
	}
	pass := func() { leader.begin(allFresh, -1, 0, nil); leader.pass(task) }
	current := func() *worker { return w.workers[len(w.workers)-1] }
	everybodyWakes("new")
	pass()
	everybodyWakes("available")
	pass()
	everybodyWakes("granted")
	current().claims(w)
	everybodyWakes("claimed")
	w.advance(tick, true)
	pass()
	everybodyWakes("running")
	current().submits(w, fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(1))})
	everybodyWakes("failed")
	pass()
	w.advance(2*tick, true)
	everybodyWakes("in back-off")
	pass()
	current().claims(w)
	everybodyWakes("granted and claimed again")
	w.advance(tick, true)
	pass()
	current().submits(w, successful)
	everybodyWakes("succeeded")
	pass()
	everybodyWakes("completed")

	w.judge(task)
	pods := &corev1.PodList{}
	if err := w.under.List(w.ctx, pods, client.InNamespace(modelNamespace), client.MatchingLabels{v1alpha1.TaskLabel: task.uid}); err != nil {
		t.Fatal(err)
	}
	end := task.ledger.last.Status
	if len(w.problems) > 0 || end.Phase != v1alpha1.PhaseCompleted || end.Attempt != 2 || len(w.workers) != 2 || len(pods.Items) != 2 || end.Disruptions != 0 {
		t.Errorf("%d Pods were made, %d are there; %q\n%+v\n%s", len(w.workers), len(pods.Items), w.problems, end, strings.Join(w.trace, "\n"))
	}
	w.clear()
}

// TestCase38AGitOpsToolSeesNoDifference: what it applied is what it finds, at once and at the end; applying it again changes nothing.
func TestCase38AGitOpsToolSeesNoDifference(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.LeasedTask){"of its own": func(*v1alpha1.LeasedTask) {}, "of its queue": leaveToQueue} {
		t.Run(name, func(t *testing.T) { gitOpsSeesNoDifference(t, change) })
	}
}

func gitOpsSeesNoDifference(t *testing.T, change func(*v1alpha1.LeasedTask)) {
	s := sideBySide(t, nil)
	s.queue(nil)
	desired := cluster.Task(s.namespace, "synced", "true")
	change(desired)
	desired.Labels, desired.Annotations = map[string]string{"app": "orders"}, map[string]string{"example.com/revision": "7"}
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(desired)
	s.ok(err)
	manifest := &unstructured.Unstructured{Object: raw}
	manifest.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LeasedTask"))
	unstructured.RemoveNestedField(manifest.Object, "status")
	apply := func(opts ...client.ApplyOption) *unstructured.Unstructured {
		applied := manifest.DeepCopy()
		s.ok(admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(applied), append(opts, client.FieldOwner("gitops"), client.ForceOwnership)...))
		return applied
	}
	first := apply()
	noDifference := func(stage string) {
		live, again := first.DeepCopy(), apply(client.DryRunAll)
		s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(live), live))
		for what, path := range map[string][]string{"spec": {"spec"}, "labels": {"metadata", "labels"}, "annotations": {"metadata", "annotations"}} {
			want, _, _ := unstructured.NestedMap(manifest.Object, path...)
			got, _, _ := unstructured.NestedMap(live.Object, path...)
			if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
				t.Errorf("%s: %s (-applied +found):\n%s", stage, what, diff)
			}
		}
		if again.GetResourceVersion() != live.GetResourceVersion() || live.GetGeneration() != 1 {
			t.Errorf("%s: applied again, version %s becomes %s; generation %d", stage, live.GetResourceVersion(), again.GetResourceVersion(), live.GetGeneration())
		}
		for _, owner := range live.GetManagedFields() {
			if owner.Manager != "gitops" && owner.Subresource != "status" {
				t.Errorf("%s: %s owns %s", stage, owner.Manager, owner.FieldsV1)
			}
		}
	}
	task := &v1alpha1.LeasedTask{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "synced"}}
	s.untilGranted(task, 1)
	noDifference("claimed")
	a := s.agentOf(task)
	s.ok(a.claimTerm())
	s.until(task, "running", in(v1alpha1.PhaseRunning, 1))
	noDifference("running")
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Result: new("42")}))
	s.until(task, "completed", in(v1alpha1.PhaseCompleted, 1))
	noDifference("completed")
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestKstatusReadsWhatTheAPIServerServes: in each phase that stands still, and before the first.
func TestKstatusReadsWhatTheAPIServerServes(t *testing.T) {
	s := sideBySide(t, nil)
	is := func(o client.Object, kind string, want status.Status) {
		t.Helper()
		served := &unstructured.Unstructured{}
		served.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(o), served))
		got := kstatus.Of(t, kind, served)
		if got.Status != want {
			t.Errorf("%s %s is %s: %s; want %s", kind, o.GetName(), got.Status, got.Message, want)
		}
	}
	unseen := s.start("unseen", func(task *v1alpha1.LeasedTask) { task.Labels = map[string]string{handDriven: "true"} })
	is(unseen, "LeasedTask", status.InProgressStatus)
	s.ok(s.edit(unseen, suspended(true)))
	is(unseen, "LeasedTask", status.InProgressStatus)

	task := s.start("done")
	s.untilGranted(task, 1)
	is(task, "LeasedTask", status.InProgressStatus)
	a := s.agentOf(task)
	s.ok(a.claimTerm())
	s.until(task, "running", in(v1alpha1.PhaseRunning, 1))
	is(task, "LeasedTask", status.InProgressStatus)
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded}))
	s.until(task, "completed", in(v1alpha1.PhaseCompleted, 1))
	is(task, "LeasedTask", status.CurrentStatus)

	called := s.start("called-off", func(task *v1alpha1.LeasedTask) { cancelled(&task.Spec) })
	s.until(called, "cancelled", in(v1alpha1.PhaseCancelled, 0))
	is(called, "LeasedTask", status.CurrentStatus)

	failed, dead := s.die("given-up")
	is(failed, "LeasedTask", status.FailedStatus)
	s.ok(s.Poll(t.Context(), patience, func() error {
		s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(dead), dead))
		if !isReady(dead, v1alpha1.ReasonNotReplayed) {
			return fmt.Errorf("status %+v", dead.Status)
		}
		return nil
	}))
	is(dead, "DeadLetter", status.CurrentStatus)
	s.ok(s.ask(admin, dead, `{"request": 1, "templatePatch": "[1]"}`))
	s.untilAnswered(dead, 1)
	is(dead, "DeadLetter", status.FailedStatus)

	held := s.start("held", func(task *v1alpha1.LeasedTask) { task.Finalizers = []string{"example.com/held"} })
	s.ok(admin.Delete(t.Context(), held))
	is(held, "LeasedTask", status.TerminatingStatus)
	s.ok(admin.Patch(t.Context(), held, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
}
