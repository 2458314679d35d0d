package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/test/bench/outage"
)

// TestAStormIsDrawn: of every kind there is something on its figure.
func TestAStormIsDrawn(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 5e8, time.UTC)
	r := &outage.Record{Load: outage.Load{Tasks: 40, Length: 40 * time.Second, Bound: 20 * time.Second, Open: 7 * time.Second}, Begin: begin}
	for i := range r.Tasks {
		name, at := fmt.Sprint(i), begin.Add(time.Duration(i)*time.Second/2)
		r.Calls = append(r.Calls, outage.Call{Task: name, Attempt: 1, At: begin.Add(-time.Duration(i) * time.Second), Code: http.StatusServiceUnavailable},
			outage.Call{Task: name, Attempt: 3, At: at.Add(time.Minute), Code: http.StatusOK})
		r.Pauses = append(r.Pauses, outage.Pause{Task: name, Ended: begin, Next: at})
		r.Starts = append(r.Starts, outage.Start{Task: name, Attempt: 2, At: at.Add(time.Second)})
		r.Levels = append(r.Levels, outage.Level{At: at, UnderWay: 40 - i})
	}
	for i, state := range []string{"Open", "HalfOpen", "Open", "HalfOpen", "Closed"} {
		r.Changes = append(r.Changes, outage.Change{At: begin.Add(time.Duration(21+7*i) * time.Second), State: state})
	}
	dir := t.TempDir()
	if err := draw(r, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"retries":   {"Pods made", "nextAttemptTime", "full jitter"},
		"starts":    {"all attempts", "mean of full jitter", "a few times that"},
		"under-way": {"attempts"},
		"answers":   {"503", "200"},
		"breaker":   {"half-open"},
	} {
		drawn, err := os.ReadFile(filepath.Join(dir, "outage-"+name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(string(drawn), text) {
				t.Errorf("%s does not show %q", name, text)
			}
		}
	}
}
