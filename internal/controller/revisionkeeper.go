package controller

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=leasehold.io,resources=taskqueues,verbs=get;list;watch

// RevisionKeeper deletes what a queue once gave to its tasks when no task has it on record any more. A request names the revision.
//
// A queue may give again what it gave before, so that a pass chooses a revision just as it is to be deleted. Therefore one that is
// unused is marked first, and deleted as it was marked, after a while: a pass that has not seen the mark has put the revision on
// record by then, where the API server shows it, and one that has seen it takes the mark away first, so that the deletion is refused.
type RevisionKeeper struct {
	Client client.Client // reads from the cache and writes
	Live   client.Reader
	Clock  clock.PassiveClock
	// Patience is for how long a revision must have been seen marked and unused: a pass that was decided before may still put it on
	// record.
	Patience time.Duration

	unused memory[unusedRevision]
}

// unusedRevision is a revision that was seen marked and unused, as of which version, and since when.
type unusedRevision struct {
	version string
	since   time.Time
}

const (
	// revisionPatience is longer than any pass takes.
	revisionPatience = 10 * time.Minute
	// tasksByRevision is the cache's index of tasks by what is on record of their queue.
	tasksByRevision = "queueRevision"
	// revisionsByQueue is the cache's index of revisions by the queue whose they are.
	revisionsByQueue = "queueName"
	// pageSize is how many tasks a live list reads at once.
	pageSize = 500
)

// setup registers the watches: a revision may be out of use once its queue has changed, or a task is gone.
func (k *RevisionKeeper) setup(ctx context.Context, mgr ctrl.Manager) error {
	for _, index := range []struct {
		of   client.Object
		name string
		by   client.IndexerFunc
	}{{&v1alpha1.LeasedTask{}, tasksByRevision, revisionOnRecord}, {&appsv1.ControllerRevision{}, revisionsByQueue, queueOfRevision}} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, index.of, index.name, index.by); err != nil {
			return fmt.Errorf("index by %s: %w", index.name, err)
		}
	}
	gone := predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, // after a start, the revisions themselves are looked at
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("revision-keeper").
		For(&appsv1.ControllerRevision{}).
		Watches(&v1alpha1.TaskQueue{}, handler.EnqueueRequestsFromMapFunc(k.revisionsOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.LeasedTask{}, handler.EnqueueRequestsFromMapFunc(revisionOfTask), builder.WithPredicates(gone)).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(k)
	if err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}
	return nil
}

func revisionOnRecord(o client.Object) []string {
	if task, ok := o.(*v1alpha1.LeasedTask); ok && task.Status.QueueRevision != "" {
		return []string{task.Status.QueueRevision}
	}
	return nil
}

func queueOfRevision(o client.Object) []string {
	return []string{o.GetAnnotations()[v1alpha1.QueueNameAnnotation]}
}

func revisionOfTask(_ context.Context, o client.Object) (requests []ctrl.Request) {
	for _, name := range revisionOnRecord(o) {
		requests = append(requests, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}})
	}
	return requests
}

func (k *RevisionKeeper) revisionsOf(ctx context.Context, queue client.Object) (requests []ctrl.Request) {
	list := &appsv1.ControllerRevisionList{}
	err := k.Client.List(ctx, list, client.InNamespace(queue.GetNamespace()), client.MatchingFields{revisionsByQueue: queue.GetName()}, client.UnsafeDisableDeepCopy)
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not list the revisions of a queue", "queue", queue.GetName())
	}
	for i := range list.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile is one pass over one revision. It is deleted once it was seen marked and unused for a while, and the API server says so, too.
