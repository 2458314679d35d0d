package api

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
)

func TestCase28BadInputIsRefusedWithTheFieldPathAndTheReason(t *testing.T) {
	s := sideBySide(t, nil)
	pod := func(change func(*corev1.PodSpec)) func(*v1alpha1.LeasedTask) {
		return func(task *v1alpha1.LeasedTask) { change(&task.Spec.Template.Spec) }
	}
	retry := func(change func(*v1alpha1.RetrySpec)) func(*v1alpha1.LeasedTask) {
		return func(task *v1alpha1.LeasedTask) { change(&task.Spec.Retry) }
	}
	rules := func(rules ...v1alpha1.RetryRule) func(*v1alpha1.LeasedTask) {
		return retry(func(r *v1alpha1.RetrySpec) { r.Rules = rules })
	}
	always := corev1.ContainerRestartPolicyAlways
	tests := map[string]struct {
		change func(*v1alpha1.LeasedTask)
		want   []string // all of them are in the answer
	}{
		"no command": {pod(func(p *corev1.PodSpec) { p.Containers[0].Command = nil }),
			[]string{"spec.template", "needs a command", "crane config"}},
		"no template, and no queue for one": {func(task *v1alpha1.LeasedTask) { task.Spec.Template = nil }, []string{"spec.template", "is required unless spec.queueName"}},
		"no container":                      {pod(func(p *corev1.PodSpec) { p.Containers = []corev1.Container{} }), []string{"spec.template", "at least one container"}},
		"two containers, no worker named": {pod(func(p *corev1.PodSpec) { p.Containers = append(p.Containers, corev1.Container{Name: "b", Image: "b"}) }),
			[]string{"spec.workerContainer", "required"}},
		"unknown worker":        {func(task *v1alpha1.LeasedTask) { task.Spec.WorkerContainer = "nobody" }, []string{"spec.workerContainer", "names no container"}},
		"restartPolicy":         {pod(func(p *corev1.PodSpec) { p.RestartPolicy = corev1.RestartPolicyOnFailure }), []string{"spec.template.spec.restartPolicy", "must be Never"}},
		"activeDeadlineSeconds": {pod(func(p *corev1.PodSpec) { p.ActiveDeadlineSeconds = new(int64(5)) }), []string{"spec.template.spec.activeDeadlineSeconds", "spec.timeouts"}},
		"grace period":          {pod(func(p *corev1.PodSpec) { p.TerminationGracePeriodSeconds = new(int64(5)) }), []string{"spec.template.spec.terminationGracePeriodSeconds", "stopGraceSeconds"}},
		"shareProcessNamespace": {pod(func(p *corev1.PodSpec) { p.ShareProcessNamespace = new(true) }), []string{"spec.template.spec.shareProcessNamespace", "process 1"}},
		"hostPID":               {pod(func(p *corev1.PodSpec) { p.HostPID = true }), []string{"spec.template.spec.hostPID", "process 1"}},
		"windows":               {pod(func(p *corev1.PodSpec) { p.OS = &corev1.PodOS{Name: corev1.Windows} }), []string{"spec.template.spec.os", "Linux only"}},
		"windows nodes":         {pod(func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{corev1.LabelOSStable: "windows"} }), []string{"spec.template.spec.nodeSelector", "Linux only"}},
		"container restart policy": {pod(func(p *corev1.PodSpec) { p.Containers[0].RestartPolicy = &always }),
			[]string{"spec.template.spec.containers", "restart policy"}},
		"lifecycle": {pod(func(p *corev1.PodSpec) {
			p.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
		}), []string{"spec.template", "lifecycle hooks"}},
		"our volume": {pod(func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{{Name: "leasehold-bin"}} }),
			[]string{"spec.template.spec.volumes", "leasehold-"}},
		"our container": {pod(func(p *corev1.PodSpec) {
			p.InitContainers = []corev1.Container{{Name: "leasehold-agent", Image: "x"}}
		}), []string{"spec.template.spec", "leasehold-"}},

		"lease too short": {func(task *v1alpha1.LeasedTask) { task.Spec.Lease.DurationSeconds = 9 }, []string{"spec.lease.durationSeconds", "10"}},
		"renewal policy":  {func(task *v1alpha1.LeasedTask) { task.Spec.Lease.OnRenewalFailure = "Pause" }, []string{"spec.lease.onRenewalFailure", "Fence"}},
		"attempt limit":   {func(task *v1alpha1.LeasedTask) { task.Spec.Timeouts.AttemptSeconds = -1 }, []string{"spec.timeouts.attemptSeconds", "1"}},
		"total limit":     {func(task *v1alpha1.LeasedTask) { task.Spec.Timeouts.TotalSeconds = -1 }, []string{"spec.timeouts.totalSeconds", "1"}},
		"total below the attempt": {func(task *v1alpha1.LeasedTask) {
			task.Spec.Timeouts = v1alpha1.TimeoutsSpec{AttemptSeconds: 61, TotalSeconds: 60}
		}, []string{"spec.timeouts.totalSeconds", "must not be below attemptSeconds"}},
		"negative ttl of an outcome": {func(task *v1alpha1.LeasedTask) { task.Spec.TTL.CancelledSeconds = new(int32(-1)) }, []string{"spec.ttl.cancelledSeconds", "0"}},
		"lease too long":             {func(task *v1alpha1.LeasedTask) { task.Spec.Lease.DurationSeconds = 3601 }, []string{"spec.lease.durationSeconds", "3600"}},
		"start timeout":              {func(task *v1alpha1.LeasedTask) { task.Spec.Timeouts.StartSeconds = -1 }, []string{"spec.timeouts.startSeconds", "1"}},
		"negative grace":             {func(task *v1alpha1.LeasedTask) { task.Spec.StopGraceSeconds = -1 }, []string{"spec.stopGraceSeconds"}},
		"negative ttl":               {func(task *v1alpha1.LeasedTask) { task.Spec.TTLSecondsAfterFinished = new(int32(-1)) }, []string{"spec.ttlSecondsAfterFinished", "0"}},
		"no attempts":                {retry(func(r *v1alpha1.RetrySpec) { r.MaxAttempts = -1 }), []string{"spec.retry.maxAttempts", "1"}},
		"too many attempts":          {retry(func(r *v1alpha1.RetrySpec) { r.MaxAttempts = 101 }), []string{"spec.retry.maxAttempts", "100"}},
		"disruptions":                {retry(func(r *v1alpha1.RetrySpec) { r.MaxDisruptions = new(int32(-1)) }), []string{"spec.retry.maxDisruptions", "0"}},
		"factor":                     {retry(func(r *v1alpha1.RetrySpec) { r.Backoff.Factor = -1 }), []string{"spec.retry.backoff.factor", "1"}},
		"jitter":                     {retry(func(r *v1alpha1.RetrySpec) { r.Backoff.Jitter = "Some" }), []string{"spec.retry.backoff.jitter", "Full"}},
		"cancel without a reason":    {func(task *v1alpha1.LeasedTask) { task.Spec.Cancel.GracePeriodSeconds = 5 }, []string{"spec.cancel.reason", "Required"}},
		"cancel for 1025 bytes of reasons": {func(task *v1alpha1.LeasedTask) { task.Spec.Cancel.Reason = strings.Repeat("é", 512) + "a" },
			[]string{"spec.cancel.reason", "1024 bytes"}},
		"cancel after a negative grace": {func(task *v1alpha1.LeasedTask) {
			task.Spec.Cancel = v1alpha1.CancelSpec{Reason: "r", GracePeriodSeconds: -1}
		}, []string{"spec.cancel.gracePeriodSeconds", "1"}},
		"cancel after more than an hour": {func(task *v1alpha1.LeasedTask) {
			task.Spec.Cancel = v1alpha1.CancelSpec{Reason: "r", GracePeriodSeconds: 3601}
		}, []string{"spec.cancel.gracePeriodSeconds", "3600"}},
		"rule without a requirement": {rules(v1alpha1.RetryRule{Action: v1alpha1.RetryActionRetry}),
			[]string{"spec.retry.rules[0]", "at least one of onExitCodes"}},
		"rule with an unknown action": {rules(v1alpha1.RetryRule{Action: "Forget", OnReasons: []string{"OOMKilled"}}),
			[]string{"spec.retry.rules[0].action", "DeadLetter"}},
		"rule without an action": {rules(v1alpha1.RetryRule{OnReasons: []string{"OOMKilled"}}), []string{"spec.retry.rules[0].action"}},
		"21 rules":               {rules(slices.Repeat([]v1alpha1.RetryRule{{Action: v1alpha1.RetryActionRetry, OnReasons: []string{"A"}}}, 21)...), []string{"spec.retry.rules", "20"}},
		"exit code 256": {rules(v1alpha1.RetryRule{Action: v1alpha1.RetryActionRetry,
			OnExitCodes: v1alpha1.ExitCodeRequirement{Operator: v1alpha1.ExitCodeIn, Values: []int32{256}}}), []string{"spec.retry.rules[0].onExitCodes.values[0]", "255"}},
		"exit codes without an operator": {rules(v1alpha1.RetryRule{Action: v1alpha1.RetryActionRetry,
			OnExitCodes: v1alpha1.ExitCodeRequirement{Values: []int32{1}}}), []string{"spec.retry.rules[0].onExitCodes.operator"}},
		"a reason with a space": {rules(v1alpha1.RetryRule{Action: v1alpha1.RetryActionRetry, OnReasons: []string{"out of memory"}}),
			[]string{"spec.retry.rules[0].onReasons[0]"}},
		"the same Pod condition twice": {rules(v1alpha1.RetryRule{Action: v1alpha1.RetryActionRetry,
			OnPodConditions: []v1alpha1.PodConditionRequirement{{Type: "Ready"}, {Type: "Ready"}}}), []string{"spec.retry.rules[0].onPodConditions[1]"}},
		"max below initial": {retry(func(r *v1alpha1.RetrySpec) {
			r.Backoff.InitialSeconds, r.Backoff.MaxSeconds = 10, 5
		}),
			[]string{"spec.retry.backoff.maxSeconds", "initialSeconds"}},
		"initial above the default max": {retry(func(r *v1alpha1.RetrySpec) { r.Backoff = v1alpha1.BackoffSpec{InitialSeconds: 301} }),
			[]string{"spec.retry.backoff.maxSeconds", "300"}},
		"11 conditions":                     {verifies(slices.Repeat([]v1alpha1.ResultCheck{{Expression: "true"}}, 11)...), []string{"spec.verify", "10"}},
		"a condition without an expression": {verifies(v1alpha1.ResultCheck{Message: "m"}), []string{"spec.verify[0].expression", "Required"}},
		"a condition of 1025 characters":    {verifies(v1alpha1.ResultCheck{Expression: strings.Repeat("a", 1025)}), []string{"spec.verify[0].expression", "1024"}},
		"a condition of 1025 bytes":         {verifies(v1alpha1.ResultCheck{Expression: "'" + strings.Repeat("é", 510) + "' == ''"}), []string{"spec.verify[0].expression", "1024 bytes"}},
		"a message of 257 bytes":            {verifies(v1alpha1.ResultCheck{Expression: "true", Message: strings.Repeat("é", 128) + "a"}), []string{"spec.verify[0].message", "256 bytes"}},
		"two payloads":                      {func(task *v1alpha1.LeasedTask) { task.Spec.Payload = new(""); fromSecret("a", "b")(task) }, []string{"spec.payloadFrom", "excludes spec.payload"}},
		"a payload from two places": {func(task *v1alpha1.LeasedTask) {
			fromSecret("a", "b")(task)
			task.Spec.PayloadFrom.ConfigMapKeyRef = v1alpha1.PayloadKeyReference{Name: "a", Key: "b"}
		}, []string{"spec.payloadFrom", "exactly one of configMapKeyRef and secretKeyRef"}},
		"a payload from no key":             {fromSecret("a", ""), []string{"spec.payloadFrom.secretKeyRef.key", "Required"}},
		"a payload from no name":            {fromSecret("", "a"), []string{"spec.payloadFrom.secretKeyRef.name", "Required"}},
		"a payload from a path":             {fromSecret("a", "b/c"), []string{"spec.payloadFrom.secretKeyRef.key"}},
		"a payload from a parent":           {fromSecret("a", "..b"), []string{"spec.payloadFrom.secretKeyRef.key", "two dots"}},
		"a payload from an impossible name": {fromSecret("A_b", "c"), []string{"spec.payloadFrom.secretKeyRef.name"}},
		"payload of 65537 bytes":            {func(task *v1alpha1.LeasedTask) { task.Spec.Payload = new(strings.Repeat("a", 65537)) }, []string{"spec.payload", "65536"}},
		"payload of 33,000 characters and 66,000 bytes": {func(task *v1alpha1.LeasedTask) { task.Spec.Payload = new(strings.Repeat("é", 33000)) },
			[]string{"spec.payload", "65536 bytes"}},
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
}

