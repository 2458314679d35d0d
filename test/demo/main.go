package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/leasehold-io/leasehold/test/cluster"
)

// logFile has what is too long for the screen.
const logFile = "bin/demo.log"

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	crlog.SetLogger(klog.Background())
	kind := cluster.Kind(os.Getenv("CLUSTER"))
	if kind == "" {
		kind = cluster.Local
	}
	if err := canHave(ctx, kind); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
	if err := run(ctx, kind); err != nil {
		os.Exit(1)
	}
}

// run has reported the error that it returns.
func run(ctx context.Context, kind cluster.Kind) (err error) {
	if err := os.MkdirAll(filepath.Dir(logFile), 0o755); err != nil {
		return err
	}
	log, err := os.Create(logFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	n := newNarrator(os.Stdout, log)
	if err := tellAll(ctx, kind, n); err != nil {
		n.failed(err)
		return err
	}
	return nil
}

func tellAll(ctx context.Context, kind cluster.Kind, n *narrator) error {
	start := time.Now()
	n.sayf("Leasehold: three short stories on %s.", describe(kind))
	n.sayf("%s Details: %s", estimate(kind), logFile)
	c, err := setUp(ctx, kind, n)
	if err != nil {
		return err
	}
	s, err := open(ctx, c, n)
	if err != nil {
		return err
	}
	defer s.close()
	for i, st := range stories {
		n.begin(fmt.Sprintf("Story %d of %d: %s", i+1, len(stories), st.title))
		if err := st.tell(ctx, s); err != nil {
			s.dump()
			return fmt.Errorf("story %d did not end as told: %w", i+1, err)
		}
	}
	return lookAround(ctx, c, n, time.Since(start))
}

// lookAround says how to go on from here.
func lookAround(ctx context.Context, c *cluster.Cluster, n *narrator, took time.Duration) error {
	n.sayf("\nAll three stories ended as told (%s in all). The cluster is still up. To look around:\n", took.Round(time.Second))
	if path := c.Kubeconfig(); path != "" {
		n.sayf("  export KUBECONFIG=%s", path)
	}
	if c.Kind == cluster.Local {
		dir, err := c.Localcluster(ctx, "binaries", "kubectl")
		if err != nil {
			return err
		}
		n.sayf("  export PATH=%s:$PATH", trim(dir))
	}
	n.sayf("  kubectl get lt -n %s", namespace)
	n.sayf("  kubectl describe lt -n %s %s", namespace, frozen)
	n.sayf("  kubectl logs -n %s -l %s -c worker --prefix", namespace, podsOfTheDemo)
	switch c.Kind {
	case cluster.Local:
		n.sayf("\nTo stop: make cluster-down")
	case cluster.InKind:
		n.sayf("\nTo stop: kind delete cluster --name leasehold")
	case cluster.Current:
		n.sayf("\nTo remove the tasks: kubectl delete namespace %s. To uninstall Leasehold: docs/install.md", namespace)
	}
	return nil
}
