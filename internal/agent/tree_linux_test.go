package agent

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// TestTheWholeTreeIsDeadBeforeAFencedAgentSubmits: children that ignore SIGTERM, and one that has left its session.
func TestTheWholeTreeIsDeadBeforeAFencedAgentSubmits(t *testing.T) {
	t.Parallel()
	f := newFixture(t, brisk, nil)
	f.script(func(r agenttest.Request) agenttest.Action {
		switch {
		case r.Kind == agenttest.Renew && f.exists("child") && f.exists("orphan"):
			return agenttest.Timeout
		case r.Kind == agenttest.Submit && r.N == 1:
			return agenttest.Action{Before: func() {
				if alive := f.lives("child", "orphan"); alive != nil {
					t.Errorf("%v live while the agent submits", alive)
				}
			}}
		}
		return agenttest.Serve
	})
	cmd := f.start(stubborn + `stubborn orphan; await orphan; trap "" TERM; echo $$ >"$DIR/c"; mv "$DIR/c" "$DIR/child"; while :; do sleep 0.01; done`)
	f.wantCode(f.wait(cmd), ExitFenced)
	f.wantSubmitted(fencing.Fenced, fencing.ReasonRenewalFailed)
	f.wantOrder("Claim", "Renew", "Submit")
}

func TestAFrozenAgentKillsAsItWakes(t *testing.T) {
	t.Parallel()
	f := newFixture(t, brisk, nil)
	cmd := f.start(`echo $$ >"$DIR/c"; mv "$DIR/c" "$DIR/child"; trap "" TERM; while :; do sleep 0.01; done`)
	f.await("child")
	must(t, cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(brisk.Trust() + brisk.Trust()/2)
	must(t, cmd.Process.Signal(syscall.SIGCONT))
	f.wantCode(f.wait(cmd), ExitFenced)
	f.wantSubmitted(fencing.Fenced, fencing.ReasonRenewalFailed)
	if alive := f.lives("child"); alive != nil {
		t.Errorf("%v live", alive)
	}
}

func TestWhatOutlivesTheCommandIsDeadBeforeTheSubmission(t *testing.T) {
	t.Parallel()
	f := newFixture(t, patient, nil)
	f.script(func(r agenttest.Request) agenttest.Action {
		return f.atSubmit(func() {
			if alive := f.lives("one", "two"); alive != nil {
				t.Errorf("%v live while the agent submits", alive)
			}
		})(r)
	})
	f.writeResult("r")
	cmd := f.start(stubborn + `stubborn one; stubborn two; await one; await two; exit 0`)
	f.wantCode(f.wait(cmd), 0)
	f.wantSubmitted(fencing.Succeeded, fencing.ReasonCompleted)
}

// TestAWrapperThatDiesOfTheStopLeavesItsWorkerTheGrace: the shell of a pipeline dies at once, its worker cleans up.
func TestAWrapperThatDiesOfTheStopLeavesItsWorkerTheGrace(t *testing.T) {
	t.Parallel()
	f := newFixture(t, patient, nil)
	f.script(func(r agenttest.Request) agenttest.Action {
		return f.atSubmit(func() {
			if !f.exists("clean") {
				t.Error("the worker was killed while it cleaned up")
			}
		})(r)
	})
	cmd := f.start(`sh -c 'trap "sleep 0.3; echo 1 >\"$DIR/clean\"; exit 0" TERM; echo $$ >"$DIR/w"; mv "$DIR/w" "$DIR/worker"; while :; do sleep 0.01; done' | cat; echo not reached`)
	f.await("worker")
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	f.wantCode(f.wait(cmd), 128+int(syscall.SIGTERM))
	f.wantSubmitted(fencing.Interrupted, fencing.ReasonTerminated)
}

func TestAStoppedWorkerFinishesItsResult(t *testing.T) {
	t.Parallel()
	f := newFixture(t, patient, nil)
	cmd := f.start(`trap 'echo done >"$DIR/result"; exit 0' TERM; echo $$ >"$DIR/c"; mv "$DIR/c" "$DIR/child"; while :; do sleep 0.01; done`)
	f.await("child")
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	f.wantCode(f.wait(cmd), 0)
	if got := f.wantSubmitted(fencing.Succeeded, fencing.ReasonCompleted); *got.Result != "done\n" {
		t.Errorf("%+v", got)
	}
}

func TestForwardsSignalsToTheCommand(t *testing.T) {
	t.Parallel()
	f := newFixture(t, patient, nil)
	cmd := f.start(`trap 'exit 7' HUP; echo $$ >"$DIR/c"; mv "$DIR/c" "$DIR/child"; while :; do sleep 0.01; done`)
	f.await("child")
	must(t, cmd.Process.Signal(syscall.SIGHUP))
	f.wantCode(f.wait(cmd), 7)
	f.wantSubmitted(fencing.Failed, fencing.ReasonNonZeroExit)
}

func TestHowACommandEnds(t *testing.T) {
	script := t.TempDir() + "/noexec"
	must(t, os.WriteFile(script, []byte("x"), 0o600))
	tests := map[string]struct {
		argv   []string
		code   int
		want   fencing.Outcome
		reason string
	}{
		"exits 0":               {[]string{"true"}, 0, fencing.Succeeded, fencing.ReasonCompleted},
		"exits 3":               {[]string{"sh", "-c", "exit 3"}, 3, fencing.Failed, fencing.ReasonNonZeroExit},
		"exits like a signal":   {[]string{"sh", "-c", "exit 137"}, 137, fencing.Failed, fencing.ReasonNonZeroExit},
		"crashes":               {[]string{"sh", "-c", "kill -SEGV $$"}, 139, fencing.Failed, fencing.ReasonSignaled},
		"is killed":             {[]string{"sh", "-c", "kill -KILL $$"}, 137, fencing.Failed, fencing.ReasonSignaled},
		"terminates itself":     {[]string{"sh", "-c", "kill -TERM $$"}, 143, fencing.Failed, fencing.ReasonSignaled},
		"gets its arguments":    {[]string{"sh", "-c", `[ "$1" = "a b" ] && [ "$2" = "" ]`, "sh", "a b", ""}, 0, fencing.Succeeded, fencing.ReasonCompleted},
		"is not in PATH":        {[]string{"no-such-command"}, 127, fencing.Failed, fencing.ReasonCommandNotRunnable},
		"does not exist":        {[]string{"/no/such/command"}, 127, fencing.Failed, fencing.ReasonCommandNotRunnable},
		"is a directory":        {[]string{"/tmp"}, 126, fencing.Failed, fencing.ReasonCommandNotRunnable},
		"is not executable":     {[]string{script}, 126, fencing.Failed, fencing.ReasonCommandNotRunnable},
		"sees no agent setting": {[]string{"sh", "-c", `[ -z "$(env | grep ^LEASEHOLD_AGENT_)" ]`}, 0, fencing.Succeeded, fencing.ReasonCompleted},
		"leads its session":     {[]string{"sh", "-c", `[ "$(cut -d' ' -f6 /proc/$$/stat)" = $$ ]`}, 0, fencing.Succeeded, fencing.ReasonCompleted},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, patient, nil)
			f.wantCode(f.wait(f.startCommand(tc.argv...)), tc.code)
			got := f.wantSubmitted(tc.want, tc.reason)
			if got.ExitCode == nil || int(*got.ExitCode) != tc.code {
				t.Errorf("submitted %+v", got)
			}
		})
	}
}

