package agent

import (
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// pipe is one that nobody reads.
func pipe(t *testing.T) *os.File {
	t.Helper()
	reader, writer, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { _ = reader.Close(); _ = writer.Close() })
	return writer
}

// fill fills a pipe to its last byte: from then on, a write to it does not return.
func fill(t *testing.T, pipe *os.File) {
	conn, err := pipe.SyscallConn()
	must(t, err)
	must(t, conn.Control(func(fd uintptr) {
		for _, size := range []int{4096, 1} {
			for err = nil; err == nil; {
				_, err = syscall.Write(int(fd), make([]byte, size))
			}
		}
	}))
	if !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("a full pipe answers %v", err)
	}
}

// TestAFullStderrKeepsNobodyFromFencing: the command has filled the pipe that it shares with the agent, and its reader hangs.
func TestAFullStderrKeepsNobodyFromFencing(t *testing.T) {
	t.Parallel()
	f := newFailing(t, hasty, agenttest.LoseRequest)
	stderr := pipe(t)
	f.agent.Log, _ = NewLog(stderr)
	f.tree.onStart = func(*fakeTree) { fill(t, stderr) }
	f.wantCode(f.run(), ExitFenced)
	f.wantOrder("start", "Renew", "kill terminated", "kill killed", "empty", "Submit")
	f.wantSubmitted(fencing.Fenced, fencing.ReasonRenewalFailed)
}

// TestAFullStderrKeepsNobodyFromStopping, nor from starting, renewing, submitting and ending.
func TestAFullStderrKeepsNobodyFromStopping(t *testing.T) {
	t.Parallel()
	f := newFixture(t, eager, nil)
	stderr := pipe(t)
	fill(t, stderr)
	log, flush := NewLog(stderr)
	f.agent.Log = log
	f.tree.onStart = func(*fakeTree) { f.order(cancelled) }
	f.tree.onSignal = func(tree *fakeTree, _ syscall.Signal) { tree.end(holder.Exit{Code: 1}) }
	f.wantCode(f.run(), 1)
	flush()
	f.wantOrder("start", "Renew", "signal terminated to the group", "Submit")
	f.wantSubmitted(fencing.Cancelled, fencing.ReasonCancelled)
}

// hang makes a file to which no write returns.
func hang(t *testing.T, path string) {
	t.Helper()
	must(t, syscall.Mkfifo(path, 0o600))
	fifo, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	must(t, err)
	t.Cleanup(func() { _ = fifo.Close() })
	fill(t, fifo)
}

// TestAHungDiskKeepsNobodyFromFencing: the cancel file cannot be written, and SIGKILL is due long before one would give up on it.
func TestAHungDiskKeepsNobodyFromFencing(t *testing.T) {
	t.Parallel()
	f := newFailing(t, hasty, agenttest.LoseRequest)
	hang(t, f.agent.Config.CancelPath+".new")
	f.wantCode(f.run(), ExitFenced)
	f.wantOrder("start", "Renew", "kill terminated", "kill killed", "empty", "Submit")
	f.wantSubmitted(fencing.Fenced, fencing.ReasonRenewalFailed)
}

// TestAHungDiskKeepsNobodyFromStopping, nor from renewing.
func TestAHungDiskKeepsNobodyFromStopping(t *testing.T) {
	t.Parallel()
	f := newFixture(t, eager, nil)
	f.agent.Config.FileWait = 20 * time.Millisecond
	hang(t, f.agent.Config.CancelPath+".new")
	f.tree.onStart = func(*fakeTree) { f.order(cancelled) }
	f.tree.onSignal = func(tree *fakeTree, _ syscall.Signal) {
		told := len(f.list())
		eventually(t, "renewals after the signal", func() bool { return len(f.list()) >= told+3 })
		tree.end(holder.Exit{Code: 1})
	}
	f.wantCode(f.run(), 1)
	f.wantOrder("start", "signal terminated to the group", "Renew", "Renew", "Renew", "empty", "Submit")
	f.wantSubmitted(fencing.Cancelled, fencing.ReasonCancelled)
}

// TestAHungDiskKeepsNobodyFromTheLastExit, which is what kills a tree that the agent cannot.
func TestAHungDiskKeepsNobodyFromTheLastExit(t *testing.T) {
	t.Parallel()
	timing := hasty
	timing.KillBudget, timing.KillReserve = 300*time.Millisecond, 250*time.Millisecond
	f := newFailing(t, timing, agenttest.LoseRequest)
	f.agent.Config.FileWait = 20 * time.Millisecond
	f.agent.Config.TerminationLog += ".hung"
	hang(t, f.agent.Config.TerminationLog)
	f.tree.onKill = nil
	f.wantCode(f.run(), ExitTreeAlive)
	f.wantOrder("kill terminated", "kill killed")
	f.wantNever("Submit")
}
