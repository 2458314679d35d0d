package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/leasehold-io/leasehold/hack/localcluster/internal/process"
)

// container is a running container of a Pod; the Pod's sandbox is none.
type container struct {
	name   string // in the Pod's spec
	cgroup string
}

// Process is a process of a Pod, as the host numbers it.
type Process struct {
	PID       int
	Container string
}

// Processes lists the processes of a Pod's containers.
func (c *Cluster) Processes(ctx context.Context, namespace, pod string) ([]Process, error) {
	containers, err := c.containers(ctx, namespace, pod)
	if err != nil {
		return nil, err
	}
	var all []Process
	for _, ct := range containers {
		for _, pid := range cgroupPIDs(ct.cgroup) {
			if stat, err := process.ReadStat(pid); err == nil && !stat.IsDead() {
				all = append(all, Process{PID: pid, Container: ct.name})
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("pod %s/%s has no running container on a node of this cluster", namespace, pod)
	}
	return all, nil
}

// containers asks the nodes' containerds, not the API server, so that it works while that is stopped or the node is cut off.
func (c *Cluster) containers(ctx context.Context, namespace, pod string) ([]container, error) {
	if !c.isUp() {
		return nil, errNotUp
	}
	if strings.ContainsAny(namespace+pod, `",\`) {
		return nil, fmt.Errorf("%q is not the name of a Pod", namespace+"/"+pod)
	}
	filter := fmt.Sprintf(`labels."io.cri-containerd.kind"==container,labels."io.kubernetes.pod.namespace"=="%s",labels."io.kubernetes.pod.name"=="%s"`,
		namespace, pod)
	var all []container
	for _, n := range c.Nodes {
		ids, err := ctr(ctx, n, "containers", "list", "--quiet", filter)
		if err != nil {
			return nil, err
		}
		for _, id := range strings.Fields(ids) {
			ct, err := inspect(ctx, n, id)
			if err != nil {
				return nil, err
			}
			all = append(all, ct)
		}
	}
	return all, nil
}

func inspect(ctx context.Context, n Node, id string) (container, error) {
	out, err := ctr(ctx, n, "containers", "info", id)
	if err != nil {
		return container{}, err
	}
	var info struct {
		Labels map[string]string
		Spec   struct {
			Linux struct{ CgroupsPath string }
		}
	}
	if err := json.Unmarshal([]byte(out), &info); err != nil {
		return container{}, fmt.Errorf("read container %s: %w", id, err)
	}
	if info.Spec.Linux.CgroupsPath != cgroupOf(id) {
		return container{}, fmt.Errorf("container %s has the cgroup %q, want %q", id, info.Spec.Linux.CgroupsPath, cgroupOf(id))
	}
	return container{name: info.Labels["io.kubernetes.container.name"], cgroup: cgroupOf(id)}, nil
}
