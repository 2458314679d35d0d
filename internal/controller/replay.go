package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan/replay"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// +kubebuilder:rbac:groups=leasehold.io,resources=deadletters,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=leasehold.io,resources=deadletters/status,verbs=get;patch
// +kubebuilder:rbac:groups=leasehold.io,resources=leasedtasks,verbs=get;create;delete

// Replayer answers the replay requests of dead letters.
type Replayer struct {
	// Client reads from the cache and writes. Live reads from the API server.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	Events events.EventRecorder
	// Retention is how long a settled dead letter stays that does not say so itself; 0: until somebody deletes it.
	Retention time.Duration
}

// replaysAtOnce is the number of dead letters worked on at the same time. Replaying is a person's work, and rare.
const replaysAtOnce = 4

// setup registers the watch. Only a changed spec is worth a pass: status is ours.
func (r *Replayer) setup(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.DeadLetter{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: replaysAtOnce}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("set up controller: %w", err)
	}
	return nil
}

// Reconcile is one pass: get, plan, execute.
func (r *Replayer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s, err := r.look(ctx, r.Client, req.NamespacedName)
	if err != nil || s == nil {
		return ctrl.Result{}, err
	}
	p := replay.Decide(s)
	if p.NeedsLive {
		if s, err = r.look(ctx, r.Live, req.NamespacedName); err != nil || s == nil {
			return ctrl.Result{}, err
		}
		s.Live = true
		p = replay.Decide(s)
	}
	if p.Create != nil {
		if s.Answer, err = r.create(ctx, s.DeadLetter, p.Create); err != nil {
			return ctrl.Result{}, ignoreGone(err)
		}
		p = replay.Decide(s)
	}
	err = r.writeStatus(ctx, s, p.Status)
	switch {
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: conflictPause}, r.takeBack(ctx, s)
	case err != nil:
		return ctrl.Result{}, ignoreGone(err)
	}
	if p.Delete {
		if err := r.delete(ctx, s.DeadLetter); err != nil {
			return ctrl.Result{}, err
		}
	}
	r.announce(s, &p)
	return ctrl.Result{RequeueAfter: p.Requeue}, nil
}

func ignoreGone(err error) error {
	if isGone(err) {
		return nil
	}
	return err
}

// look takes a snapshot. It is nil if the dead letter is gone.
func (r *Replayer) look(ctx context.Context, from client.Reader, key types.NamespacedName) (*replay.Snapshot, error) {
	dead := &v1alpha1.DeadLetter{}
	if err := from.Get(ctx, key, dead); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get DeadLetter: %w", err)
	}
	return &replay.Snapshot{Now: r.Clock.Now(), DeadLetter: dead, Retention: r.Retention}, nil
}

// create makes the task of a request, or finds that it was made. A 4xx is the API server's word on the task, and final; after
// any other answer the task may or may not exist, and asking again tells.
func (r *Replayer) create(ctx context.Context, dead *v1alpha1.DeadLetter, task *v1alpha1.LeasedTask) (*replay.Answer, error) {
	err := r.Client.Create(ctx, task)
	if apierrors.IsAlreadyExists(err) {
		found := &v1alpha1.LeasedTask{}
		switch err = r.Live.Get(ctx, client.ObjectKeyFromObject(task), found); {
		case err != nil: // gone, though it was there a moment ago, say
			return &replay.Answer{Refusal: err.Error()}, nil
		case !replay.IsReplay(found, dead):
			return &replay.Answer{Refusal: "another LeasedTask is named " + found.Name, IsFinal: true}, nil
		}
		task = found
	}
	switch {
	case err == nil:
		return &replay.Answer{Name: task.Name, UID: string(task.UID)}, nil
	case isNamespaceTerminating(err):
		return nil, err
	}
	return &replay.Answer{Refusal: err.Error(), IsFinal: isFinal(err)}, nil
}

// isFinal reports whether an answer would be the same next time, for all that we can know.
func isFinal(err error) bool { return codeOf(err)/100 == 4 && isRefusal(err) }

// writeStatus patches the status, on the resourceVersion that the decision was made on.
func (r *Replayer) writeStatus(ctx context.Context, s *replay.Snapshot, status *v1alpha1.DeadLetterStatus) error {
	if status == nil {
		return nil
	}
	next := s.DeadLetter.DeepCopy()
	next.Status = *status
	return r.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(s.DeadLetter, client.MergeFromWithOptimisticLock{}))
}

// delete removes the dead letter exactly as it was decided on: a request, or a longer retention, that came first keeps it.
func (r *Replayer) delete(ctx context.Context, dead *v1alpha1.DeadLetter) error {
	err := r.Client.Delete(ctx, dead, client.Preconditions{UID: &dead.UID, ResourceVersion: &dead.ResourceVersion})
	if err != nil {
		return fmt.Errorf("delete DeadLetter: %w", err)
	}
	return nil
}

// takeBack follows a status that was not written. A process that froze between reading and creating may have made its task
// long after another had answered the request, and after that one's task was gone; then the one on record is the one.
func (r *Replayer) takeBack(ctx context.Context, s *replay.Snapshot) error {
	if s.Answer == nil || s.Answer.UID == "" {
		return nil
	}
	now, err := r.look(ctx, r.Live, client.ObjectKeyFromObject(s.DeadLetter))
	if err != nil || now == nil || now.DeadLetter.UID != s.DeadLetter.UID {
		return err
	}
	for _, record := range now.DeadLetter.Status.Replays {
		if record.Request == s.DeadLetter.Spec.Replay.Request && record.TaskUID != s.Answer.UID {
			task, uid := &v1alpha1.LeasedTask{}, types.UID(s.Answer.UID)
			task.Namespace, task.Name = s.DeadLetter.Namespace, s.Answer.Name
			return client.IgnoreNotFound(r.Client.Delete(ctx, task, client.Preconditions{UID: &uid}))
		}
	}
	return nil
}

// announce comes last: nothing is announced that did not happen.
func (r *Replayer) announce(s *replay.Snapshot, p *replay.Plan) {
	for _, e := range p.Events {
		kind := corev1.EventTypeNormal
		if e.Warning {
			kind = corev1.EventTypeWarning
		}
		r.Events.Eventf(s.DeadLetter, nil, kind, e.Reason, e.Action, "%s", fencing.Truncate(e.Note, 1000))
	}
	if s.Answer != nil && s.Answer.UID != "" && len(p.Events) > 0 {
		task := &v1alpha1.LeasedTask{}
		task.Namespace, task.Name, task.UID = s.DeadLetter.Namespace, s.Answer.Name, types.UID(s.Answer.UID)
		r.Events.Eventf(task, s.DeadLetter, corev1.EventTypeNormal, "Replays", "Replay", "Replays DeadLetter %s, request %d",
			s.DeadLetter.Name, s.DeadLetter.Spec.Replay.Request)
	}
	for _, c := range p.Counts {
		count(c)
	}
}
