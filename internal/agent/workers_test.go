package agent

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// goWorker and shipWorker are the examples that use the Go client, which is another module's: this one knows them as programs only.
var goWorker, shipWorker = building("./examples/go"), building("./examples/shipment/ship")

func building(pkg string) func() (path string, err error) {
	return sync.OnceValues(func() (path string, err error) {
		dir, err := os.MkdirTemp("", "lh")
		if err != nil {
			return "", err
		}
		built.Store(dir, nil)
		path = filepath.Join(dir, "worker")
		build := exec.Command("go", "build", "-C", "../../worker", "-o", path, pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0") // whatever these tests are built with
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return path, nil
	})
}

// built are the directories of programs that tests have built; TestMain removes them.
var built sync.Map

// exampleWorkers are the commands of worker/examples. They do the same.
var exampleWorkers = map[string]func(t *testing.T) []string{
	"go": func(t *testing.T) []string {
		path, err := goWorker()
		must(t, err)
		return []string{path}
	},
	"python": func(t *testing.T) []string {
		// Its own path, in case that python3 is a wrapper.
		path, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
		if err != nil {
			t.Skip("no Python here; the end-to-end tests bring it along")
		}
		return []string{strings.TrimSpace(string(path)), "../../worker/examples/python/worker.py"}
	},
	"shell": func(t *testing.T) []string {
		script, err := os.ReadFile("../../worker/examples/shell/worker.sh")
		must(t, err)
		return []string{"sh", "-c", strings.ReplaceAll(string(script), env.AgentPath, os.Args[0])}
	},
}

// eachExample runs a test with each of them, under a real agent process.
func eachExample(t *testing.T, payload string, test func(*fixture, func() *exec.Cmd)) {
	for name, command := range exampleWorkers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, environ := newEmployer(t, payload)
			argv := command(t)
			test(f, func() *exec.Cmd { return f.startWith(environ, argv...) })
		})
	}
}

// newEmployer is a fixture for real workers: environ is what they find.
func newEmployer(t *testing.T, payload string) (f *fixture, environ []string) {
	t.Helper()
	f = newFixture(t, eager, nil)
	dir, err := os.MkdirTemp("", "lh") // the path of a socket has at most 107 bytes
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	cfg := &f.agent.Config
	cfg.SocketPath, cfg.Task, cfg.Attempt, cfg.IdempotencyKey = filepath.Join(dir, "s"), "rows", 2, "key-1"
	must(t, os.WriteFile(f.path("payload"), []byte(payload), 0o600))
	return f, []string{env.Task + "=rows", env.Namespace + "=default", env.Attempt + "=2", env.FencingToken + "=17592186044417",
		env.IdempotencyKey + "=key-1", env.PayloadFile + "=" + f.path("payload"), env.CancelFile + "=" + cfg.CancelPath,
		env.ResultFile + "=" + cfg.ResultPath, env.CheckpointFile + "=" + cfg.CheckpointPath, env.Socket + "=" + cfg.SocketPath}
}

func TestAnExampleGoesOnFromItsCheckpointToItsResult(t *testing.T) {
	t.Parallel()
	eachExample(t, `{"rows": 3}`, func(f *fixture, start func() *exec.Cmd) {
		must(f.t, os.WriteFile(f.agent.Config.CheckpointPath, []byte("1"), 0o600))
		f.wantCode(f.wait(start()), 0)
		if got := f.wantSubmitted(fencing.Succeeded, fencing.ReasonCompleted); got.Result == nil || *got.Result != `{"rows": 3, "from": 1}` {
			f.t.Errorf("submitted %+v", got)
		}
		if checkpoint, progress := f.srv.Annotation(fencing.CheckpointAnnotation), f.srv.Annotation(fencing.ProgressAnnotation); !strings.Contains(checkpoint, "3") || !strings.Contains(progress, "rows") {
			f.t.Errorf("checkpoint %s, progress %s", checkpoint, progress)
		}
	})
}

func TestAnExampleStopsWhenItIsToldTo(t *testing.T) {
	t.Parallel()
	eachExample(t, `{"rows": 1000000}`, func(f *fixture, start func() *exec.Cmd) {
		agent := start()
		eventually(f.t, "it says how far it is", func() bool { return f.srv.Annotation(fencing.ProgressAnnotation) != "" })
		f.order(cancelled)
		f.wantCode(f.wait(agent), 143)
		if got := f.wantSubmitted(fencing.Cancelled, fencing.ReasonCancelled); *got.ExitCode != 143 {
			f.t.Errorf("submitted %+v", got)
		}
	})
}

func TestAnExampleGivesUpOnAPayloadThatItCannotRead(t *testing.T) {
	t.Parallel()
	eachExample(t, `{"rows": "many"}`, func(f *fixture, start func() *exec.Cmd) {
		f.wantCode(f.wait(start()), 65)
		got := f.wantSubmitted(fencing.Failed, "PayloadInvalid")
		if got.Retryable == nil || *got.Retryable || got.Effect != fencing.EffectNone || got.Message == "" {
			f.t.Errorf("submitted %+v", got)
		}
	})
}

// TestTheAnswerOfAProbeInGo: an exit code, with no word of its own beside it that would make it none.
func TestTheAnswerOfAProbeInGo(t *testing.T) {
	t.Parallel()
	tests := map[int]struct {
		outcome fencing.Outcome
		reason  string
		code    int
	}{
		http.StatusOK:                 {fencing.Succeeded, fencing.ReasonCompleted, 0},
		http.StatusNotFound:           {fencing.Failed, fencing.ReasonNonZeroExit, 1},
		http.StatusServiceUnavailable: {fencing.Failed, fencing.ReasonWorkerFailed, 2},
	}
	for status, tc := range tests {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			carrier := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				_, _ = fmt.Fprintf(w, "%s %s", r.Method, r.URL.Path)
			}))
			t.Cleanup(carrier.Close)
			f, environ := newEmployer(t, `{"to": "Ghent"}`)
			path, err := shipWorker()
			must(t, err)
			environ = append(environ, env.ProbeAttempt+"=1", env.ProbeToken+"=17592186044416", "CARRIER_URL="+carrier.URL)
			f.wantCode(f.wait(f.startWith(environ, path)), tc.code)
			got := f.wantSubmitted(tc.outcome, tc.reason)
			if *got.ExitCode != int32(tc.code) || tc.code == 0 && *got.Result != "GET /shipments/key-1" {
				t.Errorf("submitted %+v", got)
			}
		})
	}
}
