package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leasehold-io/leasehold/hack/localcluster/internal/process"
)

// Down ends the cluster and removes everything of it but the binaries' cache.
func (c *Cluster) Down(ctx context.Context) error {
	start := time.Now()
	if err := c.acquire(ctx); err != nil {
		return err
	}
	if err := c.sweep(ctx); err != nil {
		c.lock.Release()
		return err
	}
	c.lock.Remove()
	c.sayf("The cluster is down (%s)", time.Since(start).Round(100*time.Millisecond))
	return nil
}

// sweep works from any state: nothing there, half made, or crashed. It trusts pid files, our cgroups and our socket's path, not memory.
func (c *Cluster) sweep(ctx context.Context) error {
	names, err := c.recorded()
	if err != nil {
		return err
	}
	if len(names) > 0 {
		c.sayf("Stopping %d components", len(names))
	}
	before := c.cgroups() // containerd forgets those that end while it still runs
	isNode := func(name string) bool {
		return strings.HasSuffix(name, "-kubelet") || strings.HasSuffix(name, "-kube-proxy")
	}
	isRuntime := func(name string) bool { return strings.HasSuffix(name, "-containerd") }
	steps := []func() error{
		func() error { return c.stopAll(names, isNode) }, // nothing restarts containers from here on
		c.killContainers,
		func() error { return c.stopAll(names, isRuntime) },
		func() error { return c.killRemains(ctx) },
		func() error { return c.stopAll(names, func(string) bool { return true }) },
		func() error { return c.removeNetwork(ctx) },
		func() error { return removeCgroups(append(before, c.cgroups()...)) },
		c.removeFiles,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// recorded lists the components with a pid file.
func (c *Cluster) recorded() ([]string, error) {
	entries, err := os.ReadDir(c.pids())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list pid files: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".tmp") {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

func (c *Cluster) stopAll(names []string, isMeant func(string) bool) error {
	var g errgroup.Group
	for _, name := range names {
		if isMeant(name) {
			g.Go(func() error { return process.Stop(c.pidFile(name), stopGrace) })
		}
	}
	return g.Wait()
}

// removeFiles refuses to delete through a mount: it could hold somebody's data.
func (c *Cluster) removeFiles() error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read mounts: %w", err)
	}
	for _, dir := range []string{c.Dir, runDir} {
		below := mountsBelow(string(mounts), dir)
		if len(below) > 0 {
			return fmt.Errorf("these mounts lie below %s and are not the cluster's; unmount them and try again: %s",
				dir, strings.Join(below, " "))
		}
	}
	if err := c.restoreHost(); err != nil {
		return err
	}
	for _, dir := range []string{c.Dir, runDir} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
	}
	return nil
}

// mountsBelow reads mount points from mountinfo, whose fifth field has spaces and the like as octal escapes (our own paths have none).
func mountsBelow(mountinfo, dir string) []string {
	var below []string
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) > 4 && (fields[4] == dir || strings.HasPrefix(fields[4], dir+"/")) {
			below = append(below, fields[4])
		}
	}
	return below
}
