package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
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

// wakeWaiters asks for a pass over tasks that a change of a key's Lease is for: those that wait for the key, where it has changed to
// their advantage, and those that a newer one replaces. That a task has taken a key wakes nobody else.
func (r *Reconciler) wakeWaiters() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if l := lockIn(e.Object); l != nil && l.Newest != nil {
				r.wakeSuperseded(ctx, e.Object, l, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			r.wakeReady(ctx, e.Object, wokenAtOnce, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			lease := e.ObjectNew
			if !isKeyLease(lease) {
				return
			}
			switch l := lockIn(lease); {
			case l == nil:
				r.wakeReady(ctx, lease, wokenAtOnce, q) // it counts as free
			case l.Answer != nil, l.Holder == "" && l.Newest == nil, l.Holder == "" && len(l.BlockedBy) > 0:
				r.wakeReady(ctx, lease, 0, q)
			case isNewest(l, lockIn(e.ObjectOld)):
				r.wakeSuperseded(ctx, lease, l, q)
			case l.Holder == "":
				q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: lease.GetNamespace(), Name: l.Newest.Task}})
			}
		},
	}
}

// lockIn is what a Lease says of a key; nil: nothing.
func lockIn(o client.Object) *key.Lock {
	if lease, ok := o.(*coordinationv1.Lease); ok && isKeyLease(o) {
		return key.Read(lease)
	}
	return nil
}

// isNewest reports whether a lock names another newest than it did.
func isNewest(l, was *key.Lock) bool {
	return l.Newest != nil && (was == nil || was.Newest == nil || was.Newest.UID != l.Newest.UID)
}

// wakeReady asks for a pass over the tasks that want the key of a Lease and are ready for it, those that have waited longest first. At
// most so many; 0: all.
func (r *Reconciler) wakeReady(ctx context.Context, lease client.Object, atMost int, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	now := r.Clock.Now()
	r.wake(ctx, lease, func(task *v1alpha1.LeasedTask) bool { return plan.IsReadyForKeys(task, now) }, atMost, q)
}

// wakeSuperseded asks for a pass over the holder of the key, and over the tasks that are ready for it, as far as they are superseded.
func (r *Reconciler) wakeSuperseded(ctx context.Context, lease client.Object, l *key.Lock, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	now := r.Clock.Now()
	r.wake(ctx, lease, func(task *v1alpha1.LeasedTask) bool {
		return plan.IsSuperseded(task, l) && (string(task.UID) == l.Holder || plan.IsReadyForKeys(task, now))
	}, 0, q)
}

// wake asks for a pass over tasks that want the key of a Lease, or have it.
func (r *Reconciler) wake(ctx context.Context, lease client.Object, is func(*v1alpha1.LeasedTask) bool, atMost int, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	if !isKeyLease(lease) {
		return
	}
	list := &v1alpha1.LeasedTaskList{}
	err := r.Client.List(ctx, list, client.InNamespace(lease.GetNamespace()), client.MatchingFields{tasksByKey: lease.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not list the tasks that want a key", "lease", lease.GetName())
		return
	}
	tasks := slices.DeleteFunc(list.Items, func(task v1alpha1.LeasedTask) bool { return !is(&task) })
	slices.SortFunc(tasks, func(a, b v1alpha1.LeasedTask) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	if atMost > 0 {
		tasks = tasks[:min(len(tasks), atMost)]
	}
	for i := range tasks {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&tasks[i])})
	}
}
