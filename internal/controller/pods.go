package controller

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// createPod makes the Pod of the attempt on record. The name comes from that record, so the API server catches a second
// try. A refusal is an answer about the Pod; any other failure is an error.
func (r *Reconciler) createPod(ctx context.Context, task *v1alpha1.LeasedTask) (*plan.PodRefusal, error) {
	pod := plan.Pod(task, r.Agent)
	err := r.Client.Create(ctx, pod)
	switch {
	case err == nil:
		return nil, nil
	case apierrors.IsAlreadyExists(err):
		return r.takenBy(ctx, task, pod)
	case isNamespaceTerminating(err):
		return nil, err //nolint:wrapcheck // an outcome
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return &plan.PodRefusal{Kind: plan.RefusedInvalid, Message: err.Error()}, nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return &plan.PodRefusal{Kind: plan.RefusedQuota, Message: err.Error()}, nil
	case apierrors.IsForbidden(err):
		return &plan.PodRefusal{Kind: plan.RefusedPolicy, Message: err.Error()}, nil
	}
	return nil, fmt.Errorf("create Pod: %w", err)
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
	if metav1.IsControlledBy(found, task) && found.Annotations[v1alpha1.TokenAnnotation] == want.Annotations[v1alpha1.TokenAnnotation] {
		return nil, nil
	}
	return &plan.PodRefusal{Kind: plan.RefusedTaken, Message: "a Pod named " + want.Name + " exists"}, nil
}

func isNamespaceTerminating(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}
