package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// ProcessTree is the process tree of one container, or, where the agent is not its first process, of the agent.
//
// As process 1 the agent inherits every orphan and may signal everything in its PID namespace with one call. Otherwise it
// becomes a subreaper, which inherits the orphans among its descendants, and finds them in /proc.
type ProcessTree struct {
	argv  []string
	env   []string
	first bool // this is process 1 of the PID namespace

	mu     sync.Mutex // held while a child is reaped, so that no signal can go to a number that was given away
	pid    int
	alive  bool // the command has not been reaped
	exited chan holder.Exit
	empty  chan struct{}
}

// NewProcessTree prepares a command. argv[0] is looked up in PATH, as a container runtime does.
func NewProcessTree(argv, environ []string) (*ProcessTree, error) {
	first := os.Getpid() == 1
	if !first {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return nil, fmt.Errorf("become a subreaper: %w", err)
		}
	}
	return &ProcessTree{argv: argv, env: environ, first: first,
		exited: make(chan holder.Exit, 1), empty: make(chan struct{})}, nil
}

// Start implements [Tree].
func (t *ProcessTree) Start(environ ...string) error {
	path, err := exec.LookPath(t.argv[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		if errors.Is(err, exec.ErrNotFound) {
			return fmt.Errorf("%q is not in PATH: %w", t.argv[0], fs.ErrNotExist)
		}
		return err
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)

	t.mu.Lock()
	defer t.mu.Unlock()
	t.pid, err = syscall.ForkExec(path, t.argv, &syscall.ProcAttr{
		Env:   slices.Concat(t.env, environ),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: !isTerminal(0)}, // on a terminal, the command stays in its foreground group
	})
	if err != nil {
		signal.Stop(children)
		return &fs.PathError{Op: "exec", Path: path, Err: err}
	}
	t.alive = true
	go t.reapOn(children)
	return nil
}

// isTerminal reports whether fd is one: the container was given `tty: true`.
func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

func (t *ProcessTree) reapOn(children chan os.Signal) {
	defer signal.Stop(children)
	for range children {
		if t.reap() {
			close(t.empty)
			return
		}
	}
}

// reap collects every child that has ended, and reports whether the command has and no child is left. An orphan becomes the
// agent's child before its parent is reaped, so no child means no descendant.
func (t *ProcessTree) reap() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.ECHILD):
			return !t.alive
		case err != nil || pid == 0:
			return false
		case pid == t.pid && t.alive:
			t.alive = false
			t.exited <- exitOf(status)
		}
	}
}

func exitOf(status syscall.WaitStatus) holder.Exit {
	if status.Signaled() {
		return holder.Exit{Code: 128 + int(status.Signal()), Signal: status.Signal()}
	}
	return holder.Exit{Code: status.ExitStatus()}
}

// Signal implements [Tree].
func (t *ProcessTree) Signal(sig syscall.Signal, group bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.alive {
		return
	}
	if group && syscall.Kill(-t.pid, sig) == nil {
		return
	}
	_ = syscall.Kill(t.pid, sig) // it ends by itself or by SIGKILL; there is nobody to tell
}

// Kill implements [Tree].
func (t *ProcessTree) Kill(sig syscall.Signal) {
	if t.first {
		_ = syscall.Kill(-1, sig) // none left is no error; and a process of another user is left to the kernel
		return
	}
	t.mu.Lock() // nothing is reaped between the look into /proc and the signal
	defer t.mu.Unlock()
	for _, pid := range descendants(os.Getpid()) {
		_ = syscall.Kill(pid, sig)
	}
}

// Exited implements [Tree].
func (t *ProcessTree) Exited() <-chan holder.Exit { return t.exited }

// Empty implements [Tree].
func (t *ProcessTree) Empty() <-chan struct{} { return t.empty }
