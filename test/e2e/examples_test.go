package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/hack/image/archive"
	"github.com/leasehold-io/leasehold/hack/image/python"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/test/cluster"
)

const (
	bin      = "../../bin"
	examples = "../../worker/examples"
	// examplesImage holds the Go examples, and pythonImage stands in for the public image of that name; see their task.yaml.
	examplesImage = "leasehold/examples:dev"
	pythonImage   = "docker.io/library/python:3-slim"
)

// loadExamples builds the examples and loads their images, once. They are programs of another module: no code of theirs is in here.
var loadExamples = sync.OnceValue(func() error {
	var entries []archive.Entry
	for name, pkg := range map[string]string{"rows": "./examples/go", "ship": "./examples/shipment/ship", "carrier": "./examples/shipment/carrier"} {
		out, err := filepath.Abs(filepath.Join(bin, "examples-"+name))
		if err != nil {
			return err
		}
		build := exec.Command("go", "build", "-C", "../../worker", "-ldflags=-s -w", "-o", out, pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if printed, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w: %s", pkg, err, printed)
		}
		content, err := os.ReadFile(out)
		if err != nil {
			return err
		}
		entries = append(entries, archive.File("/"+name, 0o755, content))
	}
	if err := archive.Write(filepath.Join(bin, "examples.tar"), archive.Spec{Tag: examplesImage, Entries: entries, Cmd: []string{"/rows"}}); err != nil {
		return err
	}
	ctx, cancel := contextOf(10 * time.Minute)
	defer cancel()
	spec, err := python.Spec(ctx, os.Stderr, pythonImage)
	if err != nil {
		return err
	}
	if err := archive.Write(filepath.Join(bin, "python.tar"), spec); err != nil {
		return err
	}
	_, err = shared.Localcluster(ctx, "load", "bin/examples.tar", "bin/python.tar")
	return err
})

// example makes the task of a task.yaml, with its name and payload, the shortest lease and next to no back-off.
func (s *story) example(language, name, payload string, change ...func(*v1alpha1.LeasedTask)) *v1alpha1.LeasedTask {
	s.Helper()
	s.ok(loadExamples())
	text, err := os.ReadFile(filepath.Join(examples, language, "task.yaml"))
	s.ok(err)
	task := &v1alpha1.LeasedTask{}
	s.ok(yaml.UnmarshalStrict(text, task))
	task.Namespace, task.Name, task.Spec.Payload = s.namespace, name, &payload
	quick := cluster.Task("", "", "").Spec
	task.Spec.Lease, task.Spec.Retry, task.Spec.StopGraceSeconds = quick.Lease, quick.Retry, quick.StopGraceSeconds
	for _, c := range change {
		c(task)
	}
	s.ok(s.Create(s.ctx, task))
	return task
}

// script makes the ConfigMap that a task.yaml mounts, as its first line says.
func (s *story) script(language, file string) {
	s.Helper()
	content, err := os.ReadFile(filepath.Join(examples, language, file))
	s.ok(err)
	s.ok(s.Create(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "rows-" + language},
		Data: map[string]string{file: string(content)}}))
}

func TestAGoWorkerGoesOnFromItsCheckpointAndStopsWhenItIsToldTo(t *testing.T) {
	s := tell(t, sideBySide)
	s.mustBeAGoodWorker("go")
}

func TestAPythonWorkerGoesOnFromItsCheckpointAndStopsWhenItIsToldTo(t *testing.T) {
	s := tell(t, sideBySide)
	s.script("python", "worker.py")
	s.mustBeAGoodWorker("python")
}

func TestAShellWorkerGoesOnFromItsCheckpointAndStopsWhenItIsToldTo(t *testing.T) {
	s := tell(t, sideBySide)
	s.script("shell", "worker.sh")
	s.mustBeAGoodWorker("shell")
}

// mustBeAGoodWorker tells the life of three tasks: one whose Pod is taken away, one that is cancelled, and one whose payload is wrong.
func (s *story) mustBeAGoodWorker(language string) {
	s.Helper()
	moved := s.example(language, "moved", `{"rows": 60}`)
	cancelled := s.example(language, "cancelled", `{"rows": 100000}`, func(task *v1alpha1.LeasedTask) { task.Spec.StopGraceSeconds = 60 })
	wrong := s.example(language, "wrong", `{"rows": "many"}`)

	s.untilProgress(moved)
	at := *moved.Status.Progress.Current
	s.ok(s.Delete(s.ctx, s.holder(moved)))

	dead := s.deadLetterOf(wrong)
	end := wrong.Status.History[0]
	s.must(dead.Spec.Reason == v1alpha1.ReasonNotRetryable && len(wrong.Status.History) == 1, "dead letter %+v", dead.Spec)
	s.must(end.Reason == "PayloadInvalid" && end.Effect == v1alpha1.EffectNone && *end.ExitCode == 65 && end.Message != "", "history %+v", end)

	s.untilProgress(cancelled)
	s.cancel(cancelled)
	s.mustBeCancelled(cancelled, v1alpha1.EvidenceSubmission)
	end = cancelled.Status.History[0]
	s.must(*end.ExitCode == 143 && strings.Contains(end.Message, "no longer needed"), "it did not stop by itself: %+v", end)
	logs := s.kubectl("logs", "-n", s.namespace, end.PodName, "-c", "worker")
	_, told, _ := strings.Cut(logs, "told to stop: ")
	s.must(strings.HasPrefix(told, "Cancelled") && strings.Contains(told, "no longer needed"), "its log: %s", logs)

	s.untilFinished(moved)
	st := moved.Status
	s.must(st.Phase == v1alpha1.PhaseCompleted && st.Disruptions == 1 && st.Failures == 0 && st.History[0].Reason == plan.ReasonPodDeleted,
		"task %s", cluster.Describe(moved))
	var result struct{ Rows, From int64 }
	s.ok(json.Unmarshal([]byte(*st.Result), &result))
	s.must(result.Rows == 60 && result.From >= at && result.From < 60, "result %s after progress %d", *st.Result, at)
}

func (s *story) untilProgress(task *v1alpha1.LeasedTask) {
	s.Helper()
	s.ok(s.Until(s.ctx, task, patience, "shown with progress", func(task *v1alpha1.LeasedTask) bool {
		return task.Status.Progress.Current != nil && *task.Status.Progress.Current > 0 && task.Status.Progress.Total > 0
	}))
}
