package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

var wallEpoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	testToken = fencing.Token(1<<44 + 1)
	testPod   = "pod-1"
	testUID   = "uid-1"
)

// patient is a timing whose trust no loaded machine outlives by accident, and that does not renew on its own.
var patient = fencing.Timing{Duration: 20 * time.Minute, Renew: 5 * time.Minute, Margin: 10 * time.Minute,
	RequestTimeout: 3 * time.Second, KillBudget: time.Minute, KillReserve: time.Minute - 50*time.Millisecond}

// eager is the same, but renews all the time.
var eager = func() fencing.Timing {
	timing := patient
	timing.Renew, timing.RequestTimeout = 100*time.Millisecond, time.Second
	return timing
}()

// hasty is one whose trust ends soon. SIGKILL follows soon, but a tree is given up late.
var hasty = fencing.Timing{Duration: 2 * time.Minute, Renew: 200 * time.Millisecond, Margin: 2*time.Minute - time.Second,
	RequestTimeout: 300 * time.Millisecond, KillBudget: time.Minute, KillReserve: time.Minute - 50*time.Millisecond}

// brisk is hasty for real processes, which take their time to start on a loaded machine.
var brisk = func() fencing.Timing {
	timing := hasty
	timing.Margin = timing.Duration - 2*time.Second
	return timing
}()

// journal records what happened, in order, on both sides.
type journal struct {
	mu     sync.Mutex
	events []string
}

func (j *journal) add(event string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, event)
}

func (j *journal) list() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.events)
}

// has reports whether the events occurred in this order, with others between them or not.
func (j *journal) has(events ...string) bool {
	rest := j.list()
	for _, event := range events {
		at := slices.Index(rest, event)
		if at < 0 {
			return false
		}
		rest = rest[at+1:]
	}
	return true
}

// fakeTree is a command that does what a test says.
type fakeTree struct {
	*journal
	startErr error
	environ  []string // what it was started with beside the rest
	// onStart, onSignal and onKill run in goroutines of their own.
	onStart  func(*fakeTree)
	onSignal func(*fakeTree, syscall.Signal)
	onKill   func(*fakeTree, syscall.Signal)

	exited chan holder.Exit
	empty  chan struct{}
	once   sync.Once
}

func (f *fakeTree) Start(environ ...string) error {
	f.environ = environ
	f.add("start")
	if f.startErr == nil && f.onStart != nil {
		go f.onStart(f)
	}
	return f.startErr
}

func (f *fakeTree) Signal(sig syscall.Signal, group bool) {
	name := "signal " + sig.String()
	if group {
		name += " to the group"
	}
	f.add(name)
	if f.onSignal != nil {
		go f.onSignal(f, sig)
	}
}

func (f *fakeTree) Kill(sig syscall.Signal) {
	f.add("kill " + sig.String())
	if f.onKill != nil {
		go f.onKill(f, sig)
	}
}

func (f *fakeTree) Exited() <-chan holder.Exit { return f.exited }
func (f *fakeTree) Empty() <-chan struct{}     { return f.empty }

// end ends the command, and all that came from it.
func (f *fakeTree) end(exit holder.Exit) { f.once.Do(func() { f.exited <- exit; f.vanish() }) }

func (f *fakeTree) vanish() { f.add("empty"); close(f.empty) }

// dieOf ends the tree at the given signal.
func dieOf(deadly syscall.Signal) func(*fakeTree, syscall.Signal) {
	return func(f *fakeTree, sig syscall.Signal) {
		if sig == deadly {
			f.end(holder.Exit{Code: 128 + int(sig), Signal: sig})
		}
	}
}

// fixture is an agent with a scripted API server and a scripted command.
type fixture struct {
	t       *testing.T
	srv     *agenttest.Server
	tree    *fakeTree
	agent   *Agent
	signals chan os.Signal
	dir     string
	journal
}

func newFixture(t *testing.T, timing fencing.Timing, script func(agenttest.Request) agenttest.Action) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), signals: make(chan os.Signal, 4)}
	f.srv = agenttest.New(agenttest.GrantedLease("lh-1", testPod, 30, 1), nil)
	f.script(script)
	t.Cleanup(f.srv.Close)
	f.tree = &fakeTree{journal: &f.journal, exited: make(chan holder.Exit, 1), empty: make(chan struct{}),
		onStart: func(tree *fakeTree) { tree.end(holder.Exit{}) }, onKill: dieOf(syscall.SIGKILL)}
	cfg := testConfig(t, f.srv, f.dir, timing)
	mailbox, err := NewLeaseMailbox(cfg, cfg.Claim("nonce-1"))
	must(t, err)
	alarm, err := NewTimerAlarm()
	must(t, err)
	t.Cleanup(func() { _ = alarm.Close() })
	f.agent = &Agent{Config: cfg, Mailbox: mailbox, Tree: f.tree, Clock: SystemClock(time.Now), Alarm: alarm,
		Signals: f.signals, Jitter: func() float64 { return 0.5 }, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	return f
}

