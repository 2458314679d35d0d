package ingress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold-io/leasehold/test/cluster"
)

// Before and after the load the operator is weighed for a while, so that its memory can be compared.
const calm = 10 * time.Second

// Measure offers the load to a new queue of its namespace, and weighs the operator meanwhile, and some time before and after.
func Measure(ctx context.Context, c *cluster.Cluster, l Load) (r *Record, err error) {
	if err := c.Create(ctx, l.Queue()); err != nil {
		return nil, err
	}
	scale := NewScale(c)
	weighing, stop := context.WithCancel(ctx)
	defer stop()
	type weighed struct {
		samples []Sample
		err     error
	}
	done := make(chan weighed, 1)
	go func() {
		samples, err := scale.Weigh(weighing)
		done <- weighed{samples, err}
	}()
	pause(ctx)
	if r, err = l.Offer(ctx, c.Config); err != nil {
		return nil, err
	}
	pause(ctx)
	stop()
	memory := <-done
	if r.Memory = memory.samples; len(r.Memory) == 0 {
		memory.err = errors.Join(memory.err, errors.New("the operator was never weighed"))
	}
	return r, memory.err
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(calm):
	}
}

// Growth is by how many bytes the heap of the replica that grew most has grown: the least that it had in use in the last ten seconds
// against the least in the first. The least, because garbage comes and goes.
func (r *Record) Growth() (most float64) {
	first, last := map[string]float64{}, map[string]float64{}
	end := r.Memory[len(r.Memory)-1].At
	note := func(m map[string]float64, s Sample) {
		if was, is := m[s.Pod]; !is || s.Heap < was {
			m[s.Pod] = s.Heap
		}
	}
	for _, s := range r.Memory {
		if s.At < calm {
			note(first, s)
		}
		if s.At > end-calm {
			note(last, s)
		}
	}
	for pod, heap := range last {
		if was, is := first[pod]; is {
			most = max(most, heap-was)
		}
	}
	return most
}

// Table is the record in figures.
func (r *Record) Table() string {
	var b strings.Builder
	linef := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	linef("| | tasks | p50 | p99 |\n|---|---|---|---|")
	linef("| offered | %d | | |", len(r.Answers))
	line := func(name string, is func(Answer) bool) {
		linef("| %s | %d | %s | %s |", name, r.Count(is), r.Latency(is, 50).Round(time.Millisecond), r.Latency(is, 99).Round(time.Millisecond))
	}
	line("accepted", Answer.IsAccepted)
	line("refused", Answer.IsRefused)
	linef("\nThe heap of the operator grew by %.1f MiB at most.", r.Growth()/(1<<20))
	return b.String()
}
