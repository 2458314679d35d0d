package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/test/faults/journal"
	"github.com/leasehold-io/leasehold/test/faults/order"
)

// TestMain becomes the worker when it is started as one.
func TestMain(m *testing.M) {
	if os.Getenv(order.JournalDirEnv) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestModes(t *testing.T) {
	tests := map[string]struct {
		order  order.Order
		code   int // of the process; -1: killed
		exit   int // in the journal; -1: none
		result bool
	}{
		"works":                      {order.Order{Seconds: 0.5}, 0, 0, true},
		"fails":                      {order.Order{Seconds: 0.5, Mode: order.Fail, Bad: 2}, 1, 1, false},
		"has failed before":          {order.Order{Seconds: 0.5, Mode: order.Fail, Bad: 1}, 0, 0, true},
		"crashes":                    {order.Order{Seconds: 0.5, Mode: order.Crash, Bad: 2}, -1, -1, false},
		"hangs":                      {order.Order{Seconds: 0.5, Mode: order.Hang, Bad: 2}, -1, -1, false},
		"hangs, and ignores SIGTERM": {order.Order{Seconds: 0.5, Mode: order.Hang, Bad: 2, Stubborn: true}, -1, -1, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			payload, err := json.Marshal(tc.order)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "payload"), payload, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), env.PayloadFile+"="+filepath.Join(dir, "payload"), env.ResultFile+"="+filepath.Join(dir, "result"),
				env.Task+"=t", env.Attempt+"=2", env.FencingToken+"=7", order.JournalDirEnv+"="+dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // the child that it leaves behind, too
			if tc.order.Mode == order.Hang {
				time.AfterFunc(1200*time.Millisecond, func() {
					signal := syscall.SIGTERM
					if tc.order.Stubborn {
						_ = cmd.Process.Signal(signal)
						time.Sleep(300 * time.Millisecond)
						signal = syscall.SIGKILL
					}
					_ = cmd.Process.Signal(signal)
				})
			}
			checkEnd(t, cmd.Wait(), tc.code)
			checkJournals(t, dir, tc.exit)
			if _, err := os.Stat(filepath.Join(dir, "result")); (err == nil) != tc.result {
				t.Errorf("result: %v", err)
			}
		})
	}
}

func checkEnd(t *testing.T, err error, code int) {
	t.Helper()
	got := 0
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		got = failed.ExitCode()
	}
	if got != code {
		t.Errorf("exit code %d, want %d", got, code)
	}
}

func checkJournals(t *testing.T, dir string, exit int) {
	t.Helper()
	processes, err := journal.ReadAll(os.DirFS(dir))
	if err != nil || len(processes) != 2 {
		t.Fatalf("%d journals, %v", len(processes), err)
	}
	for _, p := range processes {
		got := -1
		if p.Exit != nil {
			got = *p.Exit
		}
		want := exit
		if p.Role == journal.Child {
			want = -1
		}
		if got != want || p.Task != "t" || p.Attempt != 2 || p.Token != 7 || len(p.Beats) < 2 {
			t.Errorf("%s: exit %d, want %d, %d beats, %+v", p.Role, got, want, len(p.Beats), p.Start)
		}
	}
}