// script replaces what decides about each request; nil serves all.
func (f *fixture) script(script func(agenttest.Request) agenttest.Action) {
	f.srv.Script(func(r agenttest.Request) agenttest.Action {
		f.add(string(r.Kind))
		if script == nil {
			return agenttest.Serve
		}
		return script(r)
	})
}

func testConfig(t *testing.T, srv *agenttest.Server, dir string, timing fencing.Timing) Config {
	t.Helper()
	ca, token, err := srv.WriteCredentials(dir, "secret-token")
	must(t, err)
	cfg := Config{Server: srv.HostPort(), Namespace: "default", Lease: "lh-1", PodName: testPod, PodUID: testUID, NodeName: "node-1",
		Token: testToken, Timing: timing, FileWait: time.Minute, StopGrace: 30 * time.Second, OnRenewalFailure: holder.Fence, CAPath: ca, TokenPath: token,
		ResultPath: filepath.Join(dir, "result"), CancelPath: filepath.Join(dir, "cancel"), TerminationLog: filepath.Join(dir, "termination-log"), CgroupRoot: dir,
		Heartbeat: holder.Process, CheckpointPath: filepath.Join(dir, "checkpoint"), SocketPath: filepath.Join(dir, "agent.sock")}
	must(t, os.WriteFile(cfg.TerminationLog, nil, 0o600))
	return cfg
}

// run runs the agent to its end, or fails the test after a time that only a hang can take.
func (f *fixture) run() int {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	code := make(chan int, 1)
	go func() { code <- f.agent.Run(ctx) }() // its context does not end one that hangs
	select {
	case code := <-code:
		if ctx.Err() == nil {
			return code
		}
	case <-ctx.Done():
	}
	f.t.Fatalf("the agent did not end by itself: %v", f.list())
	return 0
}

func (f *fixture) writeResult(content string) {
	must(f.t, os.WriteFile(f.agent.Config.ResultPath, []byte(content), 0o600))
}

// submitted is what stands on the Lease.
func (f *fixture) submitted() *fencing.Submission {
	raw := f.srv.Annotation(fencing.SubmissionAnnotation)
	if raw == "" {
		return nil
	}
	s := fencing.ParseSubmission(raw)
	return &s
}

func (f *fixture) wantSubmitted(want fencing.Outcome, reason string) *fencing.Submission {
	f.t.Helper()
	got := f.submitted()
	if got == nil {
		f.t.Fatalf("nothing was submitted, want %s/%s: %v", want, reason, f.list())
	}
	if got.Outcome != want || got.Reason != reason || got.Token != testToken {
		f.t.Fatalf("submitted %+v, want %s/%s", got, want, reason)
	}
	return got
}

func (f *fixture) wantReport(outcome fencing.Outcome, delivery fencing.Delivery) fencing.Report {
	f.t.Helper()
	raw, err := os.ReadFile(f.agent.Config.TerminationLog)
	must(f.t, err)
	got, ok := fencing.ParseReport(string(raw))
	if !ok || got.Outcome != outcome || got.Delivery != delivery || got.Token != testToken {
		f.t.Errorf("termination message %s, want %s/%s", raw, outcome, delivery)
	}
	return got
}

func (f *fixture) wantCode(got, want int) {
	f.t.Helper()
	if got != want {
		f.t.Errorf("exit code %d, want %d: %v", got, want, f.list())
	}
}

func (f *fixture) wantOrder(events ...string) {
	f.t.Helper()
	if !f.has(events...) {
		f.t.Errorf("want the order %v in %v", events, f.list())
	}
}

func (f *fixture) wantNever(event string) {
	f.t.Helper()
	if slices.Contains(f.list(), event) {
		f.t.Errorf("%q must not happen: %v", event, f.list())
	}
}

// revoke is the controller's write.
func (f *fixture) revoke() {
	claim := fencing.ParseClaim(f.srv.Annotation(fencing.ClaimAnnotation))
	if code := f.srv.Patch(fencing.RevokePatch(&fencing.Term{Holder: testPod, Claim: &claim}, false)); code != 200 {
		f.t.Errorf("revoke answered %d", code)
	}
}

// eventually waits for a condition that comes about by itself.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 3000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// asJSON passes a configuration to an agent that runs as a process of its own.
func asJSON(t *testing.T, cfg Config) string {
	raw, err := json.Marshal(cfg)
	must(t, err)
	return string(raw)
}
