package admission

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/admission/gate"
)

// feed enters into the ledger what the watch shows. It runs on every replica.
type feed struct {
	ledger *Ledger
	clock  clock.PassiveClock
	synced []toolscache.InformerSynced
}

// follow begins to listen to a cache, before that is started.
func (f *feed) follow(ctx context.Context, watched cache.Cache) error {
	tasks, err := watched.GetInformer(ctx, &v1alpha1.LeasedTask{})
	if err != nil {
		return fmt.Errorf("watch LeasedTasks: %w", err)
	}
	queues, err := watched.GetInformer(ctx, &v1alpha1.TaskQueue{})
	if err != nil {
		return fmt.Errorf("watch TaskQueues: %w", err)
	}
	for informer, handler := range map[cache.Informer]toolscache.ResourceEventHandler{tasks: taskEvents{f}, queues: f.queueEvents()} {
		handled, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watch tasks and queues: %w", err)
		}
		f.synced = append(f.synced, handled.HasSynced)
	}
	return nil
}

// Start opens the ledger once everything that was there has been entered.
func (f *feed) Start(ctx context.Context) error {
	if toolscache.WaitForCacheSync(ctx.Done(), f.synced...) {
		f.ledger.Open(f.clock.Now())
	}
	return nil
}

// NeedLeaderElection is false: every replica answers.
func (f *feed) NeedLeaderElection() bool { return false }

func (f *feed) queueEvents() toolscache.ResourceEventHandler {
	see := func(obj any) {
		if queue, ok := obj.(*v1alpha1.TaskQueue); ok {
			f.ledger.SeeQueue(queue)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, obj any) { see(obj) },
		DeleteFunc: func(obj any) {
			if queue, ok := lastState(obj).(*v1alpha1.TaskQueue); ok {
				f.ledger.QueueGone(types.NamespacedName{Namespace: queue.Namespace, Name: queue.Name})
			}
		},
	}
}

// taskEvents counts by differences. A handler is shown each state after the one that it was shown before, so nothing is counted twice, and
// nothing but numbers is kept.
type taskEvents struct{ *feed }

func (f taskEvents) OnAdd(obj any, isInInitialList bool) {
	if s := sight(obj); s.queue.Name != "" {
		f.ledger.taskAdded(s, isInInitialList, f.clock.Now())
	}
}

func (f taskEvents) OnUpdate(before, after any) {
	was, is := sight(before), sight(after)
	if was.isPending != is.isPending || was.queue != is.queue || was.task.Tenant != is.task.Tenant {
		f.ledger.taskMoved(was, is, f.clock.Now())
	}
}

func (f taskEvents) OnDelete(obj any) {
	if was := sight(lastState(obj)); was.isPending {
		f.ledger.taskMoved(was, sighting{}, f.clock.Now())
	}
}

// lastState is a deleted object as it was last seen.
func lastState(obj any) any {
	if missed, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		return missed.Obj
	}
	return obj
}

// sight is what the ledger wants to know of a task; nothing of one without a queue.
func sight(obj any) sighting {
	task, ok := obj.(*v1alpha1.LeasedTask)
	if !ok || task.Spec.QueueName == "" {
		return sighting{}
	}
	return sighting{
		queue:     types.NamespacedName{Namespace: task.Namespace, Name: task.Spec.QueueName},
		task:      gate.Task{UID: string(task.UID), Tenant: tenantOf(task.Namespace, task.Spec.Tenant)},
		created:   task.CreationTimestamp.Time,
		isPending: task.Status.Phase == "" || task.Status.Phase == v1alpha1.PhaseAvailable,
	}
}

func tenantOf(namespace, named string) string { return cmp.Or(named, namespace) }
