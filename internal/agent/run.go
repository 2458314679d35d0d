package agent

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// Agent runs one attempt. All its exported fields are required.
type Agent struct {
	Config  Config
	Mailbox Mailbox
	Tree    Tree
	Clock   Clock
	Alarm   Alarm
	Signals <-chan os.Signal
	Jitter  func() float64 // in [0, 1)
	Log     *slog.Logger   // of NewLog: the loop that fences logs, and must not wait for whoever reads that

	stopSignal syscall.Signal // by which the Pod was told to stop; 0: it was not
	disk       disk           // where files are while the tree may live
	words      *words         // between the command and this process
	socket     *socket        // by which they come; nil: there is none
	notes      notes          // of those, what stands on the Lease
	stamps     holder.Stamps  // the renewTimes of this process
	unheard    error          // why a command that must be heard cannot be; nil: it can, or need not
}

// Run is the agent's life. It returns the exit code. The context ends it early, whatever it is doing: a way out for tests,
// since the real one runs until it is done or killed.
func (a *Agent) Run(ctx context.Context) int {
	a.disk, a.words = newDisk(), newWords()
	attempt, stopped := a.claim(ctx)
	if attempt == nil {
		return a.abandon(stopped)
	}
	before := oomKills(a.Config.CgroupRoot)
	a.leaveCheckpoint()
	a.openSocket()
	defer a.socket.close()
	if !a.supervise(ctx, attempt) {
		return a.leaveToKernel(attempt)
	}
	a.socket.close()
	end := a.gather(attempt, before)
	a.submit(ctx, attempt, end)
	return exitCode(end)
}

// abandon ends a process that holds nothing: there is nothing to kill and nothing to submit.
func (a *Agent) abandon(stopped bool) int {
	report := fencing.Report{Token: a.Config.Token, Delivery: fencing.DeliveryNone,
		Outcome: fencing.Fenced, Message: "the claim was refused: the term is another's, or was revoked"}
	code := ExitNotHeld
	if stopped {
		report.Outcome, report.Reason = fencing.Interrupted, fencing.ReasonTerminated
		report.Message, code = "the Pod was told to stop before the term was claimed", ExitStopped
	}
	a.report(report)
	a.Log.Error("Ended without the term", "reason", report.Message)
	return code
}

// leaveToKernel ends a process whose tree outlives its last deadline. Only the end of process 1 kills what the agent
// cannot, and a submission would claim that nothing runs any more.
func (a *Agent) leaveToKernel(attempt *holder.Attempt) int {
	report := fencing.Report{Token: a.Config.Token, Outcome: fencing.Failed, Reason: fencing.ReasonProcessesLeft,
		Delivery: fencing.DeliveryUnknown, Message: "processes of the command could not be killed in time"}
	switch {
	case attempt.Fenced() != "":
		report.Outcome, report.Reason, report.Message = fencing.Fenced, fencing.ReasonRenewalFailed, attempt.Fenced()+"; "+report.Message
	case attempt.IsStopped():
		report.Outcome, report.Reason = fencing.Interrupted, fencing.ReasonTerminated
	}
	write := func() error { return writeReport(a.Config.TerminationLog, report) }
	if err := a.disk.within(a.Config.FileWait, write); err != nil {
		a.Log.Warn("The termination message cannot be written", "error", err)
	}
	a.Log.Error("The process tree could not be killed in time")
	return ExitTreeAlive
}

// gather collects what decides the outcome. The tree is dead: nothing changes any more.
func (a *Agent) gather(attempt *holder.Attempt, oomBefore int) ending {
	end := ending{
		Token:   a.Config.Token,
		Exit:    attempt.Exit(),
		Start:   attempt.StartError(),
		Fenced:  attempt.LostWhileRunning(),
		Overdue: attempt.IsOverdue(),
		Ordered: attempt.Ordered(),
		Stopped: attempt.IsStopped(),
		Missed:  attempt.IsHeartbeatMissed(),
		OOM:     oomKills(a.Config.CgroupRoot) > oomBefore,
	}
	end.Result, end.Said = a.words.last()
	if attempt.Exit() != nil {
		if !end.Result.Written {
			end.Result = readResult(a.Config.ResultPath)
		}
		end.Note = readNote(a.Config.TerminationLog)
	}
	return end
}

func (a *Agent) report(report fencing.Report) {
	if err := writeReport(a.Config.TerminationLog, report); err != nil {
		a.Log.Warn("The termination message cannot be written", "error", err)
	}
}

// tellWhy answers who waits at the socket, and writes the cancel file, before the command gets its signal: the reason, and on the
// lines below it what was said about it, if anything. The first reason stands. The signal comes without a file that takes too long,
// and SIGKILL when it is due: a command without grace has no time to read.
func (a *Agent) tellWhy(reason, message string, grace time.Duration) {
	if !a.words.tell(reason, message, grace) {
		return
	}
	if message != "" {
		reason += "\n" + message
	}
	write := func() error { return replaceFile(a.Config.CancelPath, reason) }
	if err := a.disk.within(min(a.Config.FileWait, grace), write); err != nil {
		a.Log.Warn("The cancel file cannot be written", "error", err)
	}
}

// exitCode is the command's, unless it never ran or was killed for the term's sake.
func exitCode(end ending) int {
	if end.Fenced != "" {
		return ExitFenced
	}
	if code, ran := end.exitCode(); ran {
		return int(code)
	}
	return ExitStopped
}
