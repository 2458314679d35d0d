package controller

import (
	"context"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// createDeadLetter makes the dead letter of a task. Its name follows from the task's UID, so that one which an earlier pass, or
// another controller, has made is found and taken for what it is. A refusal is an answer, and is put on the task's status; it
// is not asked for again for a while, whatever causes passes meanwhile. Any other failure is an error.
func (r *Reconciler) createDeadLetter(ctx context.Context, task *v1alpha1.LeasedTask, dead *v1alpha1.DeadLetter) (string, error) {
	if refusal, isRecent := r.unburied.recent(task, r.Clock.Now()); isRecent {
		return refusal, nil
	}
	if err := r.requireNamespace(ctx, task.Namespace); err != nil {
		return "", err
	}
	err := r.Client.Create(ctx, dead)
	refusal := ""
	switch {
	case err == nil:
		return "", nil
	case apierrors.IsAlreadyExists(err):
		if refusal, err = r.deadLetterInTheWay(ctx, dead); err != nil || refusal == "" {
			return "", err
		}
	case isRefusal(err):
		refusal = err.Error()
	case isNamespaceTerminating(err):
		return "", err
	default:
		return "", fmt.Errorf("create DeadLetter: %w", err)
	}
	r.unburied.remember(task, refusal, r.Clock.Now())
	return refusal, nil
}

// deadLetterInTheWay reads the dead letter that has the name already. It is the task's own if it names the task's UID; then
// nothing is in the way, and dead becomes what stands.
func (r *Reconciler) deadLetterInTheWay(ctx context.Context, dead *v1alpha1.DeadLetter) (string, error) {
	found := &v1alpha1.DeadLetter{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(dead), found); err != nil {
		if apierrors.IsNotFound(err) {
			return "", lostError{fmt.Errorf("get DeadLetter: %w", err)} // it was there a moment ago
		}
		return "", fmt.Errorf("get DeadLetter: %w", err)
	}
	if found.Spec.Task.UID != dead.Spec.Task.UID {
		return fmt.Sprintf("DeadLetter %s exists and keeps another task, of UID %s: delete it", found.Name, found.Spec.Task.UID), nil
	}
	*dead = *found
	return "", nil
}

// requireNamespace keeps us from writing into a namespace that is going away: what would be kept there goes with it.
func (r *Reconciler) requireNamespace(ctx context.Context, name string) error {
	ns := &corev1.Namespace{}
	if err := r.Live.Get(ctx, types.NamespacedName{Name: name}, ns); err != nil {
		return fmt.Errorf("get Namespace: %w", err)
	}
	if ns.DeletionTimestamp != nil {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), name)
	}
	return nil
}

// isRefusal reports whether an error is the word of the API server, or of a webhook, on an object, and not the want of one. That
// the kind is not installed is one, too.
func isRefusal(err error) bool {
	switch codeOf(err) {
	case 0:
		return meta.IsNoMatchError(err)
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return !isNamespaceTerminating(err) && !apierrors.IsServerTimeout(err)
}

// codeOf is the HTTP code of an answer; 0: there was none.
func codeOf(err error) int {
	if status, ok := err.(apierrors.APIStatus); ok {
		return int(status.Status().Code)
	}
	return 0
}
