// Package examples runs the examples by hand, without an agent. With one they are run in internal/agent.
package examples

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/worker"
)

// commands are the workers that go through rows. They do the same.
var commands = map[string]func(t *testing.T) []string{
	"go": func(t *testing.T) []string { return []string{goWorker(t)} },
	"python": func(t *testing.T) []string {
		if _, err := exec.LookPath("python3"); err != nil {
			t.Skip("no Python here")
		}
		return []string{"python3", "python/worker.py"}
	},
	"shell": func(*testing.T) []string { return []string{"sh", "shell/worker.sh"} },
}

// goWorker and shipWorker are programs, built once.
var goWorker, shipWorker = building("go"), building("shipment/ship")

var built string // the directory of the programs

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "lh"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(built)
	os.Exit(code)
}

func building(pkg string) func(t *testing.T) (path string) {
	build := sync.OnceValues(func() (path string, err error) {
		path = filepath.Join(built, filepath.Base(pkg))
		if out, err := exec.Command("go", "build", "-o", path, "./"+pkg).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return path, nil
	})
	return func(t *testing.T) string {
		t.Helper()
		path, err := build()
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// place is what somebody sets up who runs a worker by hand.
type place struct {
	dir string
	env map[string]string
}

func newPlace(t *testing.T, payload string) place {
	t.Helper()
	p := place{t.TempDir(), map[string]string{"TASK": "try", "NAMESPACE": "default", "ATTEMPT": "1", "FENCING_TOKEN": "17592186044423", "IDEMPOTENCY_KEY": "try"}}
	for _, name := range []string{"payload", "result", "checkpoint", "cancel"} {
		p.env[strings.ToUpper(name)+"_FILE"] = filepath.Join(p.dir, name)
	}
	p.write(t, "payload", payload)
	return p
}

func (p place) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// read is the content of a file; "-": there is none.
func (p place) read(name string) string {
	content, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		return "-"
	}
	return strings.TrimSpace(string(content))
}

// start starts the worker; the end of what it returns is its exit code and all that it said.
func (p place) start(t *testing.T, argv []string) (process *os.Process, end func() (code int, said string)) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "LEASEHOLD_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	for name, value := range p.env {
		cmd.Env = append(cmd.Env, "LEASEHOLD_"+name+"="+value)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process, func() (int, string) {
		err := cmd.Wait()
		if exit, is := errors.AsType[*exec.ExitError](err); err != nil && !is {
			t.Fatal(err)
		} else if is {
			return exit.ExitCode(), out.String()
		}
		return 0, out.String()
	}
}

func (p place) run(t *testing.T, argv []string) (code int, said string) {
	t.Helper()
	_, end := p.start(t, argv)
	return end()
}

func each(t *testing.T, test func(t *testing.T, argv []string)) {
	t.Helper()
	for language, command := range commands {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			test(t, command(t))
		})
	}
}

func TestFilesAreEnough(t *testing.T) {
	each(t, func(t *testing.T, argv []string) {
		for _, socket := range []string{"", "/nowhere"} {
			p := newPlace(t, `{"rows": 3}`)
			p.env["SOCKET"] = socket
			p.write(t, "checkpoint", "1")
			code, said := p.run(t, argv)
			if result := p.read("result"); code != 0 || result != `{"rows": 3, "from": 1}` || p.read("checkpoint") != "3" {
				t.Errorf("socket %q: exit code %d, result %s, checkpoint %s, it said:\n%s", socket, code, result, p.read("checkpoint"), said)
			}
			if socket == "" && said != "" {
				t.Errorf("it complains:\n%s", said)
			}
		}
	})
}

