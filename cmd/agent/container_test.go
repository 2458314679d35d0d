//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
)

// agentPath and childPath are static binaries, built once for all tests.
var agentPath, childPath string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "agent-test-")
	if err != nil {
		panic(err)
	}
	agentPath, childPath = filepath.Join(dir, "agent"), filepath.Join(dir, "child")
	compile(agentPath, ".")
	compile(childPath, "./testdata/child")
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// compile builds as the release does.
func compile(out, pkg string) {
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		panic("go build " + pkg + ": " + string(output))
	}
}

// container is a worker container without a container runtime: an empty root, a PID namespace of its own, the files that
// the kubelet would mount, and the agent as process 1.
type container struct {
	*exec.Cmd
	root   string
	stderr bytes.Buffer
}

func newContainer(t *testing.T, srv *agenttest.Server, command ...string) *container {
	t.Helper()
	c := &container{root: t.TempDir()}
	for _, dir := range []string{env.BinDir, env.RunDir, env.APIDir, "/dev", "/bin"} {
		mustNot(t, os.MkdirAll(filepath.Join(c.root, dir), 0o755))
	}
	mustNot(t, os.WriteFile(c.path(env.TerminationLog), nil, 0o600))
	mustNot(t, os.Link(childPath, c.path("/bin/child")))
	_, _, err := srv.WriteCredentials(c.path(env.APIDir), "secret-token")
	mustNot(t, err)
	install := exec.Command(agentPath, "install", c.path(env.AgentPath))
	if output, err := install.CombinedOutput(); err != nil {
		t.Fatalf("agent install: %v: %s", err, output)
	}
	c.Cmd = exec.Command(env.AgentPath, append([]string{"--"}, command...)...)
	c.Stderr = &c.stderr
	c.Dir = "/"
	c.Env = settings(srv)
	c.SysProcAttr = &syscall.SysProcAttr{
		Chroot: c.root, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if os.Getuid() == 0 {
		c.SysProcAttr.Cloneflags &^= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings, c.SysProcAttr.GidMappings = nil, nil
	}
	return c
}

func settings(srv *agenttest.Server) []string {
	host, port, _ := bytes.Cut([]byte(srv.HostPort()), []byte(":"))
	return []string{
		"PATH=/bin", "MINE=kept",
		"KUBERNETES_SERVICE_HOST=" + string(host), "KUBERNETES_SERVICE_PORT=" + string(port),
		env.Namespace + "=default", env.FencingToken + "=17592186044417", env.ResultFile + "=" + env.ResultPath, env.CancelFile + "=" + env.CancelPath,
		env.AgentLease + "=lh-1", env.AgentPodName + "=pod-1", env.AgentPodUID + "=uid-1", env.AgentNodeName + "=node-1",
		env.AgentDurationSeconds + "=10", env.AgentStopGrace + "=30", env.AgentOnRenewalFailure + "=Fence", env.AgentAttemptSeconds + "=0",
		env.AgentHeartbeat + "=Process", env.Socket + "=" + env.SocketPath, env.CheckpointFile + "=" + env.CheckpointPath,
	}
}

func (c *container) path(inside string) string { return filepath.Join(c.root, inside) }

// start starts it, or skips the test where the kernel does not let us.
func (c *container) start(t *testing.T) {
	t.Helper()
	err := c.Start()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("Skipped: this kernel gives no PID namespace to user %d on %s: %v", os.Getuid(), runtime.GOOS, err)
	}
	mustNot(t, err)
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
}

// exitCode waits for the agent's end.
func (c *container) exitCode(t *testing.T) int {
	t.Helper()
	var exit *exec.ExitError
	if err := c.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode()
}

func (c *container) read(t *testing.T, inside string) string {
	t.Helper()
	content, err := os.ReadFile(c.path(inside))
	mustNot(t, err)
	return string(content)
}

func mustNot(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
