package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/test/faults/journal"
)

// KillAgent kills the agent of a worker's Pod, and the kernel what else is in its container.
func (h *Harness) KillAgent(ctx context.Context, pod string) error {
	return h.kill(ctx, h.Namespace, pod, func(argv []string) bool { return argv[0] == env.AgentPath })
}

// KillCommand kills the worker's command; its agent and its child stay.
func (h *Harness) KillCommand(ctx context.Context, pod string) error {
	return h.kill(ctx, h.Namespace, pod, func(argv []string) bool { return argv[0] == "/worker" && len(argv) == 1 })
}

// KillAll kills every process of a Pod.
func (h *Harness) KillAll(ctx context.Context, namespace, pod string) error {
	return h.kill(ctx, namespace, pod, func([]string) bool { return true })
}

// IsBeating is true when the command of a Pod has written to its journal within the last second.
func (h *Harness) IsBeating(pod string) bool {
	files, _ := filepath.Glob(filepath.Join(h.Journals, pod+"-"+journal.Main+"-*"))
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && time.Since(info.ModTime()) < time.Second {
			return true
		}
	}
	return false
}

// kill kills the processes of a Pod with matching arguments, from outside. It works without the API server.
func (h *Harness) kill(ctx context.Context, namespace, pod string, matches func(argv []string) bool) error {
	printed, err := h.Localcluster(ctx, "node-pids", pod, "-n", namespace)
	if err != nil {
		return err
	}
	killed := 0
	for line := range strings.Lines(printed) {
		pid, err := strconv.Atoi(strings.Fields(line)[0])
		if err != nil {
			return err
		}
		process, err := os.FindProcess(pid) // held by a descriptor, so that nothing can take its place
		if err != nil {
			continue
		}
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		argv := strings.Split(string(bytes.TrimRight(command, "\x00")), "\x00")
		if err == nil && matches(argv) && process.Kill() == nil {
			killed++
		}
		_ = process.Release()
	}
	if killed == 0 {
		return errors.New("no process of Pod " + pod + " was there to be killed")
	}
	return nil
}
