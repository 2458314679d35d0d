package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

const (
	// tasksByQueue is the cache's index of unfinished tasks by the name of their TaskQueue.
	tasksByQueue = "queue"
	// wakePace is the time between two tasks that a changed TaskQueue asks to say anew what they wait for: thousands of them may have
	// to be written.
	wakePace = 10 * time.Millisecond
)

// setup registers the watches.
func (k *QueueKeeper) setup(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		Named("queue").
		For(&v1alpha1.TaskQueue{}).
		WatchesRawSource(source.Func(k.listen)).
		WithOptions(controller.Options{MaxConcurrentReconciles: queuesAtOnce}).
		Complete(k)
	if err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}
	return nil
}

// listen asks for a pass over a TaskQueue in which something has changed.
func (k *QueueKeeper) listen(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	k.Turns.TellWith(func(name types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: name}) })
	return nil
}

func indexQueued(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha1.LeasedTask{}, tasksByQueue, queueWanted); err != nil {
		return fmt.Errorf("index tasks by queue: %w", err)
	}
	return nil
}

func queueWanted(o client.Object) []string {
	task, ok := o.(*v1alpha1.LeasedTask)
	if !ok || task.Status.Phase.IsFinished() || task.Spec.QueueName == "" {
		return nil
	}
	return []string{task.Spec.QueueName}
}

// wakeQueued asks for passes over the tasks of a TaskQueue that has come, gone, or changed: what they wait for is another thing, or
// those that run are to stop. Tasks whose turn comes by it are woken by the queue itself.
func (r *Reconciler) wakeQueued() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if !e.IsInInitialList { // all tasks are looked at then
				r.wakeTasksOf(ctx, e.Object, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.wakeTasksOf(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				r.wakeTasksOf(ctx, e.ObjectNew, q)
			}
		},
	}
}

// wakeTasksOf asks for a pass over each task of a TaskQueue: those that run at once, the others one after the other, oldest first.
func (r *Reconciler) wakeTasksOf(ctx context.Context, tq client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	list := &v1alpha1.LeasedTaskList{}
	err := r.Client.List(ctx, list, client.InNamespace(tq.GetNamespace()), client.MatchingFields{tasksByQueue: tq.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not list the tasks of a queue", "queue", tq.GetName())
		return
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.LeasedTask) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	waiting := time.Duration(0)
	for i := range list.Items {
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}
		if plan.HoldsPlace(&list.Items[i].Status) {
			q.Add(request)
			continue
		}
		q.AddAfter(request, waiting*wakePace)
		waiting++
	}
}
