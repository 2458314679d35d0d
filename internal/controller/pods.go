package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// createPod makes the Pod of the attempt on record. The name comes from that record, so the API server catches a second
// try. A refusal is an answer about the Pod; any other failure is an error. After a refusal the Pod is not tried again for
// a while, whatever causes passes meanwhile: a refusal whose text differs each time would otherwise cause them itself.
func (r *Reconciler) createPod(ctx context.Context, s *plan.Snapshot) (*plan.PodRefusal, error) {
	task := s.Task
	if s.Source.IsLost {
		return &plan.PodRefusal{Kind: plan.RefusedError, Message: plan.LostRevision(task)}, nil
	}
	pod := plan.Pod(task, r.Agent)
	if refusal, isRecent := r.refused.recent(task, r.Clock.Now()); isRecent {
		return refusal, nil
	}
	err := r.Client.Create(ctx, pod)
	if err == nil {
		return nil, nil
	}
	if apierrors.IsAlreadyExists(err) {
		return r.takenBy(ctx, task, pod)
	}
	kind, isRefusal := refusalKind(err)
	if !isRefusal {
		return nil, fmt.Errorf("create Pod: %w", err)
	}
	refusal := &plan.PodRefusal{Kind: kind, Message: err.Error()}
	r.refused.remember(task, refusal, r.Clock.Now())
	return refusal, nil
}

// refusalKind reads the answer to a Pod's creation. An admission plugin may answer with any code, so its words come first.
func refusalKind(err error) (plan.RefusalKind, bool) {
	isDenied := strings.Contains(err.Error(), "denied the request") || strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
	switch {
	case isNamespaceTerminating(err):
		return "", false
	case isDenied:
		return plan.RefusedPolicy, true
	case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
		return plan.RefusedInvalid, true
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return plan.RefusedQuota, true
	case apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		return plan.RefusedPolicy, true
	case apierrors.IsInternalError(err):
		return plan.RefusedError, true
	}
	return "", false
}

// takenBy tells our own Pod, made by an earlier pass, from somebody else's of the same name.
func (r *Reconciler) takenBy(ctx context.Context, task *v1alpha1.LeasedTask, want *corev1.Pod) (*plan.PodRefusal, error) {
	found := &corev1.Pod{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(want), found); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, lostError{fmt.Errorf("get Pod: %w", err)} // it was there a moment ago
		}
		return nil, fmt.Errorf("get Pod: %w", err)
	}
	isVisible := found.Labels[v1alpha1.TaskLabel] == string(task.UID) // else the cache would never show it
	if isVisible && metav1.IsControlledBy(found, task) && found.Annotations[v1alpha1.TokenAnnotation] == want.Annotations[v1alpha1.TokenAnnotation] {
		return nil, nil
	}
	return &plan.PodRefusal{Kind: plan.RefusedTaken, Message: "a Pod named " + want.Name + " exists"}, nil
}

func isNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// refusals remembers what the API server last refused to make for each task's attempt, for as long as it is not tried again.
type refusals[T any] struct{ memory[refused[T]] }

type refused[T any] struct {
	pod     string
	at      time.Time
	refusal T
}

// recent is the refusal of what the attempt needs, if it is too young to try again.
func (r *refusals[T]) recent(task *v1alpha1.LeasedTask, now time.Time) (refusal T, isRecent bool) {
	last, isKnown := r.get(client.ObjectKeyFromObject(task))
	if !isKnown || last.pod != task.Status.Holder.PodName || now.Sub(last.at) >= plan.RefusedRetry {
		return refusal, false
	}
	return last.refusal, true
}

func (r *refusals[T]) remember(task *v1alpha1.LeasedTask, refusal T, now time.Time) {
	r.keep(client.ObjectKeyFromObject(task), refused[T]{task.Status.Holder.PodName, now, refusal})
}
