package agent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
)

const (
	roleVariable   = "AGENT_TEST_ROLE"
	configVariable = "AGENT_TEST_CONFIG"
)

// TestMain lets the test binary be an agent: one that reaps and kills needs a process of its own. It also calls one.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(roleVariable) == "agent" && len(os.Args) > 1 && os.Args[1] == "call":
		if err := Call(os.Getenv(env.Socket), os.Args[2:], os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	case os.Getenv(roleVariable) == "agent":
		os.Exit(beAgent())
	}
	code := m.Run()
	built.Range(func(dir, _ any) bool { return os.RemoveAll(dir.(string)) == nil })
	os.Exit(code)
}

// beAgent does what cmd/agent does, with a configuration from the test.
func beAgent() int {
	signals := make(chan os.Signal, 16)
	for _, sig := range ForwardedSignals() {
		signal.Notify(signals, sig)
	}
	var cfg Config
	if err := json.Unmarshal([]byte(os.Getenv(configVariable)), &cfg); err != nil {
		panic(err)
	}
	mailbox, err := NewLeaseMailbox(cfg, cfg.Claim("nonce-1"))
	if err != nil {
		panic(err)
	}
	tree, err := NewProcessTree(os.Args[1:], ChildEnv())
	if err != nil {
		panic(err)
	}
	alarm, err := NewTimerAlarm()
	if err != nil {
		panic(err)
	}
	log, flush := NewLog(os.Stderr)
	defer flush()
	a := &Agent{Config: cfg, Mailbox: mailbox, Tree: tree, Clock: SystemClock(time.Now), Alarm: alarm, Signals: signals,
		Jitter: func() float64 { return 0.5 }, Log: log}
	return a.Run(context.Background())
}

// start runs an agent process with a shell script as its command. The script finds its scratch directory in $DIR.
func (f *fixture) start(script string) *exec.Cmd {
	return f.startCommand("sh", "-c", script)
}

func (f *fixture) startCommand(argv ...string) *exec.Cmd {
	f.t.Helper()
	return f.startWith(nil, argv...)
}

func (f *fixture) startWith(environ []string, argv ...string) *exec.Cmd {
	f.t.Helper()
	cmd := exec.Command(os.Args[0], argv...)
	cmd.Env = append(append(os.Environ(), environ...), roleVariable+"=agent", configVariable+"="+asJSON(f.t, f.agent.Config), "DIR="+f.dir)
	cmd.Stdout, cmd.Stderr = f.t.Output(), f.t.Output()
	must(f.t, cmd.Start())
	f.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

func (f *fixture) wait(cmd *exec.Cmd) int {
	f.t.Helper()
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		f.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

func (f *fixture) path(name string) string { return filepath.Join(f.dir, name) }

func (f *fixture) exists(name string) bool {
	_, err := os.Stat(f.path(name))
	return err == nil
}

// pid reads what `echo $$ >"$DIR/name.new"; mv` left.
func (f *fixture) pid(name string) int {
	content, err := os.ReadFile(f.path(name))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(content)))
	return pid
}

func (f *fixture) await(name string) {
	f.t.Helper()
	eventually(f.t, name+" is written", func() bool { return f.pid(name) != 0 })
}

// lives names those of the processes that exist, as zombies or not.
func (f *fixture) lives(names ...string) (alive []string) {
	for _, name := range names {
		if pid := f.pid(name); pid == 0 || syscall.Kill(pid, 0) == nil {
			alive = append(alive, name)
		}
	}
	return alive
}

// atSubmit runs a check while the first submission waits for its answer.
func (f *fixture) atSubmit(check func()) func(agenttest.Request) agenttest.Action {
	return func(r agenttest.Request) agenttest.Action {
		action := agenttest.Serve
		if r.Kind == agenttest.Submit && r.N == 1 {
			action.Before = check
		}
		return action
	}
}

// stubborn is a shell function that leaves a process behind: forked twice, in a session of its own, deaf to every signal
// that can be ignored.
const stubborn = `
stubborn() {
	( trap "" TERM HUP INT QUIT USR1; setsid sh -c 'echo $$ >"$DIR/'$1'.new"; mv "$DIR/'$1'.new" "$DIR/'$1'"; exec sleep 1000' & )
}
await() { while [ ! -e "$DIR/$1" ]; do sleep 0.01; done; }
`

func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }
