package controller

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// tasksHeldByQueue is the cache's index of tasks that a change of their queue's spec may put right, by the name of the queue.
const tasksHeldByQueue = "heldByQueue"

func indexHeld(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha1.LeasedTask{}, tasksHeldByQueue, queueThatHolds); err != nil {
		return fmt.Errorf("index tasks by what their queue lacks: %w", err)
	}
	return nil
}

// queueThatHolds is the queue of a task that waits for a queue, or for a spec, that makes sense with it. All others take what their
// queue gives when their turn has come, and a change of it costs them nothing.
func queueThatHolds(o client.Object) []string {
	task, ok := o.(*v1alpha1.LeasedTask)
	if !ok || task.Spec.QueueName == "" || task.Status.Phase != v1alpha1.PhaseAvailable {
		return nil
	}
	w := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionWaiting)
	if w == nil || w.Reason != v1alpha1.WaitingSpecInvalid && w.Reason != v1alpha1.WaitingQueueMissing {
		return nil
	}
	return []string{task.Spec.QueueName}
}

// heldBy asks for a pass over the tasks that may have waited for this change of a queue.
func (r *Reconciler) heldBy(ctx context.Context, queue client.Object) (requests []reconcile.Request) {
	list := &v1alpha1.LeasedTaskList{}
	err := r.Client.List(ctx, list, client.InNamespace(queue.GetNamespace()), client.MatchingFields{tasksHeldByQueue: queue.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not list the tasks that wait for a queue", "queue", queue.GetName())
	}
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
