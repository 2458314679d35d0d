package controller

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
)

// readKeys reads the Leases of the task's keys. A finished task has none that matter.
func readKeys(ctx context.Context, from client.Reader, task *v1alpha1.LeasedTask) ([]plan.Key, error) {
	if task.Status.Phase.IsFinished() {
		return nil, nil
	}
	keys := plan.KeysOf(task)
	for i := range keys {
		lease, name := &coordinationv1.Lease{}, key.Name(keys[i].Kind, keys[i].Value)
		err := from.Get(ctx, types.NamespacedName{Namespace: task.Namespace, Name: name}, lease)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("get Lease of a key: %w", err)
		default:
			if keys[i].Lock = key.Read(lease); keys[i].Lock == nil {
				keys[i].Lock = foreign(lease, &keys[i])
			}
		}
	}
	return keys, nil
}

// lookAtRivals asks whether what stands between the task and its key is about to go: its holder has finished, say, and the keeper
// has not freed the key yet. A task that would be rejected is to wait for that.
func (r *Reconciler) lookAtRivals(ctx context.Context, s *plan.Snapshot) (err error) {
	for i := range s.Keys {
		if k := &s.Keys[i]; plan.MayBeRejected(s.Task, k) {
			if k.IsEnding, err = isEnding(ctx, r.Live, s.Task.Namespace, k.Lock); err != nil {
				return err
			}
		}
	}
	return nil
}

// isEnding reports whether whoever has the key, by what its Lease says, is finished or gone.
func isEnding(ctx context.Context, live client.Reader, namespace string, l *key.Lock) (bool, error) {
	if l.Holder == "" && len(l.BlockedBy) > 0 {
		there, err := lettersThere(ctx, live, namespace, l.BlockedBy)
		return len(there) == 0, err
	}
	name, uid := l.HolderName, l.HolderUID
	if l.Holder == "" && l.Newest != nil {
		name, uid = l.Newest.Task, l.Newest.UID
	}
	state, err := taskState(ctx, live, namespace, name, uid)
	return state != key.TaskUnfinished, err
}

// foreign is what a Lease of the right name means that is none of ours: somebody took its label or its key away. It counts as
// one that says nothing, and the next write puts it right.
func foreign(lease *coordinationv1.Lease, k *plan.Key) *key.Lock {
	return &key.Lock{UID: string(lease.UID), ResourceVersion: lease.ResourceVersion, Kind: k.Kind, Value: k.Value}
}

// writeKey creates or updates the Lease of a key, by compare-and-swap, and puts it into the snapshot. A refusal is an answer, and
// is put on the task's status; it is not asked for again for a while, whatever causes passes meanwhile: one whose text differs each
// time would otherwise cause them itself.
func (r *Reconciler) writeKey(ctx context.Context, s *plan.Snapshot, lock *key.Lock) (refusal string, err error) {
	if refusal, isRecent := r.unkeyed.recent(s.Task, r.Clock.Now()); isRecent {
		return refusal, nil
	}
	lease := lock.Lease(s.Task.Namespace)
	if lock.ResourceVersion == "" {
		err = r.Client.Create(ctx, lease)
	} else {
		err = r.Client.Update(ctx, lease)
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return "", lostError{fmt.Errorf("write Lease of a key: %w", err)}
	case err == nil:
	case isNamespaceTerminating(err):
		return "", err
	case isRefusal(err):
		r.unkeyed.remember(s.Task, err.Error(), r.Clock.Now())
		return err.Error(), nil
	default:
		return "", fmt.Errorf("write Lease of a key: %w", err)
	}
	for i := range s.Keys {
		if s.Keys[i].Kind == lock.Kind {
			s.Keys[i].Lock = key.Read(lease)
		}
	}
	return "", nil
}
