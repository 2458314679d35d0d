package controller

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// KeyKeeper ends what has no ground left on key Leases: see package key. Tasks take keys; nothing else lets go of them.
type KeyKeeper struct {
	// Client reads from the cache and writes. Live reads from the API server.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock

	holders holders
}

// Reconcile is one pass: get, plan, execute.
func (k *KeyKeeper) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	lock, err := k.read(ctx, k.Client, req.NamespacedName)
	if err != nil || lock == nil {
		return ctrl.Result{}, err
	}
	if isAtWork, err := k.isAtWork(ctx, req.Namespace, lock); err != nil || isAtWork {
		k.holders.endsOnly(req.NamespacedName, lock.HolderUID)
		return ctrl.Result{}, err
	}
	if lock, err = k.read(ctx, k.Live, req.NamespacedName); err != nil || lock == nil {
		return ctrl.Result{}, err
	}
	k.holders.endsOnly(req.NamespacedName, lock.HolderUID)
	seen, term, err := k.look(ctx, req.NamespacedName, lock)
	if err != nil {
		return ctrl.Result{}, err
	}
	keeping := key.Keep(lock, seen, k.Clock.Now())
	err = k.execute(ctx, req.NamespacedName, lock, seen, term, keeping)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // somebody else's write came first
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	case err != nil:
		return ctrl.Result{}, ignoreGone(err)
	case keeping.Action == key.EndTerm:
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	}
	return ctrl.Result{RequeueAfter: keeping.After}, nil
}

// read reads a lock; nil: there is none, or none of ours. Then it is also forgotten.
func (k *KeyKeeper) read(ctx context.Context, from client.Reader, name types.NamespacedName) (*key.Lock, error) {
	lease := &coordinationv1.Lease{}
	if err := from.Get(ctx, name, lease); err != nil {
		if apierrors.IsNotFound(err) {
			k.holders.forget(name)
			return nil, nil
		}
		return nil, fmt.Errorf("get Lease of a key: %w", err)
	}
	lock := key.Read(lease)
	if lock == nil {
		k.holders.forget(name)
	}
	return lock, nil
}

// isAtWork reports whether the cache knows that the holder is at work. That is the rule, and costs no live read: what ends it is
// an event.
func (k *KeyKeeper) isAtWork(ctx context.Context, namespace string, lock *key.Lock) (bool, error) {
	if lock.Holder == "" || lock.Answer != nil {
		return false, nil
	}
	state, err := taskState(ctx, k.Client, namespace, lock.HolderName, lock.HolderUID)
	return state == key.TaskUnfinished, err
}

// taskState says what has become of a task that a lock names.
func taskState(ctx context.Context, from client.Reader, namespace, name, uid string) (key.TaskState, error) {
	task := &v1alpha1.LeasedTask{}
	err := from.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, task)
	switch {
	case apierrors.IsNotFound(err), err == nil && string(task.UID) != uid:
		return key.TaskGone, nil
	case err != nil:
		return "", fmt.Errorf("get a task that has or wants a key: %w", err)
	}
	return stateOf(task), nil
}

func stateOf(task *v1alpha1.LeasedTask) key.TaskState {
	switch {
	case task.Status.Phase == v1alpha1.PhaseCompleted:
		return key.TaskCompleted
	case task.Status.Phase.IsFinished():
		return key.TaskEnded
	}
	return key.TaskUnfinished
}

// lettersThere are those of the dead letters that are there and not discarded.
func lettersThere(ctx context.Context, live client.Reader, namespace string, letters []string) (there []string, err error) {
	for _, letter := range letters {
		dead := &v1alpha1.DeadLetter{}
		err := live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: letter}, dead)
		switch {
		case err == nil && dead.Spec.IsDiscarded(): // as if it were gone
		case err == nil:
			there = append(there, letter)
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("get DeadLetter: %w", err)
		}
	}
	return there, nil
}

// look takes the rest of a snapshot, from the API server: the holder, its term if it is gone, the dead letters that would block the
// key, and who is to have it next.
func (k *KeyKeeper) look(ctx context.Context, name types.NamespacedName, lock *key.Lock) (*key.Seen, *coordinationv1.Lease, error) {
	seen := &key.Seen{}
	if lock.Answer != nil {
		return seen, nil, nil
	}
	var err error
	if seen.Letters, err = lettersThere(ctx, k.Live, name.Namespace, lock.Letters(plan.DeadLetterName(lock.HolderName, lock.HolderUID))); err != nil {
		return nil, nil, err
	}
	if next := lock.Newest; next != nil && next.UID != lock.HolderUID {
		if seen.Next, err = taskState(ctx, k.Live, name.Namespace, next.Task, next.UID); err != nil {
			return nil, nil, err
		}
	}
	if lock.Holder == "" {
		return seen, nil, nil
	}
	if seen.Task, err = taskState(ctx, k.Live, name.Namespace, lock.HolderName, lock.HolderUID); err != nil {
		return nil, nil, err
	}
	if end, isKnown := k.holders.endOf(name, lock.HolderUID); isKnown && seen.Task == key.TaskGone {
		seen.Task = end
	}
	if seen.Task != key.TaskGone {
		return seen, nil, nil
	}
	term := &coordinationv1.Lease{}
	err = k.Live.Get(ctx, types.NamespacedName{Namespace: name.Namespace, Name: mailbox.Name(lock.HolderUID)}, term)
	if seen.HasTerm = err == nil; client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("get term of a holder that is gone: %w", err)
	}
	mark := fmt.Sprint(lock.UID, " ", lock.ResourceVersion, " ", seen.HasTerm, " ", term.UID, " ", term.ResourceVersion)
	seen.Since = k.holders.since(name, mark, k.Clock.Now())
	return seen, term, nil
}

// execute carries a decision out, on what it was made on.
func (k *KeyKeeper) execute(ctx context.Context, name types.NamespacedName, lock *key.Lock, seen *key.Seen, term *coordinationv1.Lease, keeping key.Keeping) error {
	var err error
	switch keeping.Action {
	case key.Leave:
		return nil
	case key.Delete:
		lease := &coordinationv1.Lease{}
		lease.Namespace, lease.Name, lease.UID, lease.ResourceVersion = name.Namespace, name.Name, types.UID(lock.UID), lock.ResourceVersion
		err = k.deleteLease(ctx, lease)
	case key.BlockIt:
		err = k.Client.Update(ctx, key.Block(lock, seen.Letters).Lease(name.Namespace))
	case key.PromiseIt:
		err = k.Client.Update(ctx, key.Promise(lock).Lease(name.Namespace))
	case key.EndTerm:
		return k.deleteLease(ctx, term)
	}
	if err != nil {
		return err // conflict and not-found are outcomes
	}
	k.holders.forget(name)
	keysEnded.WithLabelValues(string(keeping.Ground)).Inc()
	log.FromContext(ctx).V(3).Info("Ended the hold of a key", "action", keeping.Action, "ground", keeping.Ground, "holder", lock.HolderName)
	return nil
}

func (k *KeyKeeper) deleteLease(ctx context.Context, lease *coordinationv1.Lease) error {
	return k.Client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
}
