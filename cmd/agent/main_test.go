//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/internal/agent"
	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

func lease() []byte { return agenttest.GrantedLease("lh-1", "pod-1", 10, 1) }

func submission(t *testing.T, srv *agenttest.Server) fencing.Submission {
	t.Helper()
	raw := srv.Annotation(fencing.SubmissionAnnotation)
	if raw == "" {
		t.Fatal("nothing was submitted")
	}
	return fencing.ParseSubmission(raw)
}

// inContainer lists the processes that share the agent's PID namespace, without the agent, and without those that have
// ended and wait to be reaped.
func (c *container) inContainer() (found []string) {
	mine, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", c.Process.Pid))
	if err != nil {
		return []string{"the agent has gone"}
	}
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		ns, err := os.Readlink(entry + "/ns/pid")
		if err != nil || ns != mine || entry == fmt.Sprintf("/proc/%d", c.Process.Pid) {
			continue
		}
		if stat, err := os.ReadFile(entry + "/stat"); err == nil && !strings.Contains(string(stat), ") Z ") {
			found = append(found, string(stat))
		}
	}
	return found
}

func TestRunsATaskAsProcessOne(t *testing.T) {
	t.Parallel()
	srv := agenttest.New(lease(), nil)
	defer srv.Close()
	c := newContainer(t, srv, "child", "env")
	c.start(t)
	if code := c.exitCode(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, c.stderr.String())
	}
	got := submission(t, srv)
	if got.Outcome != fencing.Succeeded || got.Result == nil {
		t.Fatalf("submitted %+v", got)
	}
	variables := strings.Split(*got.Result, "\n")
	for _, want := range []string{"MINE=kept", env.FencingToken + "=17592186044417", env.ResultFile + "=" + env.ResultPath} {
		if !slices.Contains(variables, want) {
			t.Errorf("the command does not see %s: %v", want, variables)
		}
	}
	if strings.Contains(*got.Result, env.AgentPrefix) {
		t.Errorf("the command sees the agent's settings: %v", variables)
	}
	report, ok := fencing.ParseReport(c.read(t, env.TerminationLog))
	if !ok || report.Delivery != fencing.DeliveryAccepted || report.Token != 17592186044417 {
		t.Errorf("termination message %s", c.read(t, env.TerminationLog))
	}
	if claim := fencing.ParseClaim(srv.Annotation(fencing.ClaimAnnotation)); claim.PodUID != "uid-1" || claim.Node != "node-1" || len(claim.Nonce) < 16 {
		t.Errorf("claim %+v", claim)
	}
	if log := c.stderr.String(); strings.Contains(log, "secret-token") || strings.Contains(log, "kept") {
		t.Errorf("the log shows what is not its own: %s", log)
	}
}

func TestNothingIsLeftInTheContainerAtTheSubmission(t *testing.T) {
	t.Parallel()
	var c *container
	srv := agenttest.New(lease(), func(r agenttest.Request) agenttest.Action {
		if r.Kind != agenttest.Submit {
			return agenttest.Serve
		}
		return agenttest.Action{Before: func() {
			if left := c.inContainer(); left != nil {
				t.Errorf("left while the agent submits: %v", left)
			}
		}}
	})
	defer srv.Close()
	c = newContainer(t, srv, "child", "orphans")
	c.start(t)
	if code := c.exitCode(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, c.stderr.String())
	}
	if got := submission(t, srv); got.Outcome != fencing.Succeeded || got.Result == nil || *got.Result != "left two behind" {
		t.Errorf("submitted %+v", got)
	}
}

// TestFencesItselfWithShippedTiming takes a lease duration: nothing is scaled here.
func TestFencesItselfWithShippedTiming(t *testing.T) {
	if testing.Short() {
		t.Skip("Skipped in short mode: it lasts as long as a lease of 10 s")
	}
	t.Parallel()
	var c *container
	var claimed atomic.Int64
	srv := agenttest.New(lease(), func(r agenttest.Request) agenttest.Action {
		switch r.Kind {
		case agenttest.Claim:
			claimed.Store(time.Now().UnixNano())
		case agenttest.Renew:
			return agenttest.Timeout
		case agenttest.Submit:
			return agenttest.Action{Before: func() {
				if left := c.inContainer(); left != nil {
					t.Errorf("left while the agent submits: %v", left)
				}
				t.Logf("The tree was dead, and the agent submitted, %s after its claim; D is 10 s", time.Since(time.Unix(0, claimed.Load())))
			}}
		}
		return agenttest.Serve
	})
	defer srv.Close()
	c = newContainer(t, srv, "child", "deaf")
	c.start(t)
	if code := c.exitCode(t); code != agent.ExitFenced {
		t.Fatalf("exit code %d: %s", code, c.stderr.String())
	}
	if got := submission(t, srv); got.Outcome != fencing.Fenced {
		t.Errorf("submitted %+v", got)
	}
}

