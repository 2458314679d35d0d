package outage

import (
	"fmt"
	"math"
	"net/http"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

const (
	// fewTimes is what no second may hold of the mean.
	fewTimes = 4
	// deviations is by how many standard deviations a second may be above the mean, where the mean is so low that chance alone gives
	// it a few times of it.
	deviations = 6
	// surprise is the distance that pauses of full jitter exceed once in some ten thousand storms, for one pause; for n it is that by
	// the root of n.
	surprise = 2.2
)

// MostInASecond is how many retries one second may hold.
func (l Load) MostInASecond() int {
	return int(max(fewTimes*l.mean(), l.mean()+deviations*math.Sqrt(l.mean())))
}

// Judge says what of the scenario does not hold.
func (r *Record) Judge() (wrong []string) {
	must := func(holds bool, format string, args ...any) {
		if !holds {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	r.judgeJitter(must)
	r.judgeBreaker(must)
	must(r.Phases[v1alpha1.PhaseCompleted] == r.Tasks, "of %d tasks ended %v", r.Tasks, r.Phases)
	return wrong
}

func (r *Record) judgeJitter(must func(holds bool, format string, args ...any)) {
	failed := map[string]bool{}
	for _, c := range r.Calls {
		if c.Code == http.StatusServiceUnavailable && !c.At.After(r.Begin) {
			failed[c.Task] = true
		}
	}
	must(len(failed) == r.Tasks, "%d of %d tasks failed when the outage began", len(failed), r.Tasks)

	ended := map[string]time.Time{} // what a busy machine takes until an end is on record is no pause
	for _, p := range r.FirstPauses() {
		ended[p.Task] = p.Ended
	}
	free, early := r.FreeRetries(), 0
	for _, s := range free {
		if s.At.Before(ended[s.Task].Add(r.Bound / 2)) {
			early++
		}
	}
	must(Busiest(free) <= r.MostInASecond(), "one second holds %d retries, %d are a few times the mean of %.1f", Busiest(free), r.MostInASecond(), r.mean())
	must(early >= r.Tasks/8, "%d of %d retries started in the first half of the bound; full jitter starts every second task there", early, r.Tasks)

	next := map[string]time.Time{}
	pauses := r.FirstPauses()
	for _, p := range pauses {
		next[p.Task] = p.Next.Truncate(time.Second)
	}
	for _, s := range free {
		must(!s.At.Before(next[s.Task]), "task %s started at %s, its pause was over at %s", s.Task, s.At, next[s.Task])
	}
	must(len(pauses) == r.Tasks, "%d of %d tasks have a pause on record", len(pauses), r.Tasks)
	// An attempt's end is on record in whole seconds.
	far := surprise/math.Sqrt(float64(r.Tasks)) + float64(time.Second)/float64(r.Bound)
	must(Distance(pauses, r.Bound) <= far, "the pauses' distance from full jitter is %.2f, above %.2f", Distance(pauses, r.Bound), far)
}

func (r *Record) judgeBreaker(must func(holds bool, format string, args ...any)) {
	opened, isOpened := r.turn("Open", r.Begin)
	closed, isClosed := r.turn("Closed", opened)
	if must(isOpened, "the breaker did not open: %+v", r.Changes); !isOpened {
		return
	}
	if must(isClosed, "the breaker did not close: %+v", r.Changes); !isClosed {
		return
	}
	turns := int(closed.Sub(opened)/r.Open) + 1
	tried := r.between(opened.Add(r.Open), closed) // before, Pods are still made of attempts that were granted while it was closed
	isTry := map[Start]bool{}
	for _, s := range r.between(opened.Add(r.Open), closed.Add(time.Second)) { // when it closed is on record in whole seconds
		isTry[Start{Task: s.Task, Attempt: s.Attempt}] = true
	}
	must(len(tried) <= probes*turns, "%d attempts started while the breaker was not closed, in at most %d turns: %+v", len(tried), turns, tried)
	proven, before := 0, 0
	for _, c := range r.Calls {
		if c.Code != http.StatusOK || !isTry[Start{Task: c.Task, Attempt: c.Attempt}] {
			continue
		}
		if c.At.Before(closed.Add(time.Second)) {
			proven++
		}
		if c.At.Before(closed) {
			before++
		}
	}
	must(proven >= probes, "the breaker closed at %s, before an attempt had succeeded", closed)
	must(before <= probes, "%d calls succeeded before the breaker closed", before)
}
