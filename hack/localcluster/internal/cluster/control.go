package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/leasehold-io/leasehold/hack/localcluster/internal/process"
)

// errNotUp is the answer to commands that need a cluster.
var errNotUp = errors.New("the cluster is not up: run `up` first")

// Load imports image archives into every node. A tag that is loaded again names the new image from then on.
func (c *Cluster) Load(ctx context.Context, archives []string) error {
	if !c.isUp() {
		return errNotUp
	}
	for _, file := range archives {
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("find archive: %w", err)
		}
	}
	return c.load(ctx, archives)
}

// StopKubelet ends a node's kubelet; its containers run on.
func (c *Cluster) StopKubelet(ctx context.Context, name string) error {
	n, err := c.Node(name)
	if err != nil {
		return err
	}
	return c.stopOne(ctx, n.kubelet(), stopGrace)
}

// StartKubelet starts it again and waits until it answers; the node may be Ready a little later.
func (c *Cluster) StartKubelet(ctx context.Context, name string) error {
	n, err := c.Node(name)
	if err != nil {
		return err
	}
	return c.startOne(ctx, n.kubelet(), func(ctx context.Context) error {
		return c.await(ctx, "the kubelet of "+n.Name, n.kubelet(), func(ctx context.Context) error {
			_, err := run(ctx, "nsenter", "--net="+n.NetNS(), "--", busyboxFile, "wget", "-q", "-O", "/dev/null", "http://127.0.0.1:10248/healthz")
			return err
		})
	})
}

// StopAPI ends the API server and nothing else, as a crash does: one that takes its leave removes the endpoint of its own service, and
// after its return each node finds it again at a time of its own.
func (c *Cluster) StopAPI(ctx context.Context) error { return c.stopOne(ctx, apiserver, 0) }

// StartAPI starts the API server again and waits until it is ready.
func (c *Cluster) StartAPI(ctx context.Context) error {
	return c.startOne(ctx, apiserver, c.awaitAPIServer)
}

func (c *Cluster) stopOne(ctx context.Context, name string, grace time.Duration) error {
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.lock.Release()
	if !c.isUp() {
		return errNotUp
	}
	return process.Stop(c.pidFile(name), grace)
}

func (c *Cluster) startOne(ctx context.Context, name string, awaitReady func(context.Context) error) error {
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.lock.Release()
	if !c.isUp() {
		return errNotUp
	}
	if err := c.plan(ctx); err != nil {
		return err
	}
	if err := c.start(name); err != nil {
		return err
	}
	return awaitReady(ctx)
}

// NodeExec becomes a command inside a node's network namespace; it returns only with an error.
func (c *Cluster) NodeExec(name string, argv []string) error {
	n, err := c.Node(name)
	if err != nil {
		return err
	}
	if !isNamespace(n.NetNS()) {
		return errNotUp
	}
	nsenter, err := exec.LookPath("nsenter")
	if err != nil {
		return fmt.Errorf("find nsenter: %w", err)
	}
	return syscall.Exec(nsenter, append([]string{nsenter, "--net=" + n.NetNS(), "--"}, argv...), os.Environ())
}
