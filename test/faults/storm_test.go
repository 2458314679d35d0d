package faults

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/test/faults/harness"
	"github.com/leasehold-io/leasehold/test/faults/storm"
)

// TestAShortStorm is a minute of what `go run ./test/faults/run` does for as long as it is told to.
func TestAShortStorm(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the local cluster runs kubelets and network namespaces, which needs root")
	}
	h, err := harness.Start(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	result, err := storm.Run(t.Context(), h, storm.Options{Duration: time.Minute, Tasks: 12, InFlight: 8, Seed: 1, Out: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(result.Markdown("go test ./test/faults", h.Machine()))
	for _, v := range result.Violations {
		t.Error(v)
	}
	faults := 0
	for _, tally := range result.Faults {
		faults += tally.Done
	}
	if c := result.Counts; faults < 5 || c.Tasks < 12 || c.Completed+c.DeadLettered != c.Tasks {
		t.Errorf("%d faults, %+v", faults, c)
	}
}
