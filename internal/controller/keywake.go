package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
)

// tasksByKey is the cache's index of unfinished tasks by the names of their keys' Leases.
const tasksByKey = "keyLease"

// wokenAtOnce is how many tasks a free key wakes. One of them takes it; more than one, because the first may not be able to.
const wokenAtOnce = 8

func indexWaiters(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha1.LeasedTask{}, tasksByKey, keysWanted); err != nil {
		return fmt.Errorf("index tasks by key: %w", err)
	}
	return nil
}

func keysWanted(o client.Object) []string {
	task, ok := o.(*v1alpha1.LeasedTask)
	if !ok || task.Status.Phase.IsFinished() {
		return nil
	}
	return keyLeasesOf(task)
}

// keyLeasesOf are the names of the Leases of a task's keys.
func keyLeasesOf(task *v1alpha1.LeasedTask) (names []string) {
	for _, k := range plan.KeysOf(task) {
		names = append(names, key.Name(k.Kind, k.Value))
	}
	return names
}

// wakeWaiters asks for a pass over tasks that wait for a key whose Lease has changed to their advantage. That a task has taken a
// key wakes nobody.
func (r *Reconciler) wakeWaiters() handler.EventHandler {
	return handler.Funcs{
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			r.wake(ctx, e.Object, wokenAtOnce, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			lease, ok := e.ObjectNew.(*coordinationv1.Lease)
			if !ok || lease.Labels[key.Label] == "" {
				return
			}
			switch l := key.Read(lease); {
			case l == nil:
				r.wake(ctx, lease, wokenAtOnce, q) // it counts as free
			case l.Answer != nil, l.Holder == "":
				r.wake(ctx, lease, 0, q)
			}
		},
	}
}

// wake asks for a pass over the tasks that want the key of a Lease and are ready for it, those that have waited longest first. At
// most so many; 0: all.
func (r *Reconciler) wake(ctx context.Context, lease client.Object, atMost int, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if lease.GetLabels()[key.Label] == "" {
		return
	}
	list := &v1alpha1.LeasedTaskList{}
	err := r.Client.List(ctx, list, client.InNamespace(lease.GetNamespace()), client.MatchingFields{tasksByKey: lease.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not list the tasks that wait for a key", "lease", lease.GetName())
		return
	}
	waiters := slices.DeleteFunc(list.Items, func(task v1alpha1.LeasedTask) bool { return !plan.IsReadyForKeys(&task, r.Clock.Now()) })
	slices.SortFunc(waiters, func(a, b v1alpha1.LeasedTask) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	if atMost > 0 {
		waiters = waiters[:min(len(waiters), atMost)]
	}
	for i := range waiters {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&waiters[i])})
	}
}
