package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strings"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/leasehold-io/leasehold/test/cluster"
)

func describe(kind cluster.Kind) string {
	switch kind {
	case cluster.Local:
		return "a two-node Kubernetes cluster on this machine"
	case cluster.InKind:
		return "a kind cluster"
	case cluster.Current:
		return "the cluster of the current kubeconfig context"
	}
	return string(kind)
}

func estimate(kind cluster.Kind) string {
	if kind == cluster.Local {
		return "The first run compiles Kubernetes: about 20 minutes on 2 cores. Later ones take about a minute."
	}
	return "The first run takes some minutes."
}

// canHave says in one line why the cluster cannot be had and what to do, before anything was built.
func canHave(ctx context.Context, kind cluster.Kind) error {
	switch kind {
	case cluster.Local:
		return canRunKubelets()
	case cluster.InKind:
		if _, err := exec.LookPath("kind"); err != nil {
			return errors.New("CLUSTER=kind needs kind, which is not in PATH: see https://kind.sigs.k8s.io, or run make demo as root without it")
		}
		return canRunContainers(ctx, kind)
	case cluster.Current:
		if err := canReachCurrent(); err != nil {
			return fmt.Errorf("CLUSTER=current needs a cluster to talk to: %w; check with kubectl version, or run make demo as root without it", err)
		}
		return canRunContainers(ctx, kind)
	}
	return fmt.Errorf("unknown CLUSTER=%s: use local, kind or current", kind)
}

func canRunKubelets() error {
	if os.Getuid() == 0 && runtime.GOOS == "linux" {
		return nil
	}
	name := "somebody else"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return fmt.Errorf("the local cluster runs kubelets and network namespaces, which needs root on Linux (you are %s on %s): "+
		"run it as root, or with CLUSTER=kind or CLUSTER=current", name, runtime.GOOS)
}

// canRunContainers: kind needs them for its nodes, and for the current cluster images are built with them.
func canRunContainers(ctx context.Context, kind cluster.Kind) error {
	tool := containerTool()
	if tool == "" {
		return fmt.Errorf("CLUSTER=%s needs Docker or Podman, and neither is in PATH: install one, or run make demo as root without CLUSTER", kind)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := exec.CommandContext(ctx, tool, "ps").Run(); err != nil {
		return fmt.Errorf("CLUSTER=%s needs %s, which does not answer (%s ps: %w): start it, or run make demo as root without CLUSTER",
			kind, tool, tool, err)
	}
	return nil
}

// containerTool is what the Makefile takes too.
func containerTool() string {
	if tool := os.Getenv("CONTAINER_TOOL"); tool != "" {
		return tool
	}
	for _, tool := range []string{"docker", "podman"} {
		if _, err := exec.LookPath(tool); err == nil {
			return tool
		}
	}
	return ""
}

func canReachCurrent() error {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return err
	}
	config.Timeout = 20 * time.Second
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	_, err = client.ServerVersion()
	return err
}

// setUp makes the images, the cluster and the installation.
func setUp(ctx context.Context, kind cluster.Kind, n *narrator) (*cluster.Cluster, error) {
	n.begin("Setting the stage")
	err := n.step("The operator's and the agent's images", func() error {
		cmd := exec.CommandContext(ctx, "make", "demo-images-"+string(kind))
		cmd.Stdout, cmd.Stderr = n.details(), n.details()
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("make demo-images-%s: %w", kind, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var c *cluster.Cluster
	err = n.step("The cluster, with the chart installed", func() (err error) {
		c, err = cluster.Start(ctx, kind, n.details())
		return err
	})
	return c, err
}

func trim(printed string) string { return strings.TrimSpace(printed) }
