package replay

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// now is when every test decides.
var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

const payload = "{\"n\": 1.0}\n"

// given is a live snapshot of a dead letter, for one edit after another.
func given(edits ...func(*Snapshot)) *Snapshot {
	spec := v1alpha1.LeasedTaskSpec{
		Payload: new(payload),
		Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "main", Image: "example.com/app:1", Command: []string{"/app"}, Env: []corev1.EnvVar{{Name: "A", Value: "1"}}},
			{Name: "proxy", Image: "example.com/proxy:1"},
		}}},
		WorkerContainer: "main",
		Retry:           v1alpha1.RetrySpec{MaxAttempts: 2},
	}
	raw, err := json.Marshal(&spec)
	if err != nil {
		panic(err)
	}
	s := &Snapshot{Now: now, Live: true, DeadLetter: &v1alpha1.DeadLetter{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "order-0123456789", UID: "dead-1", Generation: 1},
		Spec: v1alpha1.DeadLetterSpec{
			Task:           v1alpha1.DeadLetterTask{Name: "order", UID: "uid-1", Spec: runtime.RawExtension{Raw: raw}},
			IdempotencyKey: "uid-1", Reason: "BudgetExceeded", FencingToken: 77,
		},
	}}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

// asks sets the request, as a user does.
func asks(request int64, edits ...func(*v1alpha1.ReplaySpec)) func(*Snapshot) {
	return func(s *Snapshot) {
		s.DeadLetter.Generation++
		s.DeadLetter.Spec.Replay = v1alpha1.ReplaySpec{Request: request}
		for _, edit := range edits {
			edit(&s.DeadLetter.Spec.Replay)
		}
	}
}

func withPayload(text string) func(*v1alpha1.ReplaySpec) {
	return func(r *v1alpha1.ReplaySpec) { r.Payload = &text }
}

func withPatch(text string) func(*v1alpha1.ReplaySpec) {
	return func(r *v1alpha1.ReplaySpec) { r.TemplatePatch = text }
}

// answered is a dead letter whose request was answered before.
func answered(request int64, outcome v1alpha1.ReplayOutcome) func(*Snapshot) {
	return func(s *Snapshot) {
		status := &s.DeadLetter.Status
		record := v1alpha1.ReplayRecord{Request: request, Outcome: outcome, Time: new(metav1.NewTime(now))}
		if outcome == v1alpha1.ReplayCreated {
			record.TaskName, record.TaskUID = "order-r", "task-1"
		} else {
			record.Message = "says the API server"
		}
		status.LastRequest, status.Replays = request, append(status.Replays, record)
	}
}

func says(answer Answer) func(*Snapshot) { return func(s *Snapshot) { s.Answer = &answer } }

func fromCache(s *Snapshot) { s.Live, s.DeadLetter.Spec.Task.Spec.Raw = false, nil }
