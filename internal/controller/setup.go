package controller

import (
	"context"
	"errors"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// setup registers the watches. concurrency is the number of tasks worked on at the same time.
func (r *Reconciler) setup(ctx context.Context, mgr ctrl.Manager, concurrency int) error {
	index := mgr.GetFieldIndexer()
	if err := errors.Join(IndexPods(ctx, index), indexWaiters(ctx, index), indexQueued(ctx, index)); err != nil {
		return err
	}
	leases, err := mgr.GetCache().GetInformer(ctx, &coordinationv1.Lease{})
	if err != nil {
		return fmt.Errorf("watch Leases: %w", err)
	}
	if _, err := leases.AddEventHandler(r.observeLeases()); err != nil {
		return fmt.Errorf("watch Leases: %w", err)
	}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.LeasedTask{}).
		Owns(&corev1.Pod{}).
		Owns(&coordinationv1.Lease{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: isMoreThanRenewal})).
		Watches(&coordinationv1.Lease{}, r.wakeWaiters()).
		Watches(&v1alpha1.TaskQueue{}, r.wakeQueued()).
		WatchesRawSource(source.Func(r.wakeQueue)).
		WithOptions(controller.Options{MaxConcurrentReconciles: concurrency}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}
	return nil
}

// IndexPods lets a cache find the Pods of a task, as a Reconciler's Client must be able to.
func IndexPods(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &corev1.Pod{}, podsByTask, taskOfPod); err != nil {
		return fmt.Errorf("index Pods: %w", err)
	}
	return nil
}

func taskOfPod(o client.Object) []string {
	if uid := o.GetLabels()[v1alpha1.TaskLabel]; uid != "" {
		return []string{uid}
	}
	return nil
}

// wakeQueue lets the observer, and the queues, enqueue tasks. It is started with leadership; a standby's observer wakes nobody.
func (r *Reconciler) wakeQueue(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	wake := func(task types.NamespacedName) { queue.Add(reconcile.Request{NamespacedName: task}) }
	r.Observer.WakeWith(wake)
	r.Turns.WakeWith(wake)
	return nil
}

// observeLeases feeds the observer from the watch, on every replica. A renewal ends here.
func (r *Reconciler) observeLeases() toolscache.ResourceEventHandler {
	see := func(obj any) {
		if lease, ok := obj.(*coordinationv1.Lease); ok && isTermOf(lease, lease.Labels[mailbox.TaskLabel]) {
			task := types.NamespacedName{Namespace: lease.Namespace, Name: lease.Annotations[mailbox.TaskNameAnnotation]}
			r.Observer.SeeLease(types.UID(lease.Labels[mailbox.TaskLabel]), task, mailbox.Read(lease), r.Clock.Now())
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, obj any) { see(obj) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if lease, ok := obj.(*coordinationv1.Lease); ok && isTermOf(lease, lease.Labels[mailbox.TaskLabel]) {
				r.Observer.LeaseGone(types.UID(lease.Labels[mailbox.TaskLabel]))
			}
		},
	}
}

// isTermOf reports whether a Lease is the term Lease of the task. Anybody who may edit Leases can give one our label; only
// we make them under these names.
func isTermOf(lease *coordinationv1.Lease, taskUID string) bool {
	return lease.Name == mailbox.Name(taskUID)
}

// isMoreThanRenewal reports whether an update of a Lease is worth a pass. A renewal changes renewTime and nothing that a
// decision reads; the observer has seen it. One that carries progress is worth a look, which seldom writes; a checkpoint is
// recorded when the attempt ends.
func isMoreThanRenewal(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*coordinationv1.Lease)
	after, ok2 := e.ObjectNew.(*coordinationv1.Lease)
	if !ok || !ok2 {
		return true
	}
	was, is := mailbox.Read(before), mailbox.Read(after)
	return was.UID != is.UID || was.Attempt != is.Attempt || was.Holder != is.Holder || was.State() != is.State() || stopOf(was) != stopOf(is) ||
		before.Annotations[fencing.ProgressAnnotation] != after.Annotations[fencing.ProgressAnnotation]
}
