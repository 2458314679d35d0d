// Command run makes a retry storm on a cluster and draws what became of it:
//
//	go run ./test/bench/outage/run -tasks 40 -figures docs/img
//
// All attempts wait for one another at the gateway, so the cluster needs room for as many Pods as there are tasks. A cluster other than
// the local one reaches the gateway at -listen, an address of this machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	crlog "sigs.k8s.io/controller-runtime/pkg/log"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/bench/outage"
	"github.com/leasehold-io/leasehold/test/cluster"
)

var errWrong = errors.New("the scenario does not hold")

func main() {
	load := outage.Load{}
	flag.StringVar(&load.Listen, "listen", "10.89.0.1:0", "address of the gateway; the default is this machine's for Pods of the local cluster")
	flag.IntVar(&load.Tasks, "tasks", 500, "number of tasks that call at the same time; each is a Pod")
	flag.DurationVar(&load.Length, "outage", time.Minute, "how long the gateway answers 503")
	flag.DurationVar(&load.Bound, "bound", 30*time.Second, "bound of the pause before the next attempt")
	flag.DurationVar(&load.Open, "open", 10*time.Second, "how long the breaker is open before it lets one try")
	jitter := flag.String("jitter", "Full", "of the pause: Full, Equal or None")
	kind := flag.String("cluster", string(cluster.Local), "local, kind or current")
	patience := flag.Duration("patience", 20*time.Minute, "how long all of it may take")
	figures := flag.String("figures", "bin", "directory for the figures")
	flag.Parse()
	load.Jitter = v1alpha1.Jitter(*jitter)
	crlog.SetLogger(logr.Discard())

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, load, cluster.Kind(*kind), *patience, *figures); err != nil {
		fmt.Fprintln(os.Stderr, "outage:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, load outage.Load, kind cluster.Kind, patience time.Duration, figures string) (err error) {
	if err := load.Validate(); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, kind, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop(context.WithoutCancel(ctx))) }()
	if err := hasRoom(ctx, c, load); err != nil {
		return err
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "outage-"}}
	if err := c.Create(ctx, ns); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Delete(context.WithoutCancel(ctx), ns)) }()
	load.Namespace = ns.Name
	r, err := outage.Measure(ctx, c, load, patience)
	if err != nil {
		return err
	}
	fmt.Print(r.Table())
	if err := draw(r, figures); err != nil {
		return err
	}
	if wrong := r.Judge(); len(wrong) > 0 {
		return fmt.Errorf("%w:\n%s", errWrong, strings.Join(wrong, "\n"))
	}
	return nil
}

// hasRoom says before anything is made that the tasks would wait for one another for ever.
func hasRoom(ctx context.Context, c *cluster.Cluster, load outage.Load) error {
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return err
	}
	room := int64(0)
	for i := range nodes.Items {
		room += nodes.Items[i].Status.Allocatable.Pods().Value()
	}
	if int64(load.Tasks) > room {
		return fmt.Errorf("-tasks %d: all of them call at the same time, and the cluster has room for %d Pods", load.Tasks, room)
	}
	return nil
}
