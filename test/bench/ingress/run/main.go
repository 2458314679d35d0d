// Command run measures what a queue's admission does with ten times the tasks that it takes, on the local cluster, and draws it:
//
//	go run ./test/bench/ingress/run -rate 2 -figures docs/img
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/leasehold-io/leasehold/test/bench/figure"
	"github.com/leasehold-io/leasehold/test/bench/ingress"
	"github.com/leasehold-io/leasehold/test/cluster"
)

func main() {
	load := ingress.Load{}
	flag.IntVar(&load.Rate, "rate", 2, "tasks a second that the queue takes; every one of them becomes a Pod")
	flag.IntVar(&load.Factor, "factor", 10, "how many times that is offered")
	flag.DurationVar(&load.Length, "duration", 30*time.Second, "how long it is offered")
	figures := flag.String("figures", "bin", "directory for the figures")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, load, *figures); err != nil {
		fmt.Fprintln(os.Stderr, "ingress:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, load ingress.Load, figures string) (err error) {
	c, err := cluster.Start(ctx, cluster.Local, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop(context.WithoutCancel(ctx))) }()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "ingress-"}}
	if err := c.Create(ctx, ns); err != nil {
		return err
	}
	load.Namespace = ns.Name
	record, err := ingress.Measure(ctx, c, load)
	if err != nil {
		return err
	}
	fmt.Print(record.Table())
	return draw(record, figures)
}

var kinds = []struct {
	name string
	is   func(ingress.Answer) bool
}{
	{"offered", func(ingress.Answer) bool { return true }},
	{"accepted", ingress.Answer.IsAccepted},
	{"refused", ingress.Answer.IsRefused},
}

func draw(r *ingress.Record, dir string) error {
	var rates, latencies, memory []figure.Series
	for _, kind := range kinds {
		perSecond := figure.Series{Name: kind.name}
		for second, n := range r.EachSecond(kind.is) {
			perSecond.Points = append(perSecond.Points, figure.Point{X: float64(second), Y: float64(n)})
		}
		rates = append(rates, perSecond)
	}
	for _, kind := range kinds[1:] {
		took := figure.Series{Name: kind.name}
		for _, a := range r.Answers {
			if kind.is(a) {
				took.Points = append(took.Points, figure.Point{X: a.At.Seconds(), Y: float64(a.Took.Milliseconds())})
			}
		}
		latencies = append(latencies, took)
	}
	of := map[string]int{}
	for _, s := range r.Memory {
		i, known := of[s.Pod]
		if !known {
			i = len(memory)
			of[s.Pod] = i
			memory = append(memory, figure.Series{Name: fmt.Sprintf("replica %d", i+1)})
		}
		memory[i].Points = append(memory[i].Points, figure.Point{X: s.At.Seconds(), Y: s.Resident / (1 << 20)})
	}
	title := fmt.Sprintf("%d tasks a second offered to a queue that takes %d", r.Rate*r.Factor, r.Rate)
	return errors.Join(
		figure.Lines(filepath.Join(dir, "ingress-rates.svg"), title, "seconds", "tasks a second", rates...),
		figure.Dots(filepath.Join(dir, "ingress-latency.svg"), "Time to the API server's answer", "seconds", "milliseconds", latencies...),
		figure.Lines(filepath.Join(dir, "ingress-memory.svg"), "Memory of the operator", "seconds", "MiB resident", memory...),
	)
}