func TestATaskThatCouldNotBeRecordedIsRefused(t *testing.T) {
	s := sideBySide(t, nil)
	task := cluster.Task(s.namespace, "huge", "true")
	for i := range 600 {
		task.Spec.Template.Spec.Containers[0].Env = append(task.Spec.Template.Spec.Containers[0].Env,
			corev1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: strings.Repeat("x", 1000)})
	}
	s.ok(s.Poll(t.Context(), patience, func() error { // a new policy acts some seconds late
		err := admin.Create(t.Context(), task.DeepCopy())
		if apierrors.IsForbidden(err) || apierrors.IsRequestEntityTooLargeError(err) {
			return nil
		}
		_ = admin.Delete(t.Context(), task.DeepCopy())
		return fmt.Errorf("want a refusal, got: %w", err)
	}))
}

// TestTheLargestTaskCanStillBeStopped: what may change at any time does not count when it is changed, nor does anything else of a task.
func TestTheLargestTaskCanStillBeStopped(t *testing.T) {
	s := sideBySide(t, nil)
	of := func(size int) *v1alpha1.LeasedTask {
		task := cluster.Task(s.namespace, "large", "true")
		task.Labels = map[string]string{handDriven: "true"}
		worker := &task.Spec.Template.Spec.Containers[0]
		for i := range 500 {
			worker.Env = append(worker.Env, corev1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: strings.Repeat("x", 1000)})
		}
		worker.Env[0].Value = strings.Repeat("x", size)
		return task
	}
	isTooLarge := func(size int) bool { return admin.Create(t.Context(), of(size), client.DryRunAll) != nil }
	s.ok(s.Poll(t.Context(), patience, func() error { // a new policy acts some seconds late
		if !isTooLarge(1 << 17) {
			return errors.New("nothing is too large")
		}
		return nil
	}))
	largest := sort.Search(1<<17, isTooLarge) - 1
	task := of(largest)
	s.ok(admin.Create(t.Context(), task))
	for what, change := range map[string]func(*v1alpha1.LeasedTask){
		"larger":             func(task *v1alpha1.LeasedTask) { task.Spec.Template.Spec.Containers[0].Env[0].Value += "x" },
		"with a payload":     func(task *v1alpha1.LeasedTask) { task.Spec.Payload = new("x") },
		"with another lease": func(task *v1alpha1.LeasedTask) { task.Spec.Lease.DurationSeconds = 1000 },
	} {
		next := task.DeepCopy()
		change(next)
		if err := admin.Patch(t.Context(), next, mergeFrom(task)); !apierrors.IsRequestEntityTooLargeError(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.ok(s.edit(task, suspended(true)))
	s.ok(s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) {
		spec.TTLSecondsAfterFinished, spec.TTL.CompletedSeconds = new(int32(1)), new(int32(1))
	}))
	s.ok(s.edit(task, cancelled))
	next := task.DeepCopy()
	next.Labels["team"] = "a"
	s.ok(admin.Patch(t.Context(), next, mergeFrom(task)))
}

