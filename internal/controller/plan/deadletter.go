package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// deadLetter renders the DeadLetter of a task whose last attempt is on record. It is made from spec, status and what its queue gave alone, so
// that whoever makes it again, after a crash say, makes the same. It has no owner: it outlives the task.
func (s *Snapshot) deadLetter() *v1alpha1.DeadLetter {
	task, status := s.Task, s.Task.Status.DeepCopy()
	reason, message := s.deadLetterCause(status)
	spec, without := s.kept()
	if without != "" {
		message = fencing.Truncate(message, 700) + "; " + without
	}
	fingerprint := Fingerprint(task.Name, decisive(status))
	return &v1alpha1.DeadLetter{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   task.Namespace,
			Name:        deadLetterName(task),
			Labels:      map[string]string{v1alpha1.TaskLabel: string(task.UID), v1alpha1.FingerprintLabel: fingerprint},
			Annotations: map[string]string{v1alpha1.TaskNameAnnotation: task.Name},
		},
		Spec: v1alpha1.DeadLetterSpec{
			Task:           v1alpha1.DeadLetterTask{Name: task.Name, UID: string(task.UID), Spec: runtime.RawExtension{Raw: encode(spec.DeepCopy())}},
			IdempotencyKey: task.IdempotencyKey(),
			Reason:         reason,
			Message:        fencing.Truncate(message, 1024),
			Fingerprint:    fingerprint,
			Attempts:       status.Attempt,
			Failures:       status.Failures,
			Disruptions:    status.Disruptions,
			FencingToken:   status.FencingToken,
			History:        status.History,
		},
	}
}

// kept is the spec that a dead letter keeps, so that a replay runs by the same. Where that cannot be, it is what the task said itself, and
// without says, for people, what a replay is made of instead.
func (s *Snapshot) kept() (spec *v1alpha1.LeasedTaskSpec, without string) {
	switch {
	case s.Source.IsLost:
		without = goneRevision(s.Task)
	case s.Source.Given != nil && sizeWithoutPayload(s.Task.Spec) > maxSpec-maxPayload: // it was never granted: see problem
		without = fmt.Sprintf("with what TaskQueue %s gave the task, its spec is too large to be kept", s.Task.Spec.QueueName)
	default:
		return &s.Task.Spec, ""
	}
	own := s.Source.Own
	without += "; this is the task's own spec alone"
	if own.Template == nil {
		return &own, without + ", and a replay takes the rest from the queue as it is then"
	}
	if own.OnLostAttempt == "" && s.Task.Spec.OnLost() != v1alpha1.LostAttemptRetry { // a replay does not make at least once of what may have been at most once
		own.OnLostAttempt = v1alpha1.LostAttemptDeadLetter
		without += ", with onLostAttempt DeadLetter"
	}
	return &own, without + ", and a replay takes the rest from the defaults of the fields"
}

func deadLetterName(task *v1alpha1.LeasedTask) string {
	return DeadLetterName(task.Name, string(task.UID))
}

// DeadLetterName is the name of the dead letter of a task, should it have one.
func DeadLetterName(task, uid string) string { return Name(task, "-"+ShortHash(uid)) }

// encode is a spec as JSON, without what was asked of the one task: a replay is neither suspended nor cancelled with it.
func encode(spec *v1alpha1.LeasedTaskSpec) []byte {
	spec.Suspend, spec.Cancel = nil, v1alpha1.CancelSpec{}
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("a spec that was decoded from JSON cannot fail to encode: %v", err)) // programming error
	}
	return raw
}

// ShortHash is the tail of a name that belongs to a UID: 10 hex digits.
func ShortHash(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return hex.EncodeToString(sum[:5])
}
