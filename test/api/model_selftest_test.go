//go:build deliberatebugs

package api

import (
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/leasehold-io/leasehold/internal/fencing/bug"
)

// TestTheModelFindsDeliberateBugs plays the random lives, and the one of the late readers, as processes of their own, each built
// with one mistake of the controller's, and the model must object. It is no part of make selftest, because each takes an API server:
//
//	go test -tags deliberatebugs ./test/api -run TestTheModelFindsDeliberateBugs -v
func TestTheModelFindsDeliberateBugs(t *testing.T) {
	objection := regexp.MustCompile(`after step \d+: .*`)
	for _, name := range []bug.Name{bug.GrantOverSubmission, bug.GrantOverHeld, bug.ReleaseOnPodPhase, bug.NoLiveRead} {
		t.Run(string(name), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^(TestRandomLives|TestCase13)", "-model.seeds=150")
			cmd.Env = append(os.Environ(), "LEASEHOLD_BUG="+string(name))
			output, err := cmd.CombinedOutput()
			found := objection.FindAllString(string(output), -1)
			if err == nil || len(found) == 0 {
				t.Fatalf("not found (%v): %s", err, output)
			}
			t.Logf("found %d times: %s", len(found), found[0])
		})
	}
}
