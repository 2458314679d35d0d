package controller

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

const (
	// queuePause is the least time between two writes of a TaskQueue's status, whatever happens in the queue meanwhile.
	queuePause = 5 * time.Second
	// queuesAtOnce is the number of TaskQueues worked on at the same time.
	queuesAtOnce = 2
)

// QueueKeeper tells the queues of their TaskQueues, and the TaskQueues' statuses of the queues.
type QueueKeeper struct {
	Client client.Client // reads from the cache and writes
	Clock  clock.PassiveClock
	Events events.EventRecorder
	Turns  *Turns
	Pause  time.Duration

	written memory[time.Time] // when a status was last
}

// Reconcile is one pass over one TaskQueue.
func (k *QueueKeeper) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	tq := &v1alpha1.TaskQueue{}
	if err := k.Client.Get(ctx, req.NamespacedName, tq); err != nil {
		if apierrors.IsNotFound(err) {
			k.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("get TaskQueue: %w", err)
	}
	is, again := k.Turns.Learn(tq)
	if is == nil {
		return ctrl.Result{RequeueAfter: seedRetry}, nil
	}
	measure(req.NamespacedName, is)
	now := k.Clock.Now()
	p := plan.DecideQueue(tq, is, now)
	last, _ := k.written.get(req.NamespacedName)
	if left := last.Add(k.Pause).Sub(now); p.Status != nil && !p.IsUrgent && left > 0 {
		return ctrl.Result{RequeueAfter: sooner(again, left)}, nil
	}
	switch err := k.execute(ctx, tq, &p, now); {
	case apierrors.IsConflict(err): // the cache was late
		return ctrl.Result{RequeueAfter: sooner(again, conflictPause)}, nil
	case ignoreGone(err) != nil: // what it would have told waits; who is to start does not
		log.FromContext(ctx).Error(err, "Could not write the status of a TaskQueue, will try again")
		return ctrl.Result{RequeueAfter: sooner(again, k.Pause)}, nil
	case err != nil:
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// execute writes the status, and tells what it tells.
func (k *QueueKeeper) execute(ctx context.Context, tq *v1alpha1.TaskQueue, p *plan.QueuePlan, now time.Time) error {
	if p.Status == nil {
		return nil
	}
	next := tq.DeepCopy()
	next.Status = *p.Status
	if err := k.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(tq, client.MergeFromWithOptimisticLock{})); err != nil {
		return err // conflict and not-found are outcomes
	}
	k.written.keep(client.ObjectKeyFromObject(tq), now)
	for _, e := range p.Events {
		tell(k.Events, tq, &e)
	}
	return nil
}

// sooner is the shorter of two times to wait, of which 0 stands for ever.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (k *QueueKeeper) forget(name types.NamespacedName) {
	k.Turns.QueueGone(name)
	k.written.forget(name)
	unmeasure(name)
}
