package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// goWorker builds the example that uses the Go client, which is another module's: this one knows it as a program only.
var goWorker = sync.OnceValues(func() (path string, err error) {
	if built, err = os.MkdirTemp("", "lh"); err != nil {
		return "", err
	}
	path = filepath.Join(built, "worker")
	if out, err := exec.Command("go", "build", "-C", "../../worker", "-o", path, "./examples/go").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

// built is the directory of programs that tests have built; TestMain removes it.
var built string

// exampleWorkers are the commands of worker/examples. They do the same.
var exampleWorkers = map[string]func(t *testing.T) []string{
	"go": func(t *testing.T) []string {
		path, err := goWorker()
		must(t, err)
		return []string{path}
	},
	"python": func(t *testing.T) []string {
		if _, err := os.Stat("/usr/bin/python3"); err != nil {
			t.Skip("no Python here; the end-to-end tests bring it along")
		}
		return []string{"/usr/bin/python3", "../../worker/examples/python/worker.py"}
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
			f := newFixture(t, eager, nil)
			dir, err := os.MkdirTemp("", "lh") // the path of a socket has at most 107 bytes
			must(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			cfg := &f.agent.Config
			cfg.SocketPath, cfg.Task, cfg.Attempt, cfg.IdempotencyKey = filepath.Join(dir, "s"), "rows", 2, "key-1"
			must(t, os.WriteFile(f.path("payload"), []byte(payload), 0o600))
			environ := []string{env.Task + "=rows", env.Namespace + "=default", env.Attempt + "=2", env.FencingToken + "=17592186044417",
				env.IdempotencyKey + "=key-1", env.PayloadFile + "=" + f.path("payload"), env.CancelFile + "=" + cfg.CancelPath,
				env.ResultFile + "=" + cfg.ResultPath, env.CheckpointFile + "=" + cfg.CheckpointPath, env.Socket + "=" + cfg.SocketPath}
			argv := command(t)
			test(f, func() *exec.Cmd { return f.startWith(environ, argv...) })
		})
	}
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
