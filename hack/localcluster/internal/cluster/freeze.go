package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold-io/leasehold/hack/localcluster/internal/process"
)

const (
	freezeLimit    = 10 * time.Second
	freezeInterval = 5 * time.Millisecond
	// Two passes without a runner: what was forked while the first looked is seen by the second, and a stopped process forks nothing.
	quietPasses = 2
)

// Freeze stops (SIGSTOP) every process of a Pod's containers and returns how many there are. Processes that enter the containers
// later (kubectl exec, exec probes) are not frozen.
func (c *Cluster) Freeze(ctx context.Context, namespace, pod string) (int, error) {
	containers, err := c.containers(ctx, namespace, pod)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, freezeLimit)
	defer cancel()
	for quiet := 0; quiet < quietPasses; {
		running, err := signalAll(containers, unix.SIGSTOP, func(s process.Stat) bool { return !s.IsStopped() })
		if err != nil {
			return 0, err
		}
		quiet++
		if running > 0 {
			quiet = 0
		}
		if err := sleep(ctx, freezeInterval); err != nil {
			return 0, fmt.Errorf("%d processes of pod %s/%s do not stop: %w", running, namespace, pod, err)
		}
	}
	all, err := c.Processes(ctx, namespace, pod)
	return len(all), err
}

// Thaw lets them go on (SIGCONT) and returns how many it woke. What is awake may end at once, so nothing is looked up after.
func (c *Cluster) Thaw(ctx context.Context, namespace, pod string) (int, error) {
	containers, err := c.containers(ctx, namespace, pod)
	if err != nil {
		return 0, err
	}
	return signalAll(containers, unix.SIGCONT, process.Stat.IsStopped)
}

// signalAll signals each process with a thread in the wanted state, and returns how many there were.
func signalAll(containers []container, signal unix.Signal, wanted func(process.Stat) bool) (int, error) {
	count := 0
	for _, ct := range containers {
		for _, pid := range cgroupPIDs(ct.cgroup) {
			if !anyThread(pid, wanted) {
				continue
			}
			count++
			err := process.SignalIf(pid, signal, func(pid int) bool { return isInCgroup(pid, ct.cgroup) })
			if err != nil {
				return count, err
			}
		}
	}
	return count, nil
}

// anyThread looks at all threads: a process counts as stopped when the last of them is, and its first may have ended long ago.
func anyThread(pid int, wanted func(process.Stat) bool) bool {
	threads, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	if err != nil {
		return false
	}
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		if err != nil {
			continue
		}
		stat, err := process.ReadStat(tid)
		if err == nil && !stat.IsDead() && wanted(stat) {
			return true
		}
	}
	return false
}
