package plan

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// TestCase12PodNameIsALabel: whatever name the API takes for a task, its Pods' names are DNS labels that name attempt and suffix.
func TestCase12PodNameIsALabel(t *testing.T) {
	suffixes := rapid.StringMatching(`[bcdfghjklmnpqrstvwxz2456789]{6}`)
	rapid.Check(t, func(t *rapid.T) {
		task := drawName(t)
		attempt := rapid.Int32Range(1, 1<<31-1).Draw(t, "attempt")
		suffix := suffixes.Draw(t, "suffix")
		name := PodName(task, attempt, suffix)
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			t.Fatalf("Pod name %q: %v", name, problems)
		}
		if !strings.HasSuffix(name, fmt.Sprintf("-%d-%s", attempt, suffix)) {
			t.Fatalf("Pod name %q of attempt %d, suffix %s", name, attempt, suffix)
		}
		otherTask, otherAttempt, otherSuffix := drawName(t), rapid.Int32Range(1, 100).Draw(t, "other attempt"), suffixes.Draw(t, "other suffix")
		if other := PodName(otherTask, otherAttempt, otherSuffix); other == name && (otherSuffix != suffix || otherAttempt != attempt) {
			t.Fatalf("attempts %d and %d have one Pod name, %s", attempt, otherAttempt, name)
		}
	})
}

