//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
)

// TestFootprint measures what docs/agent.md states under "Figures". It asserts only what no loaded machine can miss.
//
//	LEASEHOLD_FOOTPRINT_RUNS=21 go test -count=1 -v -run TestFootprint ./cmd/agent
func TestFootprint(t *testing.T) {
	runs := 1
	if n, err := strconv.Atoi(os.Getenv("LEASEHOLD_FOOTPRINT_RUNS")); err == nil {
		runs = n
	}
	var latency, whole, rss, peak []int64
	for range runs {
		f := footprint(t)
		latency, whole = append(latency, f.started), append(whole, f.began)
		rss, peak = append(rss, f.rss), append(peak, f.peak)
	}
	info, err := os.Stat(agentPath)
	mustNot(t, err)
	t.Logf("%d runs, from the fork of the agent: command executed %s, its main reached %s; RSS after a renewal %s, peak %s; binary %d KiB",
		runs, figure(latency, 1e6, "ms"), figure(whole, 1e6, "ms"), figure(rss, 1024, "MiB"), figure(peak, 1024, "MiB"), info.Size()/1024)
	if m := median(peak); m > 15*1024 {
		t.Errorf("peak RSS %d KiB is above 15 MiB", m)
	}
	if m := median(latency); m > int64(5*time.Second) {
		t.Errorf("the child started %d ns after the agent, far from the 50 ms aimed at", m)
	}
}

// figures are times in nanoseconds since the agent was forked, and memory in KiB.
type figures struct{ started, began, rss, peak int64 }

// footprint runs the agent once, from its claim over a renewal to its submission.
func footprint(t *testing.T) figures {
	renewed := make(chan struct{}, 64)
	srv := agenttest.New(agenttest.GrantedLease("lh-1", "pod-1", 10, 1), func(r agenttest.Request) agenttest.Action {
		if r.Kind == agenttest.Renew {
			renewed <- struct{}{}
		}
		return agenttest.Serve
	})
	defer srv.Close()
	c := newContainer(t, srv, "child", "start")

	var ts unix.Timespec
	mustNot(t, unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts))
	forked := time.Now()
	c.start(t)
	select {
	case <-renewed:
	case <-time.After(time.Minute):
		t.Fatalf("the agent has not renewed within a minute: %s", c.stderr.String())
	}
	time.Sleep(200 * time.Millisecond) // until its answer was handled
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
	mustNot(t, err)
	mustNot(t, c.Process.Signal(syscall.SIGTERM))
	if code := c.exitCode(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, c.stderr.String())
	}
	began, err := strconv.ParseInt(c.read(t, env.ResultPath), 10, 64)
	mustNot(t, err)
	return figures{started: int64(startedAt(t, c.stderr.String()).Sub(forked)), began: began - ts.Nano(),
		rss: field(t, status, "VmRSS:"), peak: field(t, status, "VmHWM:")}
}

// startedAt finds when the agent says that the command was executed: its log says so once that has succeeded.
func startedAt(t *testing.T, log string) time.Time {
	for line := range strings.Lines(log) {
		var entry struct {
			Time time.Time
			Msg  string
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "Command started" {
			return entry.Time
		}
	}
	t.Fatalf("the log does not say when the command was started: %s", log)
	return time.Time{}
}

func field(t *testing.T, status []byte, name string) int64 {
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == name {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			mustNot(t, err)
			return n
		}
	}
	t.Fatalf("no %s in /proc/<pid>/status", name)
	return 0
}

func median(values []int64) int64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func figure(values []int64, unit float64, name string) string {
	m := median(values)
	return fmt.Sprintf("median %.1f %s (min %.1f, max %.1f)", float64(m)/unit, name,
		float64(values[0])/unit, float64(values[len(values)-1])/unit)
}