func TestCase28ZeroIsRefusedWhereItMeansNothing(t *testing.T) {
	s := sideBySide(t, nil)
	for _, path := range []string{
		"lease.durationSeconds", "timeouts.startSeconds", "timeouts.attemptSeconds", "stopGraceSeconds", "retry.maxAttempts",
		"retry.backoff.initialSeconds", "retry.backoff.maxSeconds", "retry.backoff.factor", "cancel.gracePeriodSeconds",
	} {
		raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cluster.Task(s.namespace, "zero", "true"))
		s.ok(err)
		task := &unstructured.Unstructured{Object: raw} // a typed object would leave the zero out
		task.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LeasedTask"))
		s.ok(unstructured.SetNestedField(raw, int64(0), append([]string{"spec"}, strings.Split(path, ".")...)...))
		if err := admin.Create(t.Context(), task); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec."+path) {
			t.Errorf("%s: 0: %v", path, err)
		}
	}
}

func TestLimitsThemselvesAreAccepted(t *testing.T) {
	s := sideBySide(t, nil)
	tests := map[string]func(*v1alpha1.LeasedTask){
		"payload of 65536 bytes":          func(task *v1alpha1.LeasedTask) { task.Spec.Payload = new(strings.Repeat("é", 32768)) },
		"shortest and longest":            func(task *v1alpha1.LeasedTask) { task.Spec.Lease.DurationSeconds = 3600 },
		"a name of 253 characters":        func(task *v1alpha1.LeasedTask) { task.Name = strings.Repeat("a", 253) },
		"a name with dots":                func(task *v1alpha1.LeasedTask) { task.Name = "a.b-c." + strings.Repeat("d.", 100) + "e" },
		"a worker beside a named sidecar": sidecar,
		"ten conditions of 1024 bytes":    verifies(slices.Repeat([]v1alpha1.ResultCheck{{Expression: "raw != '" + strings.Repeat("é", 507) + "a'", Message: strings.Repeat("é", 128)}}, 10)...),
		"a key of a Secret":               fromSecret(strings.Repeat("a", 253), strings.Repeat("A_.-", 63)),
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			s := &scene{T: t, Cluster: s.Cluster, namespace: s.namespace}
			task := s.start("good", change)
			s.untilGranted(task, 1)
			if pod := s.untilPod(task); len(pod.Name) > 63 || strings.Contains(pod.Name, ".") {
				t.Errorf("Pod name %q", pod.Name)
			}
			s.ok(admin.Delete(t.Context(), task))
		})
	}
}

