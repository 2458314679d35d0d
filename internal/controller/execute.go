package controller

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// execute carries a plan out, and says when to look again. An answer that the plan could not know, a missing epoch, a
// refused revision, dead letter, key or Pod, a key that was taken, goes into the snapshot, and the same rules decide again, once for each.
func (r *Reconciler) execute(ctx context.Context, s *plan.Snapshot, p plan.Plan) (time.Duration, error) {
	log.FromContext(ctx).V(3).Info("Decided", "rule", p.Rule, "live", s.Live)
	for _, step := range []step{r.keepGiven, r.writeTerm, r.lock, r.bury, r.record, r.start} {
		isAnswered, err := step(ctx, s, &p)
		if err != nil {
			return 0, err
		}
		if isAnswered {
			return r.execute(ctx, s, r.decide(ctx, s))
		}
	}
	return r.conclude(ctx, s, &p)
}

// conclude does what follows once the plan's own writes are made, and says when to look again.
func (r *Reconciler) conclude(ctx context.Context, s *plan.Snapshot, p *plan.Plan) (time.Duration, error) {
	r.announce(s, p)
	if p.Watch > 0 {
		r.Observer.WakeIn(s.Task, p.Watch)
	}
	if err := r.tidy(ctx, p); err != nil {
		return 0, err
	}
	if p.DeleteTask {
		return 0, r.deleteTask(ctx, s.Task)
	}
	return max(0, p.Requeue), nil
}

func (r *Reconciler) endTerm(ctx context.Context, term *fencing.Term, p *plan.Plan) error {
	if p.Stop != nil {
		return r.patchTerm(ctx, term, "stop", fencing.StopPatch(term, *p.Stop))
	}
	return r.patchTerm(ctx, term, "revoke", fencing.RevokePatch(term, p.Revoke.ThisVersion))
}

// patchTerm stops or revokes the term exactly as it was seen. Losing that race is an outcome, not an error of the API server's. A
// holder that cannot be told to stop, because no patch will ever pass, loses its term at once; one that a broken policy shields keeps
// it until that is repaired.
func (r *Reconciler) patchTerm(ctx context.Context, term *fencing.Term, what string, patch []byte) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: term.Namespace, Name: term.Name}}
	err := r.Client.Patch(ctx, lease, client.RawPatch(types.JSONPatchType, patch))
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return lostError{fmt.Errorf("%s: %w", what, err)} // a deleted Lease is a revoked term: the next pass says so
	case apierrors.IsInvalid(err) && !isUnreasoned(err), apierrors.IsRequestEntityTooLargeError(err):
		return r.revokeByDeletion(ctx, term, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// revokeByDeletion follows a refused patch. If the Lease still is what was decided on, no patch will ever pass: it has grown
// beyond what the API server takes, or somebody gave it a form that no test fits. Deleting it revokes the term all the
// same. If it is not, it was claimed, renewed or submitted meanwhile, and the race is lost.
func (r *Reconciler) revokeByDeletion(ctx context.Context, term *fencing.Term, refusal error) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: term.Namespace, Name: term.Name}}
	uid, rv := types.UID(term.UID), term.ResourceVersion
	err := r.Client.Delete(ctx, lease, client.Preconditions{UID: &uid, ResourceVersion: &rv})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return lostError{fmt.Errorf("revoke: %w", refusal)}
	}
	if err != nil {
		return fmt.Errorf("revoke by deletion: %w", err)
	}
	return nil
}

// writeStatus patches the status, on the resourceVersion that the decision was made on.
func (r *Reconciler) writeStatus(ctx context.Context, s *plan.Snapshot, status *v1alpha1.LeasedTaskStatus) error {
	if status == nil {
		return nil
	}
	if !plan.IsLegal(s.Task.Status.Phase, status.Phase) {
		return fmt.Errorf("illegal phase change %s to %s", s.Task.Status.Phase, status.Phase)
	}
	next := s.Task.DeepCopy()
	next.Status = *status // the patch is the difference of the two, and so of the status alone
	err := r.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(s.Task, client.MergeFromWithOptimisticLock{}))
	if err != nil {
		return err // conflict and not-found are outcomes; the caller adds the rule
	}
	next.Spec = s.Task.Spec // not the API server's answer: that is the task's own alone
	s.Task = next
	return nil
}

// tidy deletes and limits Pods whose attempt is over.
func (r *Reconciler) tidy(ctx context.Context, p *plan.Plan) error {
	for _, pod := range p.DeletePods {
		if err := r.Client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Pod %s: %w", pod.Name, err)
		}
	}
	for _, limit := range p.LimitPods {
		next := limit.Pod.DeepCopy()
		next.Spec.ActiveDeadlineSeconds = &limit.Seconds
		err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(limit.Pod, client.MergeFromWithOptimisticLock{}))
		switch {
		case apierrors.IsForbidden(err), apierrors.IsInvalid(err): // by a quota, or a webhook: the worker has to end by itself
			log.FromContext(ctx).Info("A Pod cannot be given a deadline", "pod", limit.Pod.Name, "cause", err.Error())
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("limit Pod %s: %w", limit.Pod.Name, err)
		}
	}
	return nil
}

func (r *Reconciler) deleteTask(ctx context.Context, task *v1alpha1.LeasedTask) error {
	return r.Client.Delete(ctx, task, client.Preconditions{UID: &task.UID, ResourceVersion: &task.ResourceVersion},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// announce tells people and Prometheus what was done. It comes last: nothing is announced that did not happen.
func (r *Reconciler) announce(s *plan.Snapshot, p *plan.Plan) {
	for _, e := range p.Events {
		tell(r.Events, s.Task, &e)
	}
	if p.DeadLetter != nil {
		r.Events.Eventf(p.DeadLetter, s.Task, corev1.EventTypeWarning, "DeadLettered", "GiveUp", "%s",
			fencing.Truncate("LeasedTask "+s.Task.Name+" will not be tried again: "+p.DeadLetter.Spec.Message, 1000))
	}
	for _, c := range p.Counts {
		count(c)
	}
	if p.Result != nil {
		r.Turns.Observe(s.Task, *p.Result)
	}
	if p.Rule == plan.RuleExpired {
		verdictLag.Observe((s.Now.Sub(s.Since) - s.Term.Duration).Seconds())
	}
	p.Events, p.Counts, p.Result = nil, nil, nil
}

func tell(recorder events.EventRecorder, about runtime.Object, e *plan.Event) {
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	recorder.Eventf(about, nil, kind, e.Reason, e.Action, "%s", fencing.Truncate(e.Note, 1000))
}
