package process

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Handle is a process that we started, as long as we live ourselves.
type Handle struct {
	Log    string
	exited chan struct{}
	state  string
}

// Exited is closed when the process has ended.
func (h *Handle) Exited() <-chan struct{} { return h.exited }

// State is how it ended, for example "exit status 1". Valid after Exited.
func (h *Handle) State() string { return h.state }

// Start runs l in a session of its own, so that neither a terminal's signals nor our end reach it. Its output is appended to log. When Start
// returns, the pid file and the namespaces are there; should we be killed before, the process keeps the lock until then.
func Start(l Launch, log string, lock *os.File) (*Handle, error) {
	spec, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encode launch: %w", err)
	}
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command("/proc/self/exe", LauncherCommand)
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(spec), out, out
	report, reportEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	defer func() { _ = report.Close() }()
	cmd.ExtraFiles = []*os.File{lock, reportEnd}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = reportEnd.Close() // or we would never read its end
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", l.Argv[0], err)
	}
	h := &Handle{Log: log, exited: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		h.state = cmd.ProcessState.String()
		close(h.exited)
	}()
	problem, err := io.ReadAll(report)
	if err != nil {
		return nil, fmt.Errorf("wait for the launch of %s: %w", l.Argv[0], err)
	}
	if len(problem) > 0 {
		return nil, fmt.Errorf("launch %s: %s", l.Argv[0], problem)
	}
	return h, nil
}

// Tail is the end of a log, for error messages.
func Tail(log string, lines int) string {
	const most = 64 << 10
	content, err := os.ReadFile(log)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	if len(content) > most {
		content = content[len(content)-most:]
	}
	all := strings.Split(strings.TrimRight(string(content), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}
