package controller

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// +kubebuilder:rbac:groups=leasehold.io,resources=leasedtasks,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=leasehold.io,resources=leasedtasks/status,verbs=get;patch
// +kubebuilder:rbac:groups=leasehold.io,resources=taskqueues,verbs=get;list;watch
// +kubebuilder:rbac:groups=leasehold.io,resources=taskqueues/status,verbs=get;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=internal.leasehold.io,resources=mailboxes,verbs=coordinate
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=nodes;namespaces;serviceaccounts,verbs=get
// +kubebuilder:rbac:groups=leasehold.io,resources=deadletters,verbs=get;create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=rolebindings,verbs=create;get;list;watch;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=leasehold-worker,verbs=bind
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=leasehold-mailbox;leasehold-lease-create,verbs=get

// Reconciler takes one task at a time one step further.
type Reconciler struct {
	// Client reads from the cache and writes. Live reads from the API server.
	Client client.Client
	Live   client.Reader
	Clock  clock.WithDelayedExecution
	Events events.EventRecorder

	Observer *Observer
	Turns    *Turns
	Epoch    EpochReader
	Agent    plan.AgentImage
	// Random is the source of jitter and of Pod name suffixes.
	Random Random

	refused  refusals[*plan.PodRefusal] // of attempts' Pods
	unburied refusals[string]           // of dead letters
	unkeyed  refusals[string]           // of keys' Leases
	unkept   refusals[string]           // of what queues give
	mounts   mountLooks
}

// conflictPause is when to look again after losing a race, should no event come first.
const conflictPause = time.Second

// Reconcile is one pass.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s, err := r.gather(ctx, r.cached(), req.NamespacedName)
	if err != nil || s == nil {
		return ctrl.Result{}, err
	}
	p := r.decide(ctx, s)
	if p.NeedsLive() {
		if s, err = r.gatherLive(ctx, s); err != nil || s == nil {
			return ctrl.Result{}, err
		}
		p = r.decide(ctx, s)
	}
	decisions.WithLabelValues(string(p.Rule)).Inc()
	next, err := r.execute(ctx, s, p)
	r.Turns.See(s.Task, s.Term) // as they are now
	switch {
	case isLost(err):
		log.FromContext(ctx).V(3).Info("Lost a race, will look again", "rule", p.Rule, "cause", err.Error())
		return ctrl.Result{RequeueAfter: conflictPause}, nil
	case isGone(err):
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("rule %s: %w", p.Rule, err)
	}
	return ctrl.Result{RequeueAfter: next}, nil
}

// decide asks the rules, and the task's queue where they leave it to that. A task that goes on without its queue leaves it; what it
// holds is seen first.
func (r *Reconciler) decide(ctx context.Context, s *plan.Snapshot) plan.Plan {
	r.Turns.See(s.Task, s.Term)
	p := plan.Decide(s)
	if p.AskTurn && !s.Live && s.WasRefused() { // what is decided live, the grant looks at
		r.lookAgain(ctx, s)
		p = plan.Decide(s)
	}
	if p.AskTurn {
		s.Turn = r.Turns.Ask(s.Task, s.Queue)
		p = plan.Decide(s)
	}
	if !p.KeepPlace {
		r.Turns.Leave(s.Task)
	}
	return p
}

// lostError: somebody else's write came first. The next pass decides on what stands then.
type lostError struct{ cause error }

func (e lostError) Error() string { return e.cause.Error() }
func (e lostError) Unwrap() error { return e.cause }

// isLost reports whether an error means that a compare-and-swap lost.
func isLost(err error) bool {
	_, lost := err.(lostError) //nolint:errorlint // made here and never wrapped
	return lost || apierrors.IsConflict(err)
}

// isGone reports whether an error means that there is nothing left to work on: no task, or a namespace going away.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) || isNamespaceTerminating(err)
}
