package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

const (
	// keepPause is how long a namespace is left alone after a Pod or a task has ended there: whatever ends meanwhile costs no pass
	// of its own.
	keepPause = 10 * time.Second
	// deletedAtOnce bounds one pass; the rest follows in the next.
	deletedAtOnce = 500
)

// PodKeeper keeps the last finished Pods of each namespace, with their logs, and deletes the rest, so that the cluster's own garbage
// collector of Pods, which knows nothing of tasks, never has a reason to. A request names a namespace.
type PodKeeper struct {
	Client client.Client // reads from the cache and writes
	Live   client.Reader
	Clock  clock.PassiveClock
	Keep   int // Pods a namespace
	Pause  time.Duration
}

// podsFinished is the cache's index of Pods that have ended. What it finds in a namespace is little more than what is kept there.
const podsFinished = "finished"

func finishedPod(o client.Object) []string {
	if pod, ok := o.(*corev1.Pod); ok && plan.IsPodFinished(pod) {
		return []string{"true"}
	}
	return nil
}

// setup registers the watches. They ask for a pass over a namespace in which something has ended, a while later.
func (k *PodKeeper) setup(ctx context.Context, mgr ctrl.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, podsFinished, finishedPod); err != nil {
		return fmt.Errorf("index finished Pods: %w", err)
	}
	err := ctrl.NewControllerManagedBy(mgr).
		Named("pod-keeper").
		Watches(&corev1.Pod{}, k.onEnd(func(o client.Object) bool { return finishedPod(o) != nil })).
		Watches(&v1alpha1.LeasedTask{}, k.onEnd(func(o client.Object) bool { return o.(*v1alpha1.LeasedTask).Status.Phase.IsFinished() })).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(k)
	if err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}
	return nil
}

// onEnd asks for a pass when an object has ended. One that had ended before is no news.
func (k *PodKeeper) onEnd(hasEnded func(client.Object) bool) handler.EventHandler {
	ask := func(o client.Object, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		queue.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: o.GetNamespace()}}, k.Pause)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if hasEnded(e.Object) {
				ask(e.Object, queue)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if hasEnded(e.ObjectNew) && !hasEnded(e.ObjectOld) {
				ask(e.ObjectNew, queue)
			}
		},
	}
}

// Reconcile is one pass over one namespace. A cache that is late does no harm: neither a Pod nor a task comes back from its end.
func (k *PodKeeper) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	finished, err := k.gather(ctx, req.Name)
	if err != nil || len(finished) <= k.Keep {
		return ctrl.Result{}, err
	}
	pods, again := plan.Surplus(finished, k.Keep, k.Clock.Now())
	if len(pods) > deletedAtOnce {
		pods, again = pods[:deletedAtOnce], k.Pause
	}
	for i, pod := range pods {
		err := k.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})
		switch {
		case err == nil:
			surplusPods.Inc()
		case client.IgnoreNotFound(err) != nil:
			return ctrl.Result{}, fmt.Errorf("delete Pod %s, after %d others: %w", pod.Name, i, err)
		}
	}
	if len(pods) > 0 {
		log.FromContext(ctx).Info("Deleted the oldest finished Pods", "namespace", req.Name, "pods", len(pods), "kept", k.Keep)
	}
	if again > 0 {
		again = max(again, k.Pause)
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// gather finds the finished Pods of a namespace, each with its task. A Pod without one goes with that task, and is not ours to judge.
func (k *PodKeeper) gather(ctx context.Context, namespace string) ([]plan.Finished, error) {
	pods := &corev1.PodList{}
	err := k.Client.List(ctx, pods, client.InNamespace(namespace), client.MatchingFields{podsFinished: "true"}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list Pods: %w", err)
	}
	if len(pods.Items) <= k.Keep { // whoever they belong to
		return nil, nil
	}
	finished := make([]plan.Finished, 0, len(pods.Items))
	for i := range pods.Items {
		pod := &pods.Items[i]
		owner := metav1.GetControllerOf(pod)
		if owner == nil {
			continue
		}
		task := &v1alpha1.LeasedTask{}
		err := k.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: owner.Name}, task)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("get task: %w", err)
		case err == nil && task.UID == owner.UID:
			source, err := sourceOnRecord(ctx, k.Client, k.Live, task)
			if err != nil {
				return nil, err
			}
			task.Spec = plan.Effective(task.Spec, source.Given)
			finished = append(finished, plan.Finished{Pod: pod, Task: task})
		}
	}
	return finished, nil
}