func (k *RevisionKeeper) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	revision := &appsv1.ControllerRevision{}
	if err := k.Client.Get(ctx, req.NamespacedName, revision); err != nil {
		k.unused.forget(req.NamespacedName) // gone: nothing is left to wait for
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	used, err := k.isUsed(ctx, k.Client, revision)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case used: // a mark may stay: whoever needs the revision next takes it away
		k.unused.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	case !isRetiring(revision):
		return afterRace(k.retire(ctx, revision))
	}
	if left := k.left(req.NamespacedName, revision.ResourceVersion); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	if used, err = k.isUsedLive(ctx, revision); err != nil || used {
		return ctrl.Result{RequeueAfter: k.Patience}, err
	}
	return afterRace(k.Client.Delete(ctx, revision, client.Preconditions{UID: &revision.UID, ResourceVersion: &revision.ResourceVersion}))
}

// retire marks a revision. The pass that sees the mark goes on from there.
func (k *RevisionKeeper) retire(ctx context.Context, revision *appsv1.ControllerRevision) error {
	next := revision.DeepCopy()
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, v1alpha1.RetiringAnnotation, "true")
	return k.Client.Patch(ctx, next, client.MergeFromWithOptions(revision, client.MergeFromWithOptimisticLock{}))
}

// afterRace is what follows a write to a revision.
func afterRace(err error) (ctrl.Result, error) {
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	case client.IgnoreNotFound(err) != nil:
		return ctrl.Result{}, fmt.Errorf("retire ControllerRevision: %w", err)
	}
	return ctrl.Result{}, nil
}

// left is how long a revision that is marked has to go on being unused, as it is, before it may go.
func (k *RevisionKeeper) left(name types.NamespacedName, version string) time.Duration {
	now := k.Clock.Now()
	seen, _ := k.unused.get(name)
	if seen.version != version {
		seen = unusedRevision{version, now}
		k.unused.keep(name, seen)
	}
	return seen.since.Add(k.Patience).Sub(now)
}

// isUsed reports whether the revision is what its queue gives now, or a task has it on record. A finished one counts: its time to live
// is in there, and how its end is told.
func (k *RevisionKeeper) isUsed(ctx context.Context, from client.Reader, revision *appsv1.ControllerRevision) (bool, error) {
	if isCurrent, err := isCurrentRevision(ctx, from, revision); err != nil || isCurrent {
		return isCurrent, err
	}
	tasks := &v1alpha1.LeasedTaskList{}
	err := from.List(ctx, tasks, client.InNamespace(revision.Namespace), client.MatchingFields{tasksByRevision: revision.Name}, client.UnsafeDisableDeepCopy, client.Limit(1))
	if err != nil {
		return false, fmt.Errorf("list tasks: %w", err)
	}
	return len(tasks.Items) > 0, nil
}

// isUsedLive asks the API server, which has no such index: page by page, all tasks of the namespace.
func (k *RevisionKeeper) isUsedLive(ctx context.Context, revision *appsv1.ControllerRevision) (bool, error) {
	if isCurrent, err := isCurrentRevision(ctx, k.Live, revision); err != nil || isCurrent {
		return isCurrent, err
	}
	for next := ""; ; {
		tasks := &v1alpha1.LeasedTaskList{}
		if err := k.Live.List(ctx, tasks, client.InNamespace(revision.Namespace), client.Limit(pageSize), client.Continue(next)); err != nil {
			return false, fmt.Errorf("list tasks: %w", err)
		}
		for i := range tasks.Items {
			if tasks.Items[i].Status.QueueRevision == revision.Name {
				return true, nil
			}
		}
		if next = tasks.Continue; next == "" {
			return false, nil
		}
	}
}

func isCurrentRevision(ctx context.Context, from client.Reader, revision *appsv1.ControllerRevision) (bool, error) {
	queue := &v1alpha1.TaskQueue{}
	name := types.NamespacedName{Namespace: revision.Namespace, Name: revision.Annotations[v1alpha1.QueueNameAnnotation]}
	if err := from.Get(ctx, name, queue); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("get TaskQueue: %w", err)
	}
	given := plan.GivenBy(&queue.Spec)
	return given != nil && plan.RevisionOf(queue.Name, given).Name == revision.Name, nil
}
