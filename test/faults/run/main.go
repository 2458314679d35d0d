package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/leasehold-io/leasehold/test/faults/harness"
	"github.com/leasehold-io/leasehold/test/faults/storm"
)

var errViolations = errors.New("the checker found violations")

func main() {
	o := storm.Options{Out: os.Stderr}
	flag.DurationVar(&o.Duration, "duration", 5*time.Minute, "how long faults go on")
	flag.IntVar(&o.Tasks, "tasks", 40, "number of tasks to start at least; faults go on until they are started")
	flag.IntVar(&o.InFlight, "in-flight", 9, "number of tasks to keep in flight")
	flag.Uint64Var(&o.Seed, "seed", rand.Uint64N(1_000_000), "of the schedule (default: random)")
	report := flag.String("report", "", "file to write the report to, as Markdown (default: standard output)")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o, *report); err != nil {
		fmt.Fprintln(os.Stderr, "run:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o storm.Options, report string) (err error) {
	h, err := harness.Start(ctx, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Stop(context.WithoutCancel(ctx))) }()
	result, err := storm.Run(ctx, h, o)
	if err != nil {
		return err
	}
	text := result.Markdown(harness.Command("./test/faults/run"), h.Machine())
	if report == "" {
		fmt.Print(text)
	} else if err := os.WriteFile(report, []byte(text), 0o644); err != nil {
		return err
	}
	if len(result.Violations) > 0 {
		return errViolations
	}
	return nil
}
