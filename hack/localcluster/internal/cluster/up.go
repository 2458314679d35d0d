package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/leasehold-io/leasehold/hack/debian"
)

// Up brings the cluster up and waits until Pods can run. A healthy one is left as it is; one that lacks parts (a component was
// stopped or died, a node is partitioned) gets them back; anything else is cleaned away and made anew.
func (c *Cluster) Up(ctx context.Context) error {
	start := time.Now()
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.lock.Release()
	if err := debian.Ensure(ctx, c.progress, packages); err != nil {
		return err
	}
	if err := c.plan(ctx); err != nil {
		return err
	}
	files, err := c.configFiles()
	if err != nil {
		return err
	}
	print, err := fingerprint(files, c.components)
	if err != nil {
		return err
	}
	if c.isUp() && readMarker(c.completeMarker()) == print {
		err = c.repair(ctx)
	} else {
		err = c.create(ctx, files, print)
	}
	if err != nil {
		return err
	}
	c.sayf("The cluster is up (%s). export KUBECONFIG=%s", time.Since(start).Round(100*time.Millisecond), c.AdminKubeconfig())
	return nil
}

// repair starts what does not run. Every step leaves alone what is there.
func (c *Cluster) repair(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := heal(ctx, n); err != nil {
			return err
		}
	}
	return c.startAll(ctx, func(context.Context) error { return nil })
}

func (c *Cluster) create(ctx context.Context, files map[string][]byte, print string) error {
	if err := c.sweep(ctx); err != nil {
		return fmt.Errorf("clean up after an earlier cluster: %w", err)
	}
	if err := c.prepare(files); err != nil {
		return err
	}
	if err := c.makeNetwork(ctx); err != nil {
		return err
	}
	if err := c.startAll(ctx, c.loadBaseImages); err != nil {
		return err
	}
	return os.WriteFile(c.completeMarker(), []byte(print), 0o600)
}

func readMarker(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(content)
}

// prepare makes all directories and files.
func (c *Cluster) prepare(files map[string][]byte) error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w", err)
	}
	if err := os.MkdirAll(runDir, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", runDir, err)
	}
	if err := os.WriteFile(ownerFile(), []byte(c.Dir+"\n"), 0o600); err != nil {
		return fmt.Errorf("note the state directory: %w", err)
	}
	dirs := []string{c.pki(), c.kubeconfigs(), c.pids(), c.logs()}
	for _, n := range c.Nodes {
		dirs = append(dirs, n.Run)
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if err := c.prepareHost(); err != nil {
		return err
	}
	for path, content := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("write configuration: %w", err)
		}
	}
	if err := c.writePKI(time.Now()); err != nil {
		return err
	}
	return c.writeUsers()
}

func (c *Cluster) loadBaseImages(ctx context.Context) error {
	archives, err := c.baseImages(ctx)
	if err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if err := c.awaitContainerd(ctx, n); err != nil {
			return err
		}
	}
	return c.load(ctx, archives)
}

// startAll starts the components in the order of their needs and waits until the cluster can run Pods.
func (c *Cluster) startAll(ctx context.Context, loadImages func(context.Context) error) error {
	for _, n := range c.Nodes {
		if err := c.start(n.containerd()); err != nil {
			return err
		}
	}
	foundations, inner := errgroup.WithContext(ctx)
	foundations.Go(func() error { return loadImages(inner) })
	foundations.Go(func() error { return c.startControlPlane(inner) })
	foundations.Go(func() error {
		for _, n := range c.Nodes {
			if err := c.awaitContainerd(inner, n); err != nil {
				return err
			}
		}
		return nil
	})
	if err := foundations.Wait(); err != nil {
		return err
	}
	for _, n := range c.Nodes {
		for _, name := range []string{n.kubelet(), n.kubeProxy()} {
			if err := c.start(name); err != nil {
				return err
			}
		}
	}
	return c.awaitNodes(ctx)
}
