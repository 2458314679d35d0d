package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// makeNetwork lays a cable from a bridge on the host into each node's namespace.
//
// There is no default route in a node and no forwarding on the host: what is not for the cluster is refused at once and never leaves
// the machine.
func (c *Cluster) makeNetwork(ctx context.Context) error {
	if err := c.makeNamespaces(ctx); err != nil {
		return err
	}
	if _, err := runInput(ctx, c.hostLinks(), "ip", "-batch", "-"); err != nil {
		return fmt.Errorf("make the bridge: %w", err)
	}
	for _, n := range c.Nodes {
		if _, err := runInput(ctx, c.nodeLinks(n), "ip", "-n", n.Name, "-batch", "-"); err != nil {
			return fmt.Errorf("set up the network of %s: %w", n.Name, err)
		}
		// A Pod's packet that still has a service's address when it is forwarded belongs to no Service. Refused, not dropped: a lookup
		// at the DNS server that does not exist fails at once.
		script := "echo 1 > /proc/sys/net/ipv4/ip_forward && iptables -w -A FORWARD -d " + serviceCIDR + " -j REJECT"
		if _, err := run(ctx, "nsenter", "--net="+n.NetNS(), "--", "sh", "-c", script); err != nil {
			return fmt.Errorf("let %s forward for its Pods: %w", n.Name, err)
		}
	}
	return nil
}

func (c *Cluster) makeNamespaces(ctx context.Context) error {
	for _, n := range c.Nodes {
		if err := os.MkdirAll(filepath.Dir(n.NetNS()), 0o755); err != nil {
			return fmt.Errorf("make the namespace directory: %w", err)
		}
		if err := os.WriteFile(n.NetNS(), nil, 0o600); err != nil {
			return fmt.Errorf("make the namespace file: %w", err)
		}
		// Like `ip netns add`, but without making /run/netns a mount that stays behind.
		if _, err := run(ctx, "unshare", "--net="+n.NetNS(), "true"); err != nil {
			return fmt.Errorf("make the namespace of %s: %w", n.Name, err)
		}
	}
	return nil
}

func (l Layout) hostLinks() string {
	var b strings.Builder
	linef := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	linef("link add %s type bridge", bridge)
	linef("addr add %s/%d dev %s", hostAddress, nodeNetBits, bridge)
	linef("link set %s up", bridge)
	for _, n := range l.Nodes {
		linef("link add %s type veth peer name eth0 netns %s", n.HostLink(), n.Name)
		linef("link set %s master %s up", n.HostLink(), bridge)
		linef("route add %s via %s", n.PodCIDR(), n.Address())
	}
	// The host has no kube-proxy: service addresses are not for it, and must not go to its default gateway.
	linef("route add unreachable %s", serviceCIDR)
	linef("route add unreachable %s", podCIDR)
	return b.String()
}

func (l Layout) nodeLinks(n Node) string {
	var b strings.Builder
	linef := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	linef("link set lo up")
	linef("addr add %s/%d dev eth0", n.Address(), nodeNetBits)
	linef("link set eth0 up")
	for _, other := range l.Nodes {
		if other.Name != n.Name {
			linef("route add %s via %s", other.PodCIDR(), other.Address())
		}
	}
	// A process of the node itself needs a route before kube-proxy may rewrite the address.
	linef("route add %s via %s", serviceCIDR, hostAddress)
	return b.String()
}

// removeNetwork deletes whatever of it there is.
func (c *Cluster) removeNetwork(ctx context.Context) error {
	var errs []error
	for _, n := range c.Nodes {
		errs = append(errs, removeLink(ctx, n.HostLink()), removeNamespace(n.NetNS()))
	}
	errs = append(errs, removeLink(ctx, bridge)) // takes the routes through it along
	for _, cidr := range []string{serviceCIDR, podCIDR} {
		out, err := run(ctx, "ip", "route", "show", "type", "unreachable", cidr)
		if err == nil && strings.TrimSpace(out) != "" {
			_, err = run(ctx, "ip", "route", "del", "unreachable", cidr)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func removeLink(ctx context.Context, link string) error {
	if !linkExists(link) {
		return nil
	}
	_, err := run(ctx, "ip", "link", "del", link)
	if err != nil && !linkExists(link) {
		return nil // a namespace that ended took its end of the cable, and this one, along
	}
	return err
}

func linkExists(link string) bool {
	_, err := os.Stat(filepath.Join("/sys/class/net", link))
	return err == nil
}

func removeNamespace(file string) error {
	for isNamespace(file) {
		if err := unix.Unmount(file, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", file, err)
		}
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove namespace: %w", err)
	}
	_ = os.Remove(filepath.Dir(file)) // only when it is empty
	return nil
}

// isNamespace is true when a namespace is mounted on the file.
func isNamespace(file string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(file, &fs) == nil && fs.Type == unix.NSFS_MAGIC
}