// drawName draws a name that the API takes: a DNS subdomain of up to 253 characters.
func drawName(t *rapid.T) string {
	name := rapid.OneOf(
		rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,3}`),
		rapid.StringMatching(`[a-z]-{1,60}[a-z]`),
		rapid.Just(strings.Repeat("a", 253)),
		rapid.Just(strings.Repeat("a.", 126)+"a"),
	).Draw(t, "name")
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		t.Skip("no name of an object")
	}
	return name
}

// fullTask has something of everything that rendering touches.
func fullTask() *v1alpha1.LeasedTask {
	task := newTask()
	task.Name = "report.2026"
	task.Spec.Payload = new(`{"price":"$(HOME) ü"}`)
	task.Spec.WorkerContainer = "main"
	task.Spec.StopGraceSeconds = 20
	task.Spec.Template.ObjectMeta = metav1.ObjectMeta{
		Name: "ignored", GenerateName: "ignored-", Finalizers: []string{"example.com/kept"},
		Labels:      map[string]string{"app": "report", v1alpha1.TaskLabel: "forged"},
		Annotations: map[string]string{"note": "kept", v1alpha1.TokenAnnotation: "forged"},
	}
	task.Spec.Template.Spec = corev1.PodSpec{
		ServiceAccountName: "worker",
		ImagePullSecrets:   []corev1.LocalObjectReference{{Name: "mine"}},
		Volumes:            []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		InitContainers:     []corev1.Container{{Name: "init", Image: "init:1"}},
		Containers: []corev1.Container{
			{Name: "sidecar", Image: "sidecar:1", Args: []string{"serve"}},
			{Name: "main", Image: "app:1", Command: []string{"/app", "run"}, Args: []string{"--token=$(LEASEHOLD_FENCING_TOKEN)"},
				Env:          []corev1.EnvVar{{Name: "LEASEHOLD_TASK", Value: "forged"}, {Name: "MODE", Value: "fast"}},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				Resources:    corev1.ResourceRequirements{Requests: amounts("cpu", "100m"), Limits: amounts("memory", "64Mi", "example.com/gpu", "1")}},
		},
	}
	task.Status = v1alpha1.LeasedTaskStatus{Phase: v1alpha1.PhaseClaimed, Attempt: 2, FencingToken: token,
		Holder: v1alpha1.Holder{PodName: "report-2026-2-xyz"}, LeaseName: "lh-0123456789abcdef"}
	return task
}

// TestPodGolden compares a rendered Pod with testdata/pod.yaml. UPDATE_GOLDEN=1 rewrites the file.
func TestPodGolden(t *testing.T) {
	task := fullTask()
	before := task.DeepCopy()
	pod := Pod(task, AgentImage{Name: "agent@sha256:0", PullPolicy: corev1.PullIfNotPresent, PullSecrets: []corev1.LocalObjectReference{{Name: "agent"}}})
	if diff := cmp.Diff(before, task); diff != "" {
		t.Errorf("rendering changed the task:\n%s", diff)
	}
	got, err := yaml.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/pod.yaml"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("Pod (-want +got):\n%s", diff)
	}
}

// TestPodSharesNothingWithTheTemplate: writing to a rendered Pod never reaches the cached task.
func TestPodSharesNothingWithTheTemplate(t *testing.T) {
	task := fullTask()
	before := task.DeepCopy()
	pod := Pod(task, AgentImage{Name: "agent"})
	pod.Labels["x"], pod.Annotations["x"] = "y", "y"
	for _, c := range pod.Spec.Containers {
		for i := range c.Command {
			c.Command[i] = "changed"
		}
		for i := range c.Args {
			c.Args[i] = "changed"
		}
		for i := range c.Env {
			c.Env[i].Value = "changed"
		}
	}
	if diff := cmp.Diff(before, task); diff != "" {
		t.Errorf("the task changed:\n%s", diff)
	}
}

// TestOnlyWorkerIsWrapped: the agent starts the worker container's command, with its arguments, and nobody else's.
func TestOnlyWorkerIsWrapped(t *testing.T) {
	pod := Pod(fullTask(), AgentImage{Name: "agent"})
	sidecar, worker := pod.Spec.Containers[0], pod.Spec.Containers[1]
	want := corev1.Container{Name: "sidecar", Image: "sidecar:1", Args: []string{"serve"}}
	if diff := cmp.Diff(want, sidecar); diff != "" {
		t.Errorf("sidecar (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/leasehold/bin/agent", "--", "/app", "run"}, worker.Command); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	last := map[string]string{}
	for _, e := range worker.Env {
		last[e.Name] = e.Value // the kubelet takes the last one
	}
	if last["LEASEHOLD_TASK"] != "report.2026" || last["MODE"] != "fast" {
		t.Errorf("environment %v", last)
	}
}

// TestEmptyPayload: a task without a payload has an empty file, which needs the annotation all the same.
func TestEmptyPayload(t *testing.T) {
	task := fullTask()
	task.Spec.Payload = nil
	if payload, ok := Pod(task, AgentImage{}).Annotations[v1alpha1.PayloadAnnotation]; !ok || payload != "" {
		t.Errorf("payload annotation %q, present: %t", payload, ok)
	}
}

// TestCase10InjectedPartsAreRestricted: what the operator adds satisfies PodSecurity "restricted" by itself, without help from the
// template. The rules are those of the Pod Security Standards, spelled out.
func TestCase10InjectedPartsAreRestricted(t *testing.T) {
	template := newTask()
	pod := Pod(withStatus(template), AgentImage{Name: "agent"})
	c := pod.Spec.InitContainers[0]
	sc := c.SecurityContext
	switch {
	case sc == nil || sc.Privileged != nil && *sc.Privileged:
		t.Error("privileged, or no security context")
	case sc.AllowPrivilegeEscalation == nil || *sc.AllowPrivilegeEscalation:
		t.Error("allowPrivilegeEscalation must be false")
	case sc.RunAsNonRoot == nil || !*sc.RunAsNonRoot:
		t.Error("runAsNonRoot must be true")
	case sc.RunAsUser != nil && *sc.RunAsUser == 0:
		t.Error("runAsUser must not be 0")
	case sc.SeccompProfile == nil || sc.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault:
		t.Error("seccompProfile must be RuntimeDefault")
	case sc.Capabilities == nil || len(sc.Capabilities.Add) > 0 || cmp.Diff([]corev1.Capability{"ALL"}, sc.Capabilities.Drop) != "":
		t.Error("capabilities must drop ALL and add none")
	}
	if len(c.Ports) > 0 {
		t.Errorf("ports %v", c.Ports)
	}
	for _, v := range pod.Spec.Volumes {
		if v.EmptyDir == nil && v.DownwardAPI == nil && v.Projected == nil {
			t.Errorf("volume %s is of a kind that restricted forbids", v.Name)
		}
	}
	if w := pod.Spec.Containers[0]; w.SecurityContext != nil {
		t.Errorf("the worker's own security context was changed: %+v", w.SecurityContext)
	}
	if pod.Spec.HostNetwork || pod.Spec.HostPID || pod.Spec.HostIPC || pod.Spec.SecurityContext != nil {
		t.Error("the Pod's own security settings were changed")
	}
}

func withStatus(task *v1alpha1.LeasedTask) *v1alpha1.LeasedTask {
	task.Status = fullTask().Status
	return task
}

// TestEscape: the kubelet's expansion gives the value back, whatever it holds.
func TestEscape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`([$]|[(]|[)]|A|-){0,12}`).Draw(t, "value")
		if got := expand(escape(value)); got != value {
			t.Fatalf("%q arrives as %q", value, got)
		}
	})
}

// expand is the kubelet's expansion of an environment variable's value, as the API documents it: $(NAME) is a reference, $$ is
// a single $, any other $ stands for itself. Here every reference expands to "EXPANDED".
func expand(value string) string {
	var out strings.Builder
	for i := 0; i < len(value); i++ {
		if value[i] != '$' || i+1 == len(value) {
			out.WriteByte(value[i])
			continue
		}
		switch next := value[i+1]; next {
		case '$':
			out.WriteByte('$')
			i++
		case '(':
			end := strings.IndexByte(value[i:], ')')
			if end < 0 {
				out.WriteString("$(")
				i++
				continue
			}
			out.WriteString("EXPANDED")
			i += end
		default:
			out.WriteByte('$')
			out.WriteByte(next)
			i++
		}
	}
	return out.String()
}
