package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// sourceOf is what the task's queue gives it. Once that is on record it never changes, and a cache is as good as the API server
// if it has it; before, it is what the queue says now.
func (r *Reconciler) sourceOf(ctx context.Context, task *v1alpha1.LeasedTask, queue *v1alpha1.TaskQueue) (plan.Source, error) {
	switch {
	case task.Spec.QueueName == "" || !plan.IsSpecOpen(&task.Status):
		return sourceOnRecord(ctx, r.Client, r.Live, task)
	case queue == nil:
		return plan.Source{IsMissing: true}, nil
	}
	return plan.Source{Given: plan.GivenBy(&queue.Spec)}, nil
}

// sourceOnRecord is what the task's queue gave it, from a cache if that has it.
func sourceOnRecord(ctx context.Context, cached, live client.Reader, task *v1alpha1.LeasedTask) (plan.Source, error) {
	if task.Status.QueueRevision == "" {
		return plan.Source{}, nil
	}
	given, err := readRevision(ctx, cached, task)
	if given == nil && err == nil {
		given, err = readRevision(ctx, live, task)
	}
	return plan.Source{Given: given, IsLost: given == nil}, err
}

// readRevision reads what is on record as what the queue gave the task; nil: it is not there.
func readRevision(ctx context.Context, from client.Reader, task *v1alpha1.LeasedTask) (*v1alpha1.TaskQueueSpec, error) {
	revision := &appsv1.ControllerRevision{}
	err := from.Get(ctx, types.NamespacedName{Namespace: task.Namespace, Name: task.Status.QueueRevision}, revision)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get ControllerRevision: %w", err)
	}
	given := &v1alpha1.TaskQueueSpec{}
	if err := json.Unmarshal(revision.Data.Raw, given); err != nil {
		return nil, fmt.Errorf("decode ControllerRevision %s: %w", revision.Name, err)
	}
	return given, nil
}

// keepRevision makes sure that what the queue gives the task is kept, and stays. It has no owner: it outlives the queue, and is deleted
// once no task needs it; see RevisionKeeper. A refusal is an answer, and is put on the task's status; it is not asked for again for a while.
func (r *Reconciler) keepRevision(ctx context.Context, task *v1alpha1.LeasedTask, want *plan.Revision) (refusal string, err error) {
	if refusal, isRecent := r.unkept.recent(task, r.Clock.Now()); isRecent {
		return refusal, nil
	}
	revision := revisionOf(task, want)
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(revision), revision)
	if apierrors.IsNotFound(err) {
		revision = revisionOf(task, want)
		if err = r.Client.Create(ctx, revision); apierrors.IsAlreadyExists(err) { // made a moment ago, or without our label
			err = r.Live.Get(ctx, client.ObjectKeyFromObject(revision), revision)
		}
	}
	isOther := err == nil && !isSame(revision.Data.Raw, want.Data)
	if err == nil && !isOther {
		err = r.reclaim(ctx, revision)
	}
	switch {
	case isOther:
		refusal = fmt.Sprintf("ControllerRevision %s exists and says something else: delete it", want.Name)
	case err == nil:
		return "", nil
	case isNamespaceTerminating(err), apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return "", lostError{fmt.Errorf("keep ControllerRevision: %w", err)}
	case isRefusal(err):
		refusal = err.Error()
	default:
		return "", fmt.Errorf("keep ControllerRevision: %w", err)
	}
	r.unkept.remember(task, refusal, r.Clock.Now())
	return refusal, nil
}

// reclaim takes back that a revision is about to be deleted. Whoever deletes it, and has not seen that, is refused by the API server.
func (r *Reconciler) reclaim(ctx context.Context, revision *appsv1.ControllerRevision) error {
	if !isRetiring(revision) {
		return nil
	}
	next := revision.DeepCopy()
	delete(next.Annotations, v1alpha1.RetiringAnnotation)
	return r.Client.Patch(ctx, next, client.MergeFromWithOptions(revision, client.MergeFromWithOptimisticLock{}))
}

func isRetiring(revision *appsv1.ControllerRevision) bool {
	return revision.Annotations[v1alpha1.RetiringAnnotation] != ""
}

// revisionOf renders what is kept.
func revisionOf(task *v1alpha1.LeasedTask, r *plan.Revision) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   task.Namespace,
			Name:        r.Name,
			Labels:      map[string]string{v1alpha1.QueueLabel: plan.Name(task.Spec.QueueName, "")},
			Annotations: map[string]string{v1alpha1.QueueNameAnnotation: task.Spec.QueueName},
		},
		Data:     runtime.RawExtension{Raw: r.Data},
		Revision: 1, // required; the order is of no interest
	}
}

// isSame reports whether two documents differ at most in how they were written down on their way.
func isSame(a, b []byte) bool {
	var left, right bytes.Buffer
	return json.Compact(&left, a) == nil && json.Compact(&right, b) == nil && bytes.Equal(left.Bytes(), right.Bytes())
}
