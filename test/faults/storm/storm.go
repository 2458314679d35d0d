package storm

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
	"github.com/leasehold-io/leasehold/test/faults/checker"
	"github.com/leasehold-io/leasehold/test/faults/harness"
)

// Options of a run.
type Options struct {
	Duration time.Duration // of the faults
	Tasks    int           // at least; faults go on until as many were started
	InFlight int
	Seed     uint64
	Out      io.Writer // progress
}

// Result is what became of a run.
type Result struct {
	Options
	Start, FaultsEnd, End time.Time
	Faults                map[string]*Tally // by kind
	Tasks                 []v1alpha1.LeasedTask
	checker.Report
}

// Tally counts the faults of a kind.
type Tally struct {
	Done   int
	Missed int // the target was gone, or could not be reached
}

const (
	// drain bounds the time that tasks have to end once nothing hurts them any more.
	drain = 10 * time.Minute
	// settle lets late words arrive, and the operator hear them.
	settle = 5 * time.Second
)

// storm is a run under way.
type storm struct {
	*harness.Harness
	Options
	begin time.Time

	mu      sync.Mutex
	tally   map[string]*Tally
	busy    map[string]bool                 // targets that a fault holds
	tasks   map[string]*v1alpha1.LeasedTask // as last seen
	started int
	hung    map[string]bool // Pods that were ended because their worker was ordered to hang
}

// Run runs a storm. An error says that the run could not be made; what the checker found is in the result.
func Run(ctx context.Context, h *harness.Harness, o Options) (*Result, error) {
	s := &storm{Harness: h, Options: o, begin: time.Now(), tally: map[string]*Tally{}, busy: map[string]bool{},
		tasks: map[string]*v1alpha1.LeasedTask{}, hung: map[string]bool{}}
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	var background sync.WaitGroup
	failed := make(chan error, 1)
	background.Go(func() { s.watch(working) })
	background.Go(func() {
		if err := s.feed(working, rand.New(rand.NewPCG(o.Seed, 1))); err != nil {
			failed <- err
		}
	})
	s.hurt(working, rand.New(rand.NewPCG(o.Seed, 2)), failed)
	faultsEnd := time.Now()
	if err := s.Repair(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	s.sayf("The faults are over and everything is put back; %d tasks have yet to end", s.unfinished())
	s.awaitEnd(ctx)
	stopWorking()
	background.Wait()
	select {
	case err := <-failed:
		return nil, err
	default:
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	time.Sleep(settle)
	return s.result(ctx, faultsEnd)
}

func (s *storm) result(ctx context.Context, faultsEnd time.Time) (*Result, error) {
	evidence, err := s.Evidence(ctx)
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.LeasedTaskList{}
	if err := s.Try(ctx, func() error { return s.List(ctx, list, client.InNamespace(s.Namespace)) }); err != nil {
		return nil, err
	}
	s.sayf("Checking %d audit events, %d journals, %d rows", len(evidence.Events), len(evidence.Journals), len(evidence.Accepted))
	r := &Result{Options: s.Options, Start: s.begin, FaultsEnd: faultsEnd, End: time.Now(), Faults: s.tally, Tasks: list.Items, Report: checker.Check(evidence)}
	if lost := s.started - len(list.Items); lost > 0 {
		r.Violations = append(r.Violations, checker.Violation{Rule: checker.Complete, Evidence: fmt.Sprintf("%d of %d tasks are gone", lost, s.started)})
	}
	return r, nil
}

// awaitEnd waits until all tasks have ended, within bounds: the checker says which did not.
func (s *storm) awaitEnd(ctx context.Context) {
	_ = s.Poll(ctx, drain, func() error {
		if n := s.unfinished(); n > 0 {
			return fmt.Errorf("%d tasks have not ended", n)
		}
		return nil
	})
}

// watch keeps what is known of the tasks fresh, as far as the API server answers.
func (s *storm) watch(ctx context.Context) {
	for ctx.Err() == nil {
		list := &v1alpha1.LeasedTaskList{}
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		if err := s.List(attempt, list, client.InNamespace(s.Namespace)); err == nil {
			s.note(list.Items)
		}
		cancel()
		s.endHung(ctx)
		sleep(ctx, time.Second)
	}
}

func (s *storm) note(seen []v1alpha1.LeasedTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range seen {
		s.tasks[seen[i].Name] = &seen[i]
	}
}

// unfinished counts what was started and has not been seen to end.
func (s *storm) unfinished() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := s.started
	for _, task := range s.tasks {
		if cluster.IsFinished(task) {
			count--
		}
	}
	return count
}

func (s *storm) sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Out, "%8s  %s\n", time.Since(s.begin).Round(100*time.Millisecond), fmt.Sprintf(format, args...))
}

// sleep returns early when the context ends.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
