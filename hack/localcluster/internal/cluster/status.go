package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/leasehold-io/leasehold/hack/localcluster/internal/process"
)

// Status prints each component and node; its error means that the cluster is not whole.
func (c *Cluster) Status(ctx context.Context, out io.Writer) error {
	names, err := c.recorded()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return errNotUp
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var wrong []string
	for _, name := range c.componentNames() {
		state := "stopped"
		id, found, err := process.Load(c.pidFile(name))
		if err == nil && found && id.IsAlive() {
			state = fmt.Sprintf("running\tpid %d", id.PID)
		} else {
			wrong = append(wrong, name+" does not run")
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\n", name, state)
	}
	for _, n := range c.Nodes {
		state := c.nodeState(ctx, n)
		if state != "Ready" {
			wrong = append(wrong, "node "+n.Name+" is not Ready")
		}
		_, _ = fmt.Fprintf(w, "node %s\t%s\t%s\n", n.Name, state, n.Address())
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print status: %w", err)
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, ", "))
	}
	return nil
}

func (l Layout) componentNames() []string {
	var names []string
	for _, comp := range l.components(nil, "") {
		names = append(names, comp.name)
	}
	return names
}

func (c *Cluster) nodeState(ctx context.Context, n Node) string {
	if state := partitionOf(ctx, n); state != "" {
		return state
	}
	api, err := c.client()
	if err == nil {
		err = api.nodeReady(ctx, n)
	}
	if err != nil {
		return "not Ready: " + err.Error()
	}
	return "Ready"
}
