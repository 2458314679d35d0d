package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// Options is what an operator is told beyond what its manager is.
type Options struct {
	Epoch       types.NamespacedName // the ConfigMap that holds the epoch of fencing tokens
	Agent       plan.AgentImage
	Concurrency int // tasks worked on at the same time
	// DeadLetterRetention is how long a dead letter stays that was replayed or discarded; 0: until somebody deletes it.
	DeadLetterRetention time.Duration
	// KeepPods is how many finished Pods stay in each namespace, with their logs. KeepPause is how long a namespace is left alone
	// after something has ended there; 0: the usual time.
	KeepPods  int
	KeepPause time.Duration
	// QueuePause is the least time between two writes of a TaskQueue's status; 0: the usual time.
	QueuePause time.Duration
	// RevisionPatience is how long what a queue gave to its tasks stays after it was last of use; 0: the usual time.
	RevisionPatience time.Duration
}

// Add makes a manager, whose cache is that of [CacheOptions], an operator. The sight that it returns tells whether the
// operator can see.
func Add(ctx context.Context, mgr ctrl.Manager, o Options) (*Sight, error) {
	var c clock.RealClock
	sight := NewSight()
	if err := mgr.Add(&Looker{Sight: sight, Live: mgr.GetAPIReader(), Clock: c, Name: o.Epoch}); err != nil {
		return nil, fmt.Errorf("add looker: %w", err)
	}
	r := &Reconciler{
		Client:   mgr.GetClient(),
		Live:     mgr.GetAPIReader(),
		Clock:    c,
		Events:   mgr.GetEventRecorder("leasehold"),
		Observer: NewObserver(c, sight),
		Turns:    NewTurns(c),
		Epoch:    &ConfigMapEpoch{Live: mgr.GetAPIReader(), Name: o.Epoch},
		Agent:    o.Agent,
		Random:   NewRandom(),
	}
	if err := mgr.Add(&Seeder{Turns: r.Turns, Live: r.Live}); err != nil {
		return nil, fmt.Errorf("add seeder: %w", err)
	}
	queues := &QueueKeeper{Client: r.Client, Clock: c, Events: r.Events, Turns: r.Turns, Pause: cmp.Or(o.QueuePause, queuePause)}
	replayer := &Replayer{Client: r.Client, Live: r.Live, Clock: c, Events: r.Events, Retention: o.DeadLetterRetention}
	keys := &KeyKeeper{Client: r.Client, Live: r.Live, Clock: c}
	revisions := &RevisionKeeper{Client: r.Client, Live: r.Live, Clock: c, Patience: cmp.Or(o.RevisionPatience, revisionPatience)}
	pods := &PodKeeper{Client: r.Client, Live: r.Live, Clock: c, Keep: o.KeepPods, Pause: cmp.Or(o.KeepPause, keepPause)}
	return sight, errors.Join(r.setup(ctx, mgr, o.Concurrency), replayer.setup(mgr), keys.setup(ctx, mgr), pods.setup(ctx, mgr),
		queues.setup(mgr), revisions.setup(ctx, mgr))
}
