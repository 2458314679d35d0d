package controller

import (
	"context"
	"fmt"
	"math/rand/v2"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// Random is where jitter and name suffixes come from.
type Random struct {
	Jitter func() float64
	Suffix func() string
}

// NewRandom is a Random for production: jitter spreads load and suffixes avoid collisions, neither is a secret.
func NewRandom() Random {
	return Random{Jitter: rand.Float64, Suffix: func() string { return utilrand.String(6) }}
}

// reader is where a snapshot is read from, and how it finds the Pods of a task.
type reader struct {
	client.Reader
	podsOf func(taskUID string) client.ListOption
}

// podsByTask is the cache's index of Pods; the API server selects by label.
const podsByTask = "taskUID"

func (r *Reconciler) cached() reader {
	return reader{r.Client, func(uid string) client.ListOption { return client.MatchingFields{podsByTask: uid} }}
}

func (r *Reconciler) live() reader {
	return reader{r.Live, func(uid string) client.ListOption { return client.MatchingLabels{v1alpha1.TaskLabel: uid} }}
}

// gather takes a snapshot. It is nil if the task is gone; then it is also forgotten.
func (r *Reconciler) gather(ctx context.Context, from reader, key types.NamespacedName) (*plan.Snapshot, error) {
	task := &v1alpha1.LeasedTask{}
	if err := from.Get(ctx, key, task); err != nil {
		if apierrors.IsNotFound(err) {
			r.Observer.ForgetTask(key)
			r.Turns.Forget(key)
			r.refused.forget(key)
			r.unburied.forget(key)
			r.unkeyed.forget(key)
			r.unkept.forget(key)
			return nil, nil
		}
		return nil, fmt.Errorf("get task: %w", err)
	}
	s := &plan.Snapshot{Task: task, Jitter: r.Random.Jitter(), Suffix: r.Random.Suffix()}
	var err error
	if s.Queue, err = readQueue(ctx, from, task); err != nil {
		return nil, err
	}
	source, err := r.sourceOf(ctx, task, s.Queue)
	if err != nil {
		return nil, err
	}
	s.Complete(source)
	term, err := r.readTerm(ctx, from, task)
	if err != nil {
		return nil, err
	}
	if s.Term = term; term != nil { // one that says less was edited, and must not be judged before its agent has fenced itself
		term.Duration = max(term.Duration, s.LeastDuration())
	}
	if s.Keys, err = readKeys(ctx, from, task); err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	if err := from.List(ctx, pods, client.InNamespace(task.Namespace), from.podsOf(string(task.UID))); err != nil {
		return nil, fmt.Errorf("list Pods: %w", err)
	}
	s.Revision = pods.ResourceVersion
	for i := range pods.Items {
		s.Pods = append(s.Pods, &pods.Items[i])
	}
	s.Now = r.Clock.Now()
	s.Since = r.Observer.See(task, term, s.Now)
	s.ClaimedSince = r.Observer.ClaimedSince(task, s.Now)
	s.StoppedSince = r.Observer.StoppedSince(task, s.Now)
	if s.IsMounting() {
		s.MountTrouble = r.mountTrouble(ctx, task.Namespace, s.HolderPodUID())
	}
	return s, nil
}

// gatherLive repeats a snapshot from the API server. It is nil if the task is gone or another of its name took its place.
func (r *Reconciler) gatherLive(ctx context.Context, cached *plan.Snapshot) (*plan.Snapshot, error) {
	s, err := r.gather(ctx, r.live(), client.ObjectKeyFromObject(cached.Task))
	if err != nil || s == nil || s.Task.UID != cached.Task.UID {
		return nil, err
	}
	s.Live = true
	if err := r.lookAtRivals(ctx, s); err != nil {
		return nil, err
	}
	if s.IsLossOpen() {
		s.NodeLost = r.nodeLost(ctx, s.HolderNode())
	}
	return s, nil
}

// readQueue reads the task's queue; nil: there is none of that name, or the task names none. A live decision reads it live: who changes
// a queue and then makes a task means the change.
func readQueue(ctx context.Context, from client.Reader, task *v1alpha1.LeasedTask) (*v1alpha1.TaskQueue, error) {
	if task.Spec.QueueName == "" {
		return nil, nil
	}
	tq := &v1alpha1.TaskQueue{}
	err := from.Get(ctx, queueOf(task), tq)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get TaskQueue: %w", err)
	}
	return tq, nil
}

// queueOf names the task's queue.
func queueOf(task *v1alpha1.LeasedTask) types.NamespacedName {
	return types.NamespacedName{Namespace: task.Namespace, Name: task.Spec.QueueName}
}

// readTerm reads the task's Lease. One that a cache does not have may have lost the label that the cache selects by, or have been made
// just now: if there ever was one, the API server is asked by name.
func (r *Reconciler) readTerm(ctx context.Context, from client.Reader, task *v1alpha1.LeasedTask) (*fencing.Term, error) {
	lease, key := &coordinationv1.Lease{}, types.NamespacedName{Namespace: task.Namespace, Name: mailbox.Name(string(task.UID))}
	err := from.Get(ctx, key, lease)
	wasThere := task.Status.LeaseName != "" || r.Turns.IsGranted(task)
	if apierrors.IsNotFound(err) && wasThere && !task.Status.Phase.IsFinished() {
		err = r.Live.Get(ctx, key, lease)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Lease: %w", err)
	}
	return mailbox.Read(lease), nil
}

// nodeLost says why a node counts as lost, for the history; empty: it does not, or nobody can tell.
func (r *Reconciler) nodeLost(ctx context.Context, name string) string {
	if name == "" {
		return ""
	}
	node := &corev1.Node{}
	err := r.Live.Get(ctx, types.NamespacedName{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return fmt.Sprintf("node %s is gone", name)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Could not look at the node of a lost worker", "node", name)
		return ""
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return fmt.Sprintf("node %s is not ready: %s", name, c.Reason)
		}
	}
	return ""
}