// TestOrphansAreReaped: a command that runs for days must not fill the process table.
func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	f := newFixture(t, patient, nil)
	cmd := f.start(`for i in 1 2 3 4 5; do (sleep 0 &); done; echo 1 >"$DIR/ready"; while [ ! -e "$DIR/stop" ]; do sleep 0.01; done`)
	f.await("ready")
	eventually(t, "no zombies", func() bool {
		for _, pid := range descendants(cmd.Process.Pid) {
			stat, err := os.ReadFile(procPath(pid, "stat"))
			if err == nil && strings.Contains(string(stat), ") Z ") {
				return false
			}
		}
		return true
	})
	must(t, os.WriteFile(f.path("stop"), nil, 0o600))
	f.wantCode(f.wait(cmd), 0)
}

func TestParentOf(t *testing.T) {
	tests := map[string]struct {
		stat string
		want int
		ok   bool
	}{
		"plain":              {"12 (sh) S 7 12 12", 7, true},
		"brackets in a name": {"12 (a) R 99 (b) S 7 12 12", 7, true},
		"a line in a name":   {"12 (a\nb) S 7 12", 7, true},
		"cut":                {"12 (sh) S", 0, false},
		"nothing":            {"", 0, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got, ok := parentOf([]byte(tc.stat)); got != tc.want || ok != tc.ok {
				t.Errorf("%d, %t", got, ok)
			}
		})
	}
}
