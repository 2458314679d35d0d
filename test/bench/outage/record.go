package outage

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// Record is what was seen of a storm.
type Record struct {
	Load
	Begin   time.Time // of the outage: all calls so far failed
	Calls   []Call    // in the order of their arrival
	Starts  []Start   // in the order of their times
	Pauses  []Pause
	Changes []Change
	Levels  []Level
	Phases  map[v1alpha1.Phase]int // of the tasks, in the end
}

// Retries are the first starts of each task since all of them failed.
func (r *Record) Retries() (retries []Start) {
	has := map[string]bool{}
	for _, s := range r.Starts {
		if s.At.After(r.Begin) && !has[s.Task] {
			has[s.Task] = true
			retries = append(retries, s)
		}
	}
	return retries
}

// FreeRetries are those of the retries that the breaker was closed for: their time is that of the pause.
func (r *Record) FreeRetries() (free []Start) {
	opened, _ := r.turn("Open", r.Begin)
	for _, s := range r.Retries() {
		if opened.IsZero() || s.At.Before(opened) {
			free = append(free, s)
		}
	}
	return free
}

// FirstPauses are those that followed the common failure.
func (r *Record) FirstPauses() (first []Pause) {
	has := map[string]bool{}
	for _, p := range r.Pauses {
		if !p.Ended.Before(r.Begin.Truncate(time.Second)) && !has[p.Task] {
			has[p.Task] = true
			first = append(first, p)
		}
	}
	return first
}

// Busiest is the second in which most starts fell, and how many.
func Busiest(starts []Start) (most int) {
	in := map[int64]int{}
	for _, s := range starts {
		in[s.At.Unix()]++
		most = max(most, in[s.At.Unix()])
	}
	return most
}

// Answered is the number of calls that were answered so.
func (r *Record) Answered(code int) (n int) {
	for _, c := range r.Calls {
		if c.Code == code {
			n++
		}
	}
	return n
}

// turn is when the breaker first entered a state, not before a time; false: it did not.
func (r *Record) turn(state string, after time.Time) (time.Time, bool) {
	for _, c := range r.Changes {
		if c.State == state && !c.At.Before(after.Truncate(time.Second)) {
			return c.At, true
		}
	}
	return time.Time{}, false
}

// Distance is how far the pauses are from being uniform between nothing and the bound, which is what full jitter says: the largest
// difference between the share of pauses up to a length and that length's share of the bound (Kolmogorov and Smirnov's).
func Distance(pauses []Pause, bound time.Duration) (most float64) {
	shares := make([]float64, len(pauses))
	for i, p := range pauses {
		shares[i] = min(1, float64(p.Next.Sub(p.Ended))/float64(bound))
	}
	slices.Sort(shares)
	n := float64(len(shares))
	for i, share := range shares {
		most = max(most, share-float64(i)/n, float64(i+1)/n-share)
	}
	return most
}

// Table is the record in figures.
func (r *Record) Table() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		_, _ = fmt.Fprintf(&b, "| %s | %s |\n", name, fmt.Sprintf(format, args...))
	}
	free := r.FreeRetries()
	opened, _ := r.turn("Open", r.Begin)
	closed, _ := r.turn("Closed", opened)
	line("tasks; outage; bound of the pause", "%d; %s; %s", r.Tasks, r.Length, r.Bound)
	b.WriteString("|---|---|\n")
	line("calls answered 503, 200", "%d, %d", r.Answered(503), r.Answered(200))
	line("retries before the breaker opened", "%d", len(free))
	line("mean of full jitter, retries in the busiest second", "%.1f, %d", r.mean(), Busiest(free))
	line("the pauses' distance from full jitter", "%.2f", Distance(r.FirstPauses(), r.Bound))
	line("the breaker", "%s", strings.Join(r.turns(), ", "))
	line("attempts that started while it was not closed, after", "%s", strings.Join(r.triedAfter(opened.Add(r.Open), closed), ", "))
	line("busiest second after it closed", "%d", Busiest(r.between(closed, closed.Add(math.MaxInt32*time.Second))))
	line("completed", "%d", r.Phases[v1alpha1.PhaseCompleted])
	return b.String()
}

func (r *Record) turns() (turns []string) {
	for _, c := range r.Changes {
		turns = append(turns, fmt.Sprintf("%s %.0f s", c.State, c.At.Sub(r.Begin).Seconds()))
	}
	return turns
}

func (r *Record) triedAfter(from, to time.Time) (after []string) {
	for _, s := range r.between(from, to) {
		after = append(after, fmt.Sprintf("%.0f s", s.At.Sub(r.Begin).Seconds()))
	}
	return after
}

// between are the starts from one time up to another.
func (r *Record) between(from, to time.Time) (starts []Start) {
	for _, s := range r.Starts {
		if !s.At.Before(from) && s.At.Before(to) {
			starts = append(starts, s)
		}
	}
	return starts
}
