package outage

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// played is the scenario as it should go: pauses as the operator draws them, and a cluster without a delay.
func played(jitter v1alpha1.Jitter) *Record {
	r := &Record{
		Load:  Load{Tasks: 500, Length: time.Minute, Bound: 30 * time.Second, Open: 10 * time.Second, Jitter: jitter},
		Begin: time.Date(2026, 1, 1, 0, 0, 0, 5e8, time.UTC), Phases: map[v1alpha1.Phase]int{v1alpha1.PhaseCompleted: 500},
	}
	opened, closed := r.Begin.Truncate(time.Second).Add(32*time.Second), r.Begin.Truncate(time.Second).Add(72*time.Second)
	r.Changes = []Change{{r.Begin.Add(-time.Minute), "Closed"}, {opened, "Open"}, {opened.Add(r.Open), "HalfOpen"}, {closed, "Closed"}}
	backoff := r.task(0, "").Spec.Retry.Backoff
	random := rand.New(rand.NewPCG(1, 2))
	for i := range r.Tasks {
		name := fmt.Sprintf("caller-%d", i)
		next := r.Begin.Add(plan.Backoff(&backoff, 1, random.Float64()))
		r.Calls = append(r.Calls, Call{name, 1, r.Begin.Add(-time.Second), http.StatusServiceUnavailable})
		r.Pauses = append(r.Pauses, Pause{name, r.Begin.Truncate(time.Second), next})
		r.Starts = append(r.Starts, Start{name, 1, r.Begin.Add(-time.Minute)}, Start{name, 2, next.Truncate(time.Second).Add(time.Second)}, Start{name, 3, closed})
	}
	r.Starts[2].At = closed.Add(-2 * time.Second) // the one that tries
	r.Calls = append(r.Calls, Call{"caller-0", 3, closed.Add(-time.Second), http.StatusOK})
	return r
}

func TestWhatIsJudged(t *testing.T) {
	tests := map[string]struct {
		jitter v1alpha1.Jitter
		change func(*Record)
		want   []string // what is wrong
	}{
		"as it should be":     {},
		"full is the default": {jitter: v1alpha1.JitterFull},
		"no jitter":           {jitter: v1alpha1.JitterNone, want: []string{"one second holds 500", "0 of 500 retries", "distance"}},
		"half of the jitter":  {jitter: v1alpha1.JitterEqual, want: []string{"retries started in the first half", "distance"}},
		"a slow cluster hides that there is no jitter": {jitter: v1alpha1.JitterNone, want: []string{"0 of 500 retries", "distance"}, change: func(r *Record) {
			for i := range r.Starts {
				r.Starts[i].At = r.Starts[i].At.Add(time.Duration(i%60) * time.Second)
			}
			r.Changes = nil
		}},
		"an attempt before its pause is over": {want: []string{"its pause was over"}, change: func(r *Record) {
			r.Pauses[7].Next = r.Begin.Add(r.Bound)
			r.Starts[3*7+1].At = r.Begin.Add(time.Second)
		}},
		"a task that did not fail": {want: []string{"499 of 500 tasks failed"}, change: func(r *Record) { r.Calls = r.Calls[1:] }},
		"no breaker":               {want: []string{"did not open"}, change: func(r *Record) { r.Changes = r.Changes[:1] }},
		"it stays open":            {want: []string{"did not close"}, change: func(r *Record) { r.Changes = r.Changes[:3] }},
		"it lets all through": {want: []string{"500 attempts started while the breaker was not closed"}, change: func(r *Record) {
			for i := range r.Tasks {
				r.Starts[3*i+2].At = r.Begin.Add(50 * time.Second)
			}
		}},
		"it closes without a probe": {want: []string{"before an attempt had succeeded"}, change: func(r *Record) { r.Calls = r.Calls[:r.Tasks] }},
		"it tries, succeeds and closes within one second": {change: func(r *Record) {
			r.Starts[2].At = r.Changes[3].At
			r.Calls[r.Tasks].At = r.Changes[3].At.Add(time.Second / 2)
		}},
		"it closes late": {want: []string{"2 calls succeeded"}, change: func(r *Record) { r.Calls = append(r.Calls, r.Calls[r.Tasks]) }},
		"a task that was given up": {want: []string{"of 500 tasks ended"}, change: func(r *Record) {
			r.Phases = map[v1alpha1.Phase]int{v1alpha1.PhaseDeadLettered: 1, v1alpha1.PhaseCompleted: 499}
		}},
		"a pause that nobody recorded": {want: []string{"499 of 500 tasks have a pause"}, change: func(r *Record) { r.Pauses = r.Pauses[1:] }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := played(test.jitter)
			if test.change != nil {
				test.change(r)
			}
			wrong := r.Judge()
			for i, want := range test.want {
				if i >= len(wrong) || !strings.Contains(wrong[i], want) {
					t.Fatalf("want %q, got:\n%s", test.want, strings.Join(wrong, "\n"))
				}
			}
			if len(test.want) == 0 && len(wrong) > 0 {
				t.Errorf("wrong:\n%s", strings.Join(wrong, "\n"))
			}
		})
	}
}