func sidecar(task *v1alpha1.LeasedTask) {
	task.Spec.WorkerContainer = "worker"
	task.Spec.Template.Spec.Containers = append(task.Spec.Template.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy"})
}

func TestCase40TheSpecIsImmutableAfterTheFirstGrantAndTheTimeToLiveIsNot(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("fixed")
	s.untilGranted(task, 1)
	tests := map[string]func(*v1alpha1.LeasedTaskSpec){
		"spec.template":        func(spec *v1alpha1.LeasedTaskSpec) { spec.Template.Spec.Containers[0].Image = "other" },
		"spec.startAfter":      func(spec *v1alpha1.LeasedTaskSpec) { spec.StartAfter = new(metav1.NewTime(time.Now())) },
		"spec.payload":         func(spec *v1alpha1.LeasedTaskSpec) { spec.Payload = new("new") },
		"spec.workerContainer": func(spec *v1alpha1.LeasedTaskSpec) { spec.WorkerContainer = "worker" },
		"spec.lease":           func(spec *v1alpha1.LeasedTaskSpec) { spec.Lease.DurationSeconds = 20 },
		"spec.timeouts":        func(spec *v1alpha1.LeasedTaskSpec) { spec.Timeouts.StartSeconds = 20 },
		"spec.payloadFrom": func(spec *v1alpha1.LeasedTaskSpec) {
			spec.PayloadFrom.SecretKeyRef = v1alpha1.PayloadKeyReference{Name: "a", Key: "b"}
		},
		"spec.verify":           func(spec *v1alpha1.LeasedTaskSpec) { spec.Verify = []v1alpha1.ResultCheck{{Expression: "true"}} },
		"spec.retry":            func(spec *v1alpha1.LeasedTaskSpec) { spec.Retry.MaxAttempts = 1 },
		"spec.stopGraceSeconds": func(spec *v1alpha1.LeasedTaskSpec) { spec.StopGraceSeconds = 7 },
	}
	givenUp := s.start("given-up", func(task *v1alpha1.LeasedTask) { task.Labels = map[string]string{handDriven: "true"} })
	for _, status := range []string{`{"status":{"phase":"Available"}}`, `{"status":{"deadLetterName":"dl"}}`} {
		s.ok(admin.Status().Patch(t.Context(), givenUp, client.RawPatch(types.MergePatchType, []byte(status))))
	}
	for path, change := range tests {
		for _, task := range []*v1alpha1.LeasedTask{task, givenUp} {
			next := task.DeepCopy()
			change(&next.Spec)
			err := admin.Patch(t.Context(), next, mergeFrom(task))
			if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "immutable after the first grant") {
				t.Errorf("%s of %s: %v", path, task.Name, err)
			}
		}
	}
	next := task.DeepCopy()
	next.Spec.TTLSecondsAfterFinished = new(int32(100))
	s.ok(admin.Patch(t.Context(), next, mergeFrom(task)))
}
