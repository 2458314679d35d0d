package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/yaml"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// Task renders the task that the dead letter's request makes. It has no owner: deleting the dead letter leaves it be. The
// ancestor's labels and annotations are not on it, because tools own objects by them.
func Task(dead *v1alpha1.DeadLetter) (*v1alpha1.LeasedTask, error) {
	replay := &dead.Spec.Replay
	spec := v1alpha1.LeasedTaskSpec{}
	if err := decode(dead.Spec.Task.Spec.Raw, &spec); err != nil {
		return nil, fmt.Errorf("spec.task.spec: %w", err)
	}
	if replay.Payload != nil {
		spec.Payload, spec.PayloadFrom = replay.Payload, v1alpha1.PayloadSource{}
	}
	if replay.TemplatePatch != "" {
		template, err := patched(spec.Template, replay.TemplatePatch)
		if err != nil {
			return nil, fmt.Errorf("spec.replay.templatePatch: %w", err)
		}
		spec.Template = template
	}
	spec.ReplayOf = v1alpha1.ReplayOf{
		DeadLetterName: dead.Name,
		DeadLetterUID:  string(dead.UID),
		Request:        replay.Request,
		IdempotencyKey: dead.Spec.IdempotencyKey,
	}
	name := plan.Name(dead.Spec.Task.Name, fmt.Sprintf("-r%d-%s", replay.Request, plan.ShortHash(string(dead.UID))))
	return &v1alpha1.LeasedTask{ObjectMeta: metav1.ObjectMeta{Namespace: dead.Namespace, Name: name}, Spec: spec}, nil
}

// IsReplay reports whether a task is the one that the dead letter's request makes, or has made.
func IsReplay(task *v1alpha1.LeasedTask, dead *v1alpha1.DeadLetter) bool {
	of := &task.Spec.ReplayOf
	return of.DeadLetterUID == string(dead.UID) && of.Request == dead.Spec.Replay.Request
}

// patched is a template with a strategic merge patch applied. A merge patch would be simpler and worse: it replaces lists, so
// that a new image for one container would need a copy of all of them, and what the copy forgot would be gone.
func patched(template *corev1.PodTemplateSpec, patch string) (*corev1.PodTemplateSpec, error) {
	change, err := yaml.ToJSON([]byte(patch))
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(cmp.Or(template, &corev1.PodTemplateSpec{}))
	if err != nil {
		return nil, err
	}
	after, err := strategicpatch.StrategicMergePatch(before, change, corev1.PodTemplateSpec{})
	if err != nil {
		return nil, err
	}
	next := &corev1.PodTemplateSpec{}
	return next, decode(after, next)
}

// decode is strict: what this program does not know it would drop, and the replay would not be what was asked for.
func decode(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
