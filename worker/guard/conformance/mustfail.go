package conformance

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	insideEnv = "LEASEHOLD_CONFORMANCE_INSIDE"
	// failLimit bounds the run of a suite that is expected to fail.
	failLimit = 3 * time.Minute
)

// Inside is true in the process that [MustFail] starts.
func Inside() bool { return os.Getenv(insideEnv) != "" }

// MustFail runs the calling test once more in a process of its own, where [Inside] is true, and fails unless at least one of the named
// parts of the suite fails there. It is for tests that show that the suite finds a broken guard. The race for the store is real, so not every part need
// find it every time; each of the named ones can.
func MustFail(t *testing.T, parts ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), failLimit)
	defer cancel()
	again := exec.CommandContext(ctx, self, "-test.run=^"+t.Name()+"$", "-test.v", "-rapid.nofailfile", "-rapid.shrinktime=1s")
	again.Env = append(os.Environ(), insideEnv+"=1")
	out, err := again.CombinedOutput()
	if err == nil {
		t.Fatalf("the suite passes a guard that is broken:\n%s", out)
	}
	var failed []string
	for _, part := range parts {
		if strings.Contains(string(out), "--- FAIL: "+t.Name()+"/"+part+" ") {
			failed = append(failed, part)
		}
	}
	if len(failed) == 0 {
		t.Fatalf("none of %q failed; the process ended with %v:\n%s", parts, err, out)
	}
	t.Logf("failed, as they should: %q", failed)
}
