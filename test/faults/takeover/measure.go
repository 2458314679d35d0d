package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
	"github.com/leasehold-io/leasehold/test/faults/harness"
	"github.com/leasehold-io/leasehold/test/faults/journal"
	"github.com/leasehold-io/leasehold/test/faults/order"
)

const (
	// together is how many tasks one round has.
	together = 10
	// away is the node that is lost, home is where the next attempts go.
	home, away = "lh-n1", "lh-n2"
	patience   = 3 * time.Minute
)

// story is a way to lose an attempt.
type story struct {
	name, beside string
	order        order.Order
	placed       bool // attempt 1 of every task is on the node that is lost
	// hurt loses attempt 1 of the tasks, and returns when; nil: they end by themselves. undo puts things back.
	hurt func(*measurement, context.Context, []*v1alpha1.LeasedTask) (time.Time, error)
	undo func(*measurement, context.Context) error
}

var stories = []story{
	{name: "clean exit", beside: "back-off = 1 s", order: order.Order{Seconds: 4, Mode: order.Fail, Bad: 1}},
	{name: "worker's death", beside: "back-off = 1 s; nothing waits for D, the kubelet sees it end", order: order.Order{Seconds: 20}, hurt: (*measurement).killAgents},
	{name: "node loss", beside: "D + back-off = 11 s from the last renewal seen", order: order.Order{Seconds: 30}, placed: true,
		hurt: (*measurement).cut, undo: (*measurement).heal},
}

// series is what was measured for a story.
type series struct {
	story
	idle  []time.Duration // from the last beat to the first
	since []time.Duration // from the fault to the first beat
}

type measurement struct {
	*harness.Harness
	begin time.Time
	tasks int
}

// round starts tasks, loses their first attempts, and measures when the second ones begin.
func (m *measurement) round(ctx context.Context, round int, s *series) error {
	if s.placed {
		if err := m.cordon(ctx, home, true); err != nil {
			return err
		}
	}
	tasks, err := m.start(ctx, s.order)
	if err != nil {
		return err
	}
	var hurt time.Time
	if s.hurt != nil {
		if err := m.until(ctx, tasks, "running", cluster.IsRunning(1)); err != nil {
			return err
		}
		time.Sleep(2*time.Second + time.Duration(round*371%2500)*time.Millisecond) // at any point between two renewals
		if hurt, err = s.hurt(m, ctx, tasks); err != nil {
			return err
		}
	}
	err = m.until(ctx, tasks, "running attempt 2", func(task *v1alpha1.LeasedTask) bool {
		return cluster.IsRunning(2)(task) || cluster.IsFinished(task)
	})
	if s.undo != nil {
		if err := s.undo(m, context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if err := m.until(ctx, tasks, "finished", cluster.IsFinished); err != nil {
		return err
	}
	return m.collect(tasks, hurt, s)
}

func (m *measurement) start(ctx context.Context, o order.Order) ([]*v1alpha1.LeasedTask, error) {
	tasks := make([]*v1alpha1.LeasedTask, together)
	for i := range tasks {
		m.tasks++
		task, err := m.Task(fmt.Sprintf("t%03d", m.tasks), o)
		if err != nil {
			return nil, err
		}
		task.Spec.Retry.Backoff = v1alpha1.BackoffSpec{InitialSeconds: 1, MaxSeconds: 1, Jitter: v1alpha1.JitterNone}
		if err := m.Submit(ctx, task, false); err != nil {
			return nil, err
		}
		tasks[i] = task
	}
	return tasks, nil
}

func (m *measurement) until(ctx context.Context, tasks []*v1alpha1.LeasedTask, what string, is func(*v1alpha1.LeasedTask) bool) error {
	for _, task := range tasks {
		if err := m.Until(ctx, task, patience, what, is); err != nil {
			return err
		}
	}
	return nil
}

// collect reads the journals of tasks that have finished.
func (m *measurement) collect(tasks []*v1alpha1.LeasedTask, hurt time.Time, s *series) error {
	processes, err := journal.ReadAll(os.DirFS(m.Journals))
	if err != nil {
		return err
	}
	for _, task := range tasks {
		var last, next time.Time
		for i := range processes {
			p := &processes[i]
			switch {
			case p.Task != task.Name:
			case p.Attempt == 1 && p.LastSeen().After(last):
				last = p.LastSeen()
			case p.Attempt == 2 && (next.IsZero() || p.Started.Before(next)):
				next = p.Started
			}
		}
		if last.IsZero() || next.Before(last) || task.Status.Attempt != 2 {
			return fmt.Errorf("task %s: attempt 1 was last seen at %s, attempt 2 began at %s: %s", task.Name, last, next, cluster.Describe(task))
		}
		s.idle = append(s.idle, next.Sub(last))
		if !hurt.IsZero() {
			s.since = append(s.since, next.Sub(hurt))
		}
	}
	return nil
}

func (m *measurement) killAgents(ctx context.Context, tasks []*v1alpha1.LeasedTask) (time.Time, error) {
	begin := time.Now()
	for _, task := range tasks {
		if err := m.KillAgent(ctx, task.Status.Holder.PodName); err != nil {
			return begin, err
		}
	}
	return begin, nil
}

// cut loses the node under all tasks at once.
func (m *measurement) cut(ctx context.Context, _ []*v1alpha1.LeasedTask) (time.Time, error) {
	if err := m.cordon(ctx, home, false); err != nil {
		return time.Time{}, err
	}
	if err := m.cordon(ctx, away, true); err != nil {
		return time.Time{}, err
	}
	begin := time.Now()
	_, err := m.Localcluster(ctx, "partition", away)
	return begin, err
}

func (m *measurement) heal(ctx context.Context) error {
	if _, err := m.Localcluster(ctx, "heal", away); err != nil {
		return err
	}
	if err := m.cordon(ctx, away, false); err != nil {
		return err
	}
	return m.Poll(ctx, patience, func() error {
		node := &corev1.Node{}
		if err := m.Get(ctx, types.NamespacedName{Name: away}, node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("node %s is not ready", away)
	})
}

func (m *measurement) cordon(ctx context.Context, name string, isCordoned bool) error {
	return m.Try(ctx, func() error {
		node := &corev1.Node{}
		if err := m.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
			return err
		}
		before := node.DeepCopy()
		node.Spec.Unschedulable = isCordoned
		return m.Patch(ctx, node, client.MergeFrom(before))
	})
}

// percentile is the smallest value that p percent do not exceed.
func percentile(values []time.Duration, p int) string {
	if len(values) == 0 {
		return ""
	}
	sorted := slices.Sorted(slices.Values(values))
	at := (len(sorted)*p+99)/100 - 1
	return fmt.Sprintf("%.1f s", sorted[max(at, 0)].Seconds())
}
