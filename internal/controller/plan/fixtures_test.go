package plan

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// start is when every test begins.
var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// newTask is a task that the controller has not seen yet.
func newTask() *v1alpha1.LeasedTask {
	return &v1alpha1.LeasedTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "task", UID: "uid-1", Generation: 1},
		Spec: v1alpha1.LeasedTaskSpec{Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "main", Image: "example.com/app:1", Command: []string{"/app"}}},
		}}},
	}
}

// stored is a status as the API server gives it back.
func stored(t interface{ Fatal(...any) }, status *v1alpha1.LeasedTaskStatus) (back v1alpha1.LeasedTaskStatus) {
	raw, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	return back
}
