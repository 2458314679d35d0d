package api

import (
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
)

var pendingTasks = flag.Int("queue.pending", 1500, "number of tasks that wait in one queue; making 10,000 takes some minutes")

// TestTheNextDispatchCostsTheSameHoweverManyWait: of thousands of tasks that wait in a queue, one that ends lets the next start, and the
// others are not written.
func TestTheNextDispatchCostsTheSameHoweverManyWait(t *testing.T) {
	s := &queueScene{scene: set(t, nil)}
	s.judge = s.judgeCapacity()
	const concurrency, dispatches = 5, 20
	tq := s.makeQueue("bulk", v1alpha1.TaskQueueSpec{Concurrency: concurrency})
	begin := time.Now()
	s.create(*pendingTasks)
	t.Logf("made %d tasks in %s", *pendingTasks, time.Since(begin).Round(time.Second))
	s.ok(s.Poll(t.Context(), 10*patience, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(tq), tq); err != nil {
			return err
		}
		if want := int32(*pendingTasks - concurrency); !counts(want, concurrency)(&tq.Status) {
			return fmt.Errorf("%+v", tq.Status)
		}
		return nil
	}))
	s.ok(s.Poll(t.Context(), 2*patience, s.allAreTold))
	t.Logf("all wait after %s", time.Since(begin).Round(time.Second))

	time.Sleep(time.Second)
	versions := s.recordTasks()
	starts, _ := s.judge.seen()
	for range dispatches {
		s.finishOne()
	}
	s.ok(s.Poll(t.Context(), patience, func() error {
		if now, _ := s.judge.seen(); len(now) < len(starts)+dispatches {
			return fmt.Errorf("%d of %d have started", len(now)-len(starts), dispatches)
		}
		return nil
	}))
	time.Sleep(2 * time.Second)
	writes, ran := map[types.UID]int{}, map[types.UID]bool{}
	for _, version := range versions() {
		writes[version.UID]++
		ran[version.UID] = ran[version.UID] || version.Status.Attempt > 0
	}
	waiting := 0
	for uid, n := range writes {
		switch {
		case !ran[uid]:
			waiting += n
		case n > 4: // granted, running, completed, and one more for whatever the tests' pace makes of it
			t.Errorf("a task that ran was written %d times", n)
		}
	}
	// A task looks again every two minutes, and is written if its place has halved since: those at the head, a few.
	if waiting > dispatches {
		t.Errorf("%d dispatches wrote %d waiting tasks", dispatches, waiting)
	}
	t.Logf("%d dispatches wrote %d tasks that ran and %d that wait", dispatches, len(writes)-waiting, waiting)
	if _, most := s.judge.seen(); most != concurrency {
		t.Errorf("%d ran at the same time", most)
	}
}

// create makes so many tasks of the queue, many at a time.
func (s *queueScene) create(n int) {
	s.Helper()
	next, errs := make(chan int), make(chan error, n)
	var makers sync.WaitGroup
	for range 16 {
		makers.Go(func() {
			for i := range next {
				task := cluster.Task(s.namespace, fmt.Sprintf("task-%05d", i), "true")
				task.Spec.QueueName = "bulk"
				if err := admin.Create(s.Context(), task); err != nil {
					errs <- err
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	makers.Wait()
	if len(errs) > 0 {
		s.Fatal(<-errs)
	}
}

// allAreTold reports, as an error, a task that neither runs nor says what it waits for.
func (s *queueScene) allAreTold() error {
	list := &v1alpha1.LeasedTaskList{}
	if err := admin.List(s.Context(), list, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	for i := range list.Items {
		if task := &list.Items[i]; task.Status.Attempt == 0 && !waitsFor(v1alpha1.WaitingQueueConcurrency, "held by")(task) {
			return fmt.Errorf("%s: %s", task.Name, cluster.Describe(task))
		}
	}
	return nil
}

// finishOne finishes one of the tasks that run.
func (s *queueScene) finishOne() {
	s.Helper()
	var task *v1alpha1.LeasedTask
	s.ok(s.Poll(s.Context(), patience, func() error {
		s.judge.mu.Lock()
		defer s.judge.mu.Unlock()
		for name := range s.judge.open {
			candidate := &v1alpha1.LeasedTask{}
			if err := admin.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, candidate); err != nil {
				return err
			}
			if in(v1alpha1.PhaseClaimed, 1)(candidate) {
				task = candidate
				return nil
			}
		}
		return fmt.Errorf("none runs")
	}))
	a := s.agentOf(task)
	s.ok(a.claimTerm())
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted}))
	s.until(task, "completed", in(v1alpha1.PhaseCompleted, 1))
}
