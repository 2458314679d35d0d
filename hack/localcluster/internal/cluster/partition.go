package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Direction is the part of a node's traffic that a partition loses.
type Direction string

const (
	// Both cuts the cable.
	Both Direction = "both"
	// From loses what the node and its Pods send: no request of theirs arrives.
	From Direction = "from"
	// To loses what is sent to the node and its Pods: what they send over connections that stand arrives and takes effect, and no answer
	// comes back. A new connection is an answer too, so they can make none.
	To Direction = "to"
)

// losses are the directions that are lost by a rule, not by the cable.
var losses = []Direction{From, To}

// ParseDirection reads a direction.
func ParseDirection(s string) (Direction, error) {
	if d := Direction(s); d == Both || slices.Contains(losses, d) {
		return d, nil
	}
	return "", fmt.Errorf("unknown direction %q: there are %s, %s and %s", s, Both, From, To)
}

// Partition loses a node's packets in one direction or both; its Pods run on. Partitions add up.
func (c *Cluster) Partition(ctx context.Context, name string, d Direction) error {
	n, err := c.Node(name)
	if err != nil {
		return err
	}
	if !c.isUp() {
		return errNotUp
	}
	if d == Both {
		return setLink(ctx, n, "down")
	}
	lost, err := lossesOf(ctx, n)
	if err != nil || slices.Contains(lost, d) {
		return err
	}
	return changeLoss(ctx, n, "-I", d)
}

// Heal undoes every partition of the node.
func (c *Cluster) Heal(ctx context.Context, name string) error {
	n, err := c.Node(name)
	if err != nil {
		return err
	}
	if !c.isUp() {
		return errNotUp
	}
	return heal(ctx, n)
}

func heal(ctx context.Context, n Node) error {
	lost, err := lossesOf(ctx, n)
	if err != nil {
		return err
	}
	for _, d := range lost {
		if err := changeLoss(ctx, n, "-D", d); err != nil {
			return err
		}
	}
	return setLink(ctx, n, "up")
}

// partitionOf says how the node is partitioned; empty: it is not.
func partitionOf(ctx context.Context, n Node) string {
	if isCut(n) {
		return "partitioned"
	}
	lost, err := lossesOf(ctx, n)
	if err != nil {
		return err.Error()
	}
	var states []string
	for _, d := range lost {
		states = append(states, fmt.Sprintf("partitioned (%s)", d))
	}
	return strings.Join(states, ", ")
}

// setLink connects or cuts a node's cable.
func setLink(ctx context.Context, n Node, state string) error {
	_, err := run(ctx, "ip", "link", "set", n.HostLink(), state)
	return err
}

// isCut is true when the node's cable is cut.
func isCut(n Node) bool {
	flags, err := os.ReadFile(filepath.Join("/sys/class/net", n.HostLink(), "flags"))
	if err != nil {
		return false
	}
	var value uint32
	if _, err := fmt.Sscanf(strings.TrimSpace(string(flags)), "0x%x", &value); err != nil {
		return false
	}
	return value&unix.IFF_UP == 0
}

// lossComment marks our rules.
const lossComment = "leasehold-partition-"

// lossRule drops at the node's end of the cable, in the node's own namespace: it ends with the namespace, whatever became of us, and the
// host's rules are not touched. The chains of the table mangle see what the node's processes send and get as well as what is forwarded
// for its Pods, and nothing that kube-proxy accepts elsewhere overrules them. ARP is no business of theirs: neighbours stay known.
func lossRule(d Direction) []string {
	chain, at := "POSTROUTING", "-o"
	if d == To {
		chain, at = "PREROUTING", "-i"
	}
	return []string{chain, at, "eth0", "-m", "comment", "--comment", lossComment + string(d), "-j", "DROP"}
}

func changeLoss(ctx context.Context, n Node, action string, d Direction) error {
	if _, err := mangle(ctx, n, append([]string{action}, lossRule(d)...)...); err != nil {
		return fmt.Errorf("change what %s loses: %w", n.Name, err)
	}
	return nil
}

func lossesOf(ctx context.Context, n Node) ([]Direction, error) {
	rules, err := mangle(ctx, n, "-S")
	if err != nil {
		return nil, fmt.Errorf("look up what %s loses: %w", n.Name, err)
	}
	return lossesIn(rules), nil
}

// lossesIn finds our rules in the output of `iptables -S`, one entry each.
func lossesIn(rules string) (lost []Direction) {
	for line := range strings.Lines(rules) {
		for _, d := range losses {
			isOurs := func(field string) bool { return strings.Trim(field, `"`) == lossComment+string(d) }
			if strings.HasPrefix(line, "-A ") && slices.ContainsFunc(strings.Fields(line), isOurs) {
				lost = append(lost, d)
			}
		}
	}
	return lost
}

func mangle(ctx context.Context, n Node, args ...string) (string, error) {
	return run(ctx, append([]string{"nsenter", "--net=" + n.NetNS(), "--", "iptables", "-w", "-t", "mangle"}, args...)...)
}
