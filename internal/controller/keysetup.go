package controller

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
)

const (
	// keysAtOnce is the number of key Leases worked on at the same time.
	keysAtOnce = 4
	// keysByLetter is the cache's index of key Leases by the dead letters that block them.
	keysByLetter = "blockedBy"
)

// setup registers the watches: what may end a hold is a change of the Lease, the end of its holder, and that of a dead letter.
func (k *KeyKeeper) setup(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &coordinationv1.Lease{}, keysByLetter, lettersOf); err != nil {
		return fmt.Errorf("index key Leases: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("key").
		For(&coordinationv1.Lease{}, builder.WithPredicates(predicate.NewPredicateFuncs(isKeyLease))).
		Watches(&v1alpha1.LeasedTask{}, handler.EnqueueRequestsFromMapFunc(k.keysOfTask), builder.WithPredicates(endsOfTasks)).
		Watches(&v1alpha1.DeadLetter{}, handler.EnqueueRequestsFromMapFunc(k.keysOfLetter), builder.WithPredicates(endsOfLetters)).
		WithOptions(controller.Options{MaxConcurrentReconciles: keysAtOnce}).
		Complete(k)
	if err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}
	return nil
}

func lettersOf(o client.Object) []string {
	if lease, ok := o.(*coordinationv1.Lease); ok && isKeyLease(o) {
		if lock := key.Read(lease); lock != nil {
			return lock.BlockedBy
		}
	}
	return nil
}

func isKeyLease(o client.Object) bool { return o.GetLabels()[key.Label] != "" }

// endsOfLetters lets deletions through, and discards.
var endsOfLetters = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(*v1alpha1.DeadLetter)
		is, ok2 := e.ObjectNew.(*v1alpha1.DeadLetter)
		return ok && ok2 && is.Spec.IsDiscarded() && !was.Spec.IsDiscarded()
	},
}

// endsOfTasks lets deletions through, and final phases.
var endsOfTasks = predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false }, // after a start, the Leases themselves are looked at
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(*v1alpha1.LeasedTask)
		is, ok2 := e.ObjectNew.(*v1alpha1.LeasedTask)
		return ok && ok2 && (is.Status.Phase.IsFinished() && !was.Status.Phase.IsFinished() || is.UID != was.UID)
	},
}

// keysOfTask asks for a pass over the keys of a task, and notes its end: by the time of the pass it may be gone.
func (k *KeyKeeper) keysOfTask(_ context.Context, o client.Object) (requests []reconcile.Request) {
	task, ok := o.(*v1alpha1.LeasedTask)
	if !ok {
		return nil
	}
	for _, lease := range keyLeasesOf(task) {
		name := types.NamespacedName{Namespace: task.Namespace, Name: lease}
		if state := stateOf(task); state != key.TaskUnfinished {
			k.holders.ends(name, string(task.UID), state)
		}
		requests = append(requests, reconcile.Request{NamespacedName: name})
	}
	return requests
}

func (k *KeyKeeper) keysOfLetter(ctx context.Context, o client.Object) (requests []reconcile.Request) {
	list := &coordinationv1.LeaseList{}
	if err := k.Client.List(ctx, list, client.InNamespace(o.GetNamespace()), client.MatchingFields{keysByLetter: o.GetName()}); err != nil {
		log.FromContext(ctx).Error(err, "Could not list the keys that a dead letter blocks", "deadLetter", o.GetName())
		return nil
	}
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
