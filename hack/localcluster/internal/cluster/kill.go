package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold-io/leasehold/hack/localcluster/internal/process"
)

const remainsLimit = 20 * time.Second

// killContainers kills every process in our cgroups once.
func (c *Cluster) killContainers() error {
	for _, cgroup := range c.cgroups() {
		for _, pid := range cgroupPIDs(cgroup) {
			err := process.SignalIf(pid, unix.SIGKILL, func(pid int) bool { return isInCgroup(pid, cgroup) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// killRemains ends shims and late containers until there are none; containerd no longer runs.
func (c *Cluster) killRemains(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, remainsLimit)
	defer cancel()
	for {
		left := 0
		for _, n := range c.Nodes {
			shims, err := killShims(n)
			if err != nil {
				return err
			}
			left += shims
		}
		for _, cgroup := range c.cgroups() {
			left += len(cgroupPIDs(cgroup))
		}
		if err := c.killContainers(); err != nil {
			return err
		}
		if left == 0 {
			return nil
		}
		if err := sleep(ctx, pollInterval); err != nil {
			return fmt.Errorf("%d containers or their shims do not end: %w", left, err)
		}
	}
}

// killShims kills the shims that were started for a node's containerd, and returns how many there were. They are recognised by the
// argument "-address <our socket>".
func killShims(n Node) (int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("list processes: %w", err)
	}
	isOurs := func(pid int) bool {
		content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		return err == nil && isShimOf(content, n.ContainerdSocket())
	}
	found := 0
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !isOurs(pid) {
			continue
		}
		found++
		if err := process.SignalIf(pid, unix.SIGKILL, isOurs); err != nil {
			return found, err
		}
	}
	return found, nil
}

func isShimOf(cmdline []byte, socket string) bool {
	argv := bytes.Split(bytes.TrimRight(cmdline, "\x00"), []byte{0})
	if filepath.Base(string(argv[0])) != "containerd-shim-runc-v2" {
		return false
	}
	for i := 1; i+1 < len(argv); i++ {
		if string(argv[i]) == "-address" && string(argv[i+1]) == socket {
			return true
		}
	}
	return false
}