// TestABadPayloadIsPermanent: the exit code says so also where nobody hears why.
func TestABadPayloadIsPermanent(t *testing.T) {
	each(t, func(t *testing.T, argv []string) {
		socket := ""
		if strings.HasPrefix(argv[0], built) { // it is in Go: without an agent it leaves its message at /dev/termination-log
			socket = listen(t)
		}
		for _, payload := range []string{"", "{", "null", "7", "[]", "{}", `{"rows": "many"}`, `{"rows": -1}`, `{"rows": 1.5}`, `{"rows": 08}`, `{"rows": true}`,
			`{"rows": 1, "more": 1}`, "{\"rows\": 1}\n{\"rows\": 2}", "\xff", strings.Repeat("[", 60_000)} {
			p := newPlace(t, payload)
			p.env["SOCKET"] = socket
			if code, said := p.run(t, argv); code != worker.ExitPermanent || p.read("result") != "-" {
				t.Errorf("payload %.20q: exit code %d, result %s, it said:\n%s", payload, code, p.read("result"), said)
			}
		}
		if socket == "" {
			p := newPlace(t, "{}")
			p.env["SOCKET"] = "/nowhere"
			if code, said := p.run(t, argv); code != worker.ExitPermanent {
				t.Errorf("the agent does not answer: exit code %d, it said:\n%s", code, said)
			}
		}
	})
}

// listen answers on a socket, and hears everything.
func listen(t *testing.T) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lh") // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/cancel" {
			<-r.Context().Done()
		}
		_, _ = w.Write([]byte("{}"))
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return socket
}

// TestWhatIsMissingIsNamed, before there is any work.
func TestWhatIsMissingIsNamed(t *testing.T) {
	each(t, func(t *testing.T, argv []string) {
		for _, name := range []string{"PAYLOAD_FILE", "RESULT_FILE", "CHECKPOINT_FILE", "CANCEL_FILE"} {
			p := newPlace(t, `{"rows": 3}`)
			delete(p.env, name)
			if code, said := p.run(t, argv); code != worker.ExitUsage || !strings.Contains(said, "LEASEHOLD_"+name) || p.read("checkpoint") != "-" {
				t.Errorf("without %s: exit code %d, it said:\n%s", name, code, said)
			}
		}
		p := newPlace(t, "")
		p.env["PAYLOAD_FILE"] = "/nowhere"
		if code, said := p.run(t, argv); code != worker.ExitUsage || !strings.Contains(said, "/nowhere") {
			t.Errorf("without a payload: exit code %d, it said:\n%s", code, said)
		}
	})
}

// TestAWorkerThatCannotReachItsAPIDoesNotBegin: a shipment that nobody was asked for is no failure of the carrier.
func TestAWorkerThatCannotReachItsAPIDoesNotBegin(t *testing.T) {
	t.Setenv("CARRIER_URL", "")
	p := newPlace(t, `{"to": "Ghent"}`)
	if code, said := p.run(t, []string{shipWorker(t)}); code != worker.ExitUsage || !strings.Contains(said, "CARRIER_URL") {
		t.Errorf("exit code %d, it said:\n%s", code, said)
	}
}

// TestACheckpointThatIsNoneIsNotFollowed: the task is done from the start.
func TestACheckpointThatIsNoneIsNotFollowed(t *testing.T) {
	each(t, func(t *testing.T, argv []string) {
		for _, checkpoint := range []string{"", "row 7", "-1", "08x"} {
			p := newPlace(t, `{"rows": 1}`)
			p.write(t, "checkpoint", checkpoint)
			if code, said := p.run(t, argv); code != 0 || p.read("result") != `{"rows": 1, "from": 0}` {
				t.Errorf("checkpoint %q: exit code %d, result %s, it said:\n%s", checkpoint, code, p.read("result"), said)
			}
		}
	})
}

// TestASignalStopsIt: with the agent's reason, or with none.
func TestASignalStopsIt(t *testing.T) {
	each(t, func(t *testing.T, argv []string) {
		for _, reason := range []string{"Cancelled", ""} {
			p := newPlace(t, `{"rows": 1000000}`)
			process, end := p.start(t, argv)
			for begin := time.Now(); p.read("checkpoint") == "-" && time.Since(begin) < 20*time.Second; { // then it works
				time.Sleep(10 * time.Millisecond)
			}
			if reason != "" {
				p.write(t, "cancel", reason)
			}
			_ = process.Signal(syscall.SIGTERM)
			if code, said := end(); code != worker.ExitStopped || !strings.Contains(said, "told to stop: "+reason) || p.read("result") != "-" {
				t.Errorf("reason %q: exit code %d, result %s, it said:\n%s", reason, code, p.read("result"), said)
			}
		}
	})
}
