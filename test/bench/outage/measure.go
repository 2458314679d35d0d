package outage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// Measure makes a new queue and its tasks, and watches them until all have finished, for the patience at most.
func Measure(ctx context.Context, c *cluster.Cluster, l Load, patience time.Duration) (r *Record, err error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	g, err := startGateway(l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.server.Close()) }()
	w, err := watchOver(ctx, c, l.Namespace)
	if err != nil {
		return nil, err
	}
	if err := c.Create(ctx, l.Queue()); err != nil {
		return nil, err
	}
	for i := range l.Tasks {
		if err := c.Create(ctx, l.task(i, g.url)); err != nil {
			return nil, err
		}
	}
	finished, err := untilFinished(ctx, c, l, patience)
	if err != nil {
		return nil, err
	}
	return record(l, g, w, finished), nil
}

func untilFinished(ctx context.Context, c *cluster.Cluster, l Load, patience time.Duration) ([]v1alpha1.LeasedTask, error) {
	tasks := &v1alpha1.LeasedTaskList{}
	err := c.Poll(ctx, patience, func() error {
		if err := c.List(ctx, tasks, client.InNamespace(l.Namespace)); err != nil {
			return err
		}
		for i := range tasks.Items {
			if !cluster.IsFinished(&tasks.Items[i]) {
				return fmt.Errorf("task %s is not yet finished: %s", tasks.Items[i].Name, cluster.Describe(&tasks.Items[i]))
			}
		}
		return nil
	})
	return tasks.Items, err
}

func record(l Load, g *gateway, w *witness, finished []v1alpha1.LeasedTask) *Record {
	r := &Record{Load: l, Phases: map[v1alpha1.Phase]int{}}
	r.Begin, r.Calls = g.seen()
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Starts, r.Pauses, r.Changes, r.Levels = slices.Clone(w.starts), slices.Clone(w.pauses), slices.Clone(w.changes), slices.Clone(w.levels)
	slices.SortStableFunc(r.Starts, func(a, b Start) int { return a.At.Compare(b.At) })
	for i := range finished {
		r.Phases[finished[i].Status.Phase]++
	}
	return r
}