// TestAFullStderrHoldsNothingUp: somebody has filled it before the agent's first line, and nobody reads it.
func TestAFullStderrHoldsNothingUp(t *testing.T) {
	t.Parallel()
	reader, stderr, err := os.Pipe()
	mustNot(t, err)
	defer reader.Close() //nolint:errcheck // never read
	mustNot(t, stderr.SetWriteDeadline(time.Now().Add(time.Second)))
	if _, err := stderr.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("a pipe takes what nobody reads: %v", err)
	}
	srv := agenttest.New(lease(), nil)
	defer srv.Close()
	c := newContainer(t, srv, "child", "exit", "7")
	c.Stderr = stderr
	c.start(t)
	mustNot(t, stderr.Close())
	hung := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer hung.Stop()
	if code := c.exitCode(t); code != 7 {
		t.Errorf("exit code %d", code)
	}
	if got := submission(t, srv); got.Outcome != fencing.Failed || got.Reason != fencing.ReasonNonZeroExit {
		t.Errorf("submitted %+v", got)
	}
}

func TestASecondProcessRunsNothing(t *testing.T) {
	t.Parallel()
	srv := agenttest.New(lease(), nil)
	defer srv.Close()
	srv.Patch(fencing.ClaimPatch("pod-1", fencing.Claim{Nonce: "first", Node: "node-1", PodUID: "uid-1"}, time.Now()))
	c := newContainer(t, srv, "child", "env")
	c.start(t)
	if code := c.exitCode(t); code != agent.ExitNotHeld {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(c.path(env.ResultPath)); err == nil {
		t.Error("the command ran")
	}
}

func TestInstall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dest := filepath.Join(dir, "agent")
	for range 2 { // a repeated init container finds the first copy
		if output, err := exec.Command(agentPath, "install", dest).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	info, err := os.Stat(dest)
	mustNot(t, err)
	if info.Mode().Perm() != 0o555 {
		t.Errorf("mode %s", info.Mode())
	}
	want, err := os.ReadFile(agentPath)
	mustNot(t, err)
	got, err := os.ReadFile(dest)
	mustNot(t, err)
	if string(want) != string(got) {
		t.Error("the copy differs")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestInstallFails(t *testing.T) {
	t.Parallel()
	occupied := filepath.Join(t.TempDir(), "agent")
	mustNot(t, os.MkdirAll(filepath.Join(occupied, "x"), 0o700))
	for name, dest := range map[string]string{"no such directory": "/no/such/directory/agent", "a directory is there": occupied} {
		t.Run(name, func(t *testing.T) {
			if output, err := exec.Command(agentPath, "install", dest).CombinedOutput(); err == nil || len(output) == 0 {
				t.Errorf("error %v, output %s", err, output)
			}
		})
	}
	if entries, _ := os.ReadDir(filepath.Dir(occupied)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		want string
	}{
		"nothing":         {nil, "usage:"},
		"no command":      {[]string{"--"}, "usage:"},
		"no dash":         {[]string{"true"}, "usage:"},
		"install nowhere": {[]string{"install"}, "usage:"},
		"no settings":     {[]string{"--", "true"}, env.AgentLease + " is not set"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(agentPath, tc.args...)
			cmd.Env = []string{"PATH=/bin"}
			output, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != agent.ExitUsage || !strings.Contains(string(output), tc.want) {
				t.Errorf("%v: %s", err, output)
			}
		})
	}
}

func TestStopsWithAResult(t *testing.T) {
	t.Parallel()
	srv := agenttest.New(lease(), nil)
	defer srv.Close()
	c := newContainer(t, srv, "child", "start")
	c.start(t)
	c.untilBegun()
	mustNot(t, c.Process.Signal(syscall.SIGTERM))
	if code := c.exitCode(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, c.stderr.String())
	}
	if got := submission(t, srv); got.Outcome != fencing.Succeeded {
		t.Errorf("submitted %+v", got)
	}
}

// untilBegun waits for a command that says so.
func (c *container) untilBegun() {
	for range 3000 {
		if _, err := os.Stat(c.path(env.ResultPath + ".began")); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestStopsWhenItsLeaseSaysSo: the pull, with shipped timing: no signal comes from outside.
func TestStopsWhenItsLeaseSaysSo(t *testing.T) {
	t.Parallel()
	srv := agenttest.New(lease(), nil)
	defer srv.Close()
	c := newContainer(t, srv, "child", "told")
	c.start(t)
	c.untilBegun()
	claim := fencing.ParseClaim(srv.Annotation(fencing.ClaimAnnotation))
	begin := time.Now()
	stop := fencing.Stop{Reason: fencing.ReasonCancelled, Message: "no longer needed", GraceSeconds: 20, Time: begin}
	if code := srv.Patch(fencing.StopPatch(&fencing.Term{Holder: "pod-1", Claim: &claim}, stop)); code != 200 {
		t.Fatalf("stop answered %d", code)
	}
	if code := c.exitCode(t); code != 3 {
		t.Fatalf("exit code %d: %s", code, c.stderr.String())
	}
	if took, p := time.Since(begin), fencing.TimingFor(10*time.Second).Renew; took > p+5*time.Second {
		t.Errorf("the command heeds at once, and %s have passed; p is %s", took, p)
	}
	if got := submission(t, srv); got.Outcome != fencing.Cancelled || got.Reason != fencing.ReasonCancelled || got.ExitCode == nil || *got.ExitCode != 3 {
		t.Errorf("submitted %+v", got)
	}
	if told := c.read(t, env.ResultPath); told != "Cancelled\nno longer needed<nil>" {
		t.Errorf("when it was told, its cancel file said %q", told)
	}
}
