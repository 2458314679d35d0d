package ingress

import (
	"net/http"
	"slices"
	"time"
)

// Answer is what the API server said to one task.
type Answer struct {
	Name       string
	At         time.Duration // when it was offered
	Took       time.Duration
	Code       int
	RetryAfter string
}

// IsAccepted reports whether the task was made.
func (a Answer) IsAccepted() bool { return a.Code == http.StatusCreated }

// IsRefused reports whether the task was above a limit.
func (a Answer) IsRefused() bool { return a.Code == http.StatusTooManyRequests }

// Record is what became of a load.
type Record struct {
	Load
	Answers []Answer // in the order in which they were offered
	Memory  []Sample
}

// Count is the number of answers of a kind.
func (r *Record) Count(is func(Answer) bool) (n int) {
	for _, a := range r.Answers {
		if is(a) {
			n++
		}
	}
	return n
}

// EachSecond is the number of answers of a kind in each second, by when the tasks were offered.
func (r *Record) EachSecond(is func(Answer) bool) []int {
	counts := make([]int, int(r.Length.Seconds()))
	for _, a := range r.Answers {
		if second := int(a.At.Seconds()); is(a) && second < len(counts) {
			counts[second]++
		}
	}
	return counts
}

// Latency is the time in which that many percent of the answers of a kind came; 0 if there are none.
func (r *Record) Latency(is func(Answer) bool, percent int) time.Duration {
	var took []time.Duration
	for _, a := range r.Answers {
		if is(a) {
			took = append(took, a.Took)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[(len(took)*percent+99)/100-1]
}
