package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the launcher that Start runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == LauncherCommand {
		if err := RunLauncher(os.Stdin); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func TestParseStat(t *testing.T) {
	tail := " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20 21"
	cases := map[string]struct {
		content string
		want    Stat
		wantErr bool
	}{
		"plain":                {"7 (sleep)" + tail, Stat{State: 'S', Start: 4242}, false},
		"parentheses in name":  {"7 (a) R (b))" + tail, Stat{State: 'S', Start: 4242}, false},
		"too short":            {"7 (sleep) S 1 2", Stat{}, true},
		"no name":              {"7 sleep S", Stat{}, true},
		"start is not numeric": {"7 (x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 x 20", Stat{}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat(tc.content)
			if (err != nil) != tc.wantErr || got != tc.want {
				t.Errorf("parseStat() = %+v, %v; want %+v, error %v", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func TestStopLeavesAReusedPIDAlone(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	real, err := identityOf(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]Identity{
		"other start time": {PID: real.PID, Start: real.Start - 1, Boot: real.Boot},
		"other boot":       {PID: real.PID, Start: real.Start, Boot: "another"},
	}
	for name, id := range cases {
		t.Run(name, func(t *testing.T) {
			pidFile := filepath.Join(t.TempDir(), "pid")
			if err := id.save(pidFile); err != nil {
				t.Fatal(err)
			}
			if err := Stop(pidFile, time.Second); err != nil {
				t.Fatal(err)
			}
			if !real.IsAlive() {
				t.Error("Stop ended a process that is not ours")
			}
			if _, err := os.Stat(pidFile); err == nil {
				t.Error("the stale pid file is still there")
			}
		})
	}
}

func TestStartThenStop(t *testing.T) {
	dir := t.TempDir()
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	pidFile, log := filepath.Join(dir, "pid"), filepath.Join(dir, "log")
	h, err := Start(Launch{PIDFile: pidFile, Argv: []string{"/bin/sh", "-c", "echo up; exec sleep 60"}}, log, lock)
	if err != nil {
		t.Fatal(err)
	}
	if !IsAlive(pidFile) {
		t.Fatal("Start returned before the pid file named the process")
	}
	if _, err := Start(Launch{PIDFile: pidFile, Argv: []string{"/bin/true"}}, log+"2", lock); err == nil {
		t.Error("a second Start with the pid file of a running process succeeded")
	}
	for i := 0; Tail(log, 1) != "up"; i++ {
		if i > 200 {
			t.Fatalf("no output, log: %s", Tail(log, 10))
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := Stop(pidFile, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	<-h.Exited()
	if h.State() != "signal: terminated" {
		t.Errorf("state = %q, want terminated by SIGTERM", h.State())
	}
}

func TestStartReportsWhyALaunchFailed(t *testing.T) {
	dir := t.TempDir()
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Start(Launch{PIDFile: filepath.Join(dir, "pid"), Argv: []string{"/no/such/program"}}, filepath.Join(dir, "log"), lock)
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("Start of a missing program = %v, want its reason", err)
	}
}

func identityOf(pid int) (Identity, error) {
	boot, err := bootID()
	if err != nil {
		return Identity{}, err
	}
	stat, err := ReadStat(pid)
	return Identity{PID: pid, Start: stat.Start, Boot: boot}, err
}
