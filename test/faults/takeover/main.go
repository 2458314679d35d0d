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

	"github.com/leasehold-io/leasehold/test/faults/harness"
)

func main() {
	samples := flag.Int("samples", 50, "number of takeovers to measure for each story, at least")
	report := flag.String("report", "", "file to write the report to, as Markdown (default: standard output)")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *samples, *report); err != nil {
		fmt.Fprintln(os.Stderr, "takeover:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, samples int, report string) (err error) {
	h, err := harness.Start(ctx, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Stop(context.WithoutCancel(ctx))) }()
	m := &measurement{Harness: h, begin: time.Now()}
	measured := make([]series, len(stories))
	for i, story := range stories {
		measured[i].story = story
		for round := 1; len(measured[i].idle) < samples; round++ {
			if err := m.round(ctx, round, &measured[i]); err != nil {
				return fmt.Errorf("%s, round %d: %w", story.name, round, err)
			}
			fmt.Fprintf(os.Stderr, "%s: %d takeovers measured\n", story.name, len(measured[i].idle))
		}
	}
	text := markdown(m.begin, h.Machine(), measured)
	if report == "" {
		fmt.Print(text)
		return nil
	}
	return os.WriteFile(report, []byte(text), 0o644)
}

func markdown(begin time.Time, machine []string, measured []series) string {
	var b strings.Builder
	linef := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	linef("# Takeover time\n")
	linef("    %s\n", harness.Command("./test/faults/takeover"))
	linef("%s. %s.\n", begin.UTC().Format("2006-01-02 15:04 MST"), strings.Join(machine, ", "))
	linef("From the last beat of an attempt to the first beat of the next, with D = 10 s and a back-off of 1 s, %d tasks at once.", together)
	linef("\n| | n | p50 | p99 | max | beside |\n|---|---|---|---|---|---|")
	for _, s := range measured {
		linef("| %s | %d | %s | %s | %s | %s |", s.name, len(s.idle), percentile(s.idle, 50), percentile(s.idle, 99), percentile(s.idle, 100), s.beside)
		if len(s.since) > 0 {
			linef("| ... from the fault | %d | %s | %s | %s | |", len(s.since), percentile(s.since, 50), percentile(s.since, 99), percentile(s.since, 100))
		}
	}
	linef("\nA takeover contains a Pod's start: scheduling, two containers, the agent's claim.")
	return b.String()
}
