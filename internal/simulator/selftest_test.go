//go:build deliberatebugs

package simulator

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/leasehold-io/leasehold/internal/fencing/bug"
)

// finding is rapid's sentence about the schedule that broke a promise.
var finding = regexp.MustCompile(`failed after \d+ tests: .*`)

// TestEveryDeliberateBugIsFound runs the simulation as processes of their own, each built with one mistake: it must break a
// promise within 20,000 schedules, and must not without a mistake.
func TestEveryDeliberateBugIsFound(t *testing.T) {
	simulate := func(t *testing.T, name bug.Name) (string, error) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSimulation$", "-schedules=20000", "-seed=1",
			"-rapid.shrinktime=1s", "-rapid.nofailfile")
		cmd.Env = append(os.Environ(), "LEASEHOLD_BUG="+string(name))
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	for _, name := range bug.All() {
		t.Run(string(name), func(t *testing.T) {
			output, err := simulate(t, name)
			found := finding.FindString(output)
			if err == nil || found == "" {
				t.Fatalf("not found (%v): %s", err, output)
			}
			t.Log(found)
		})
	}
	t.Run("none", func(t *testing.T) {
		if output, err := simulate(t, ""); err != nil {
			t.Fatalf("the simulation fails without a mistake: %v\n%s", err, output)
		}
	})
}
