package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/leasehold-io/leasehold/hack/localcluster/internal/binaries"
	"github.com/leasehold-io/leasehold/hack/localcluster/internal/flock"
	"github.com/leasehold-io/leasehold/hack/localcluster/internal/process"
)

// Cluster is the cluster of one state directory, running or not.
type Cluster struct {
	Layout
	progress io.Writer

	lock       *flock.Lock
	components []component

	mu      sync.Mutex
	handles map[string]*process.Handle // of what this very process started
}

// New returns the cluster of a layout; progress is where commands tell what they do.
func New(l Layout, progress io.Writer) *Cluster {
	return &Cluster{Layout: l, progress: progress, handles: map[string]*process.Handle{}}
}

func (c *Cluster) sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(c.progress, format+"\n", args...)
}

// acquire takes the machine's lock for commands that start or stop components.
func (c *Cluster) acquire(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("only root can do that: it starts containers and changes network namespaces")
	}
	lock, err := flock.Acquire(ctx, lockFile, func() { c.sayf("Waiting for another localcluster command (lock %s)", lockFile) })
	if err != nil {
		return err
	}
	c.lock = lock
	return c.checkOwner()
}

// checkOwner refuses to touch a cluster that lives in another state directory: its pid files are there.
func (c *Cluster) checkOwner() error {
	content, err := os.ReadFile(ownerFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the owner of this machine's cluster: %w", err)
	}
	owner := strings.TrimSpace(string(content))
	if _, err := os.Stat(owner); owner == c.Dir || err != nil {
		return nil
	}
	return fmt.Errorf("a cluster with the state directory %s is on this machine; end it first with %s=%s and `down`", owner, DirEnv, owner)
}

// plan finds the binaries and works out every component.
func (c *Cluster) plan(ctx context.Context) error {
	bins, err := binaries.Paths(ctx, c.progress, kubernetesBinaries)
	if err != nil {
		return err
	}
	containerd, err := exec.LookPath("containerd")
	if err != nil {
		return fmt.Errorf("find containerd: %w", err)
	}
	c.components = c.Layout.components(bins, containerd)
	return nil
}

func (c *Cluster) named(name string) (component, error) {
	for _, comp := range c.components {
		if comp.name == name {
			return comp, nil
		}
	}
	return component{}, fmt.Errorf("no component is called %s", name)
}

// start runs a component unless it already does.
func (c *Cluster) start(name string) error {
	comp, err := c.named(name)
	if err != nil {
		return err
	}
	if process.IsAlive(comp.launch.PIDFile) {
		return nil
	}
	handle, err := process.Start(comp.launch, c.logFile(name), c.lock.File())
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handles[name] = handle
	return nil
}

func (c *Cluster) isRunning(name string) bool { return process.IsAlive(c.pidFile(name)) }

// isUp is true when a complete cluster's foundations run, so that the rest can be repaired.
func (c *Cluster) isUp() bool {
	if _, err := os.Stat(c.completeMarker()); err != nil {
		return false
	}
	for _, n := range c.Nodes {
		if !c.isRunning(n.containerd()) || !isNamespace(n.NetNS()) {
			return false
		}
	}
	return c.isRunning(etcd)
}
