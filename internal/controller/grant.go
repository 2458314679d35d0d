package controller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// grant begins a term: the epoch is read live, the worker role is bound, the Lease is written, and the resourceVersion of
// that very write becomes the token. The status that records it is put into the plan. A problem is something outside the
// task that forbids grants.
func (r *Reconciler) grant(ctx context.Context, s *plan.Snapshot, p *plan.Plan) (*plan.GrantProblem, error) {
	floor := fencing.Token(s.Task.Status.FencingToken)
	epoch, problem, err := r.mayGrant(ctx, s)
	if problem != nil || err != nil {
		return problem, err
	}
	lease := p.Grant.Lease(s.Task.Namespace, s.Task.Name, plan.OwnerOf(s.Task))
	if p.Grant.Over == "" {
		err = r.Client.Create(ctx, lease)
	} else {
		err = r.Client.Update(ctx, lease)
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, lostError{fmt.Errorf("grant: %w", err)}
	case err != nil:
		return nil, fmt.Errorf("grant: %w", err)
	}
	if err := r.isEpochStill(ctx, epoch); err != nil {
		return nil, err
	}
	token, err := fencing.NewToken(epoch, lease.ResourceVersion)
	if err != nil {
		return nil, fmt.Errorf("grant: %w", err)
	}
	if token <= floor {
		return nil, fmt.Errorf("grant: token %d is not above %d", token, floor)
	}
	p.Status = plan.Granted(s, p.Grant, string(lease.UID), token)
	s.Term = mailbox.Read(lease)
	s.Since = r.Observer.See(s.Task, s.Term, s.Now)
	return nil, nil
}

// isEpochStill fails if the epoch was raised since it was read. A grant that was under way meanwhile, in a process that froze, would
// have a token below those that were granted in the new epoch; with the same epoch before and after the write, tokens rise in the
// order of the writes. The Lease is left as a grant that nobody recorded.
func (r *Reconciler) isEpochStill(ctx context.Context, epoch int64) error {
	now, err := r.Epoch.Read(ctx, epoch)
	if err != nil {
		return fmt.Errorf("grant: read the epoch again: %w", err)
	}
	if now != epoch {
		return lostError{fmt.Errorf("grant: the epoch was raised from %d to %d meanwhile", epoch, now)}
	}
	return nil
}

// mayGrant looks at what every grant needs beside its task: the epoch, and that the worker may speak.
func (r *Reconciler) mayGrant(ctx context.Context, s *plan.Snapshot) (epoch int64, problem *plan.GrantProblem, err error) {
	if epoch, err = r.Epoch.Read(ctx, fencing.Token(s.Task.Status.FencingToken).Epoch()); err != nil {
		problem, err = problemOf(err, v1alpha1.WaitingEpochMissing)
		return 0, problem, err
	}
	// The grant's revision will be above this one. Looking first keeps a problem from costing a Lease write each time.
	floor := fencing.Token(s.Task.Status.FencingToken)
	if lowest, err := fencing.NewToken(epoch, s.Revision); err == nil && lowest < floor {
		return 0, &plan.GrantProblem{Reason: v1alpha1.WaitingEpochMissing, Message: fmt.Sprintf(
			"a grant in epoch %d would have a token below %d: the cluster's revisions went back; raise the epoch", epoch, floor)}, nil
	}
	if err = r.bindWorkerRole(ctx, s.Task.Namespace, s.NextTemplate().Spec.ServiceAccountName); err != nil {
		problem, err = problemOf(err, v1alpha1.WaitingWorkerRole)
	}
	return epoch, problem, err
}

// lookAgain looks whether a task would be refused once more what it was refused before, and notes that for the next decision. An error says
// nothing: with its turn, the task will meet it, too.
func (r *Reconciler) lookAgain(ctx context.Context, s *plan.Snapshot) {
	if want := s.ToKeep(); want != nil {
		s.RevisionRefusal, _ = r.keepRevision(ctx, s.Task, want)
	}
	if s.Task.Status.FencingToken > 0 { // a cache does not say how far the API server is
		pods := &corev1.PodList{}
		if err := r.Live.List(ctx, pods, client.InNamespace(s.Task.Namespace), client.Limit(1)); err == nil {
			s.Revision = pods.ResourceVersion
		}
	}
	_, s.GrantProblem, _ = r.mayGrant(ctx, s)
}

// problemOf tells a problem that a person must solve from an error that may pass by itself.
func problemOf(err error, reason string) (*plan.GrantProblem, error) {
	if problem, ok := err.(problemError); ok { //nolint:errorlint // made by the two callees and never wrapped
		return &plan.GrantProblem{Reason: reason, Message: string(problem)}, nil
	}
	return nil, err
}

// problemError is a sentence for the person who must act.
type problemError string

func (e problemError) Error() string { return string(e) }
