package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-io/leasehold/hack/localcluster/internal/process"
)

const (
	pollInterval   = 100 * time.Millisecond
	tellAfter      = 3 * time.Second // a wait that is longer says what it waits for
	componentLimit = 90 * time.Second
	logLines       = 15
)

// await polls until check succeeds. It fails at once when the component it depends on has ended, and its errors show that
// component's last log lines.
func (c *Cluster) await(ctx context.Context, what, name string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, componentLimit)
	defer cancel()
	told := false
	for start := time.Now(); ; {
		last := check(ctx)
		if last == nil {
			return nil
		}
		if ended, how := c.hasEnded(name); ended {
			return c.blame(name, fmt.Errorf("%s ended (%s) while we waited for %s", name, how, what))
		}
		if !told && time.Since(start) > tellAfter {
			c.sayf("Waiting for %s: %v", what, last)
			told = true
		}
		if sleep(ctx, pollInterval) != nil {
			return c.blame(name, fmt.Errorf("waited %s for %s: %w", time.Since(start).Round(time.Second), what, last))
		}
	}
}

// hasEnded speaks of processes that we started; others may be about to be started.
func (c *Cluster) hasEnded(name string) (ended bool, how string) {
	c.mu.Lock()
	handle := c.handles[name]
	c.mu.Unlock()
	if handle == nil {
		return false, ""
	}
	select {
	case <-handle.Exited():
		return true, handle.State()
	default:
		return false, ""
	}
}

func (c *Cluster) blame(name string, err error) error {
	log := c.logFile(name)
	return fmt.Errorf("%w\nThe end of %s:\n%s", err, log, process.Tail(log, logLines))
}
