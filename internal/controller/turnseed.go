package controller

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

const (
	// seedPage is how many objects one request of the seed reads.
	seedPage = 500
	// seedRetry is the pause after a seed that failed.
	seedRetry = time.Second
)

// Seeder seeds Turns when leadership begins: a cache may not show yet what the leader before has granted.
type Seeder struct {
	Turns *Turns
	Live  client.Reader
}

// Start seeds, until that has succeeded. As a runnable that needs leadership it is not started on a standby, which keeps no queues.
func (s *Seeder) Start(ctx context.Context) error {
	_ = wait.PollUntilContextCancel(ctx, seedRetry, true, func(ctx context.Context) (bool, error) {
		err := s.Seed(ctx)
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Could not read who holds capacity, no task of a queue starts; will try again")
		}
		return err == nil, nil
	})
	return nil
}

// Seed reads all terms and tasks from the API server, and then lets tasks start.
func (s *Seeder) Seed(ctx context.Context) error {
	terms := map[string]*fencing.Term{} // that are open, by the UID of their task
	err := s.pages(ctx, &coordinationv1.LeaseList{}, func(list client.ObjectList) {
		for i := range list.(*coordinationv1.LeaseList).Items {
			lease := &list.(*coordinationv1.LeaseList).Items[i]
			if uid := lease.Labels[mailbox.TaskLabel]; isTermOf(lease, uid) {
				if term := mailbox.Read(lease); term.IsOpen() {
					terms[uid] = term
				}
			}
		}
	}, client.HasLabels{mailbox.TaskLabel})
	if err != nil {
		return err
	}
	err = s.pages(ctx, &v1alpha1.LeasedTaskList{}, func(list client.ObjectList) {
		for i := range list.(*v1alpha1.LeasedTaskList).Items {
			task := &list.(*v1alpha1.LeasedTaskList).Items[i]
			if term := terms[string(task.UID)]; term != nil || plan.HoldsPlace(&task.Status) {
				s.Turns.See(task, term)
			}
		}
	})
	if err != nil {
		return err
	}
	s.Turns.begin()
	return nil
}

// pages lists all objects of a kind, each page as of the same version.
func (s *Seeder) pages(ctx context.Context, list client.ObjectList, each func(client.ObjectList), options ...client.ListOption) error {
	for {
		page := append([]client.ListOption{client.Limit(seedPage), client.Continue(list.GetContinue())}, options...)
		if err := s.Live.List(ctx, list, page...); err != nil {
			return fmt.Errorf("list %T: %w", list, err)
		}
		if each(list); list.GetContinue() == "" {
			return nil
		}
	}
}

// begin lets tasks start. Those that have asked before are asked to ask again, and those that went meanwhile are looked for.
func (t *Turns) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.isSeeded = true
	for name, p := range t.places {
		if !p.isOpen { // its Lease was read first, and may have been closed, and seen so, before the task was
			t.wakeTask(name)
		}
	}
	for name := range t.later {
		t.wakeTask(name)
	}
	t.later = nil
	for name := range t.lines {
		t.tellQueue(name)
	}
}
