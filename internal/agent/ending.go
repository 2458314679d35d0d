package agent

import (
	"cmp"
	"fmt"
	"math"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// result is what the command left in its result file.
type result struct {
	Written bool
	Content string
	Ref     *fencing.ResultRef // where it is kept instead; nil: it is the content
	Reason  string             // why it cannot be submitted; empty: it can
	Message string
}

// ending is everything that decides an attempt's outcome, gathered after its process tree is dead.
type ending struct {
	Token   fencing.Token
	Exit    *holder.Exit  // nil: the command never ran
	Start   error         // why it could not be started
	Fenced  string        // why the term was lost while the command ran, or before
	Overdue bool          // it ran for as long as an attempt may
	Ordered *fencing.Stop // the stop that the Lease bore
	Stopped bool          // the Pod was told to stop
	Missed  bool          // it did not say in time that it works
	Said    *failure      // what the command said of its failure; nil: nothing
	OOM     bool          // the kernel killed a process of the container for memory
	Result  result
	Note    string // the command's own termination message
}

// submission decides the outcome. The first rule that matches wins.
func (e ending) submission() fencing.Submission {
	switch {
	case e.Start != nil:
		return e.with(fencing.Failed, fencing.ReasonCommandNotRunnable, e.Start.Error())
	case e.Fenced != "":
		return e.with(fencing.Fenced, fencing.ReasonRenewalFailed, e.Fenced)
	case e.Said != nil && e.Ordered == nil && !e.Stopped:
		return e.failed()
	case e.Missed && !e.isDone():
		return e.with(fencing.Failed, fencing.ReasonHeartbeatMissed, "lease.heartbeat is Application, and the command has not said in time that it works")
	case e.Overdue && !e.isDone():
		return e.with(fencing.Failed, fencing.ReasonDeadlineExceeded, "the attempt ran for as long as timeouts.attemptSeconds allows, and ended without a result")
	case e.Ordered != nil && !e.isDone():
		return e.with(fencing.Cancelled, e.Ordered.Reason, e.unfinished())
	case e.Exit == nil:
		return e.with(fencing.Interrupted, fencing.ReasonTerminated, "the Pod was told to stop before the command was started")
	case e.Stopped && !e.isDone():
		return e.with(fencing.Interrupted, fencing.ReasonTerminated, "the Pod was told to stop, and the command ended without a result")
	case e.Exit.Code == 0 && e.Result.Reason != "":
		return e.with(fencing.Failed, e.Result.Reason, e.Result.Message)
	case e.Exit.Code == 0:
		return e.succeeded()
	case e.OOM:
		return e.with(fencing.Failed, fencing.ReasonOOMKilled, "the kernel killed a process of the container for memory")
	case e.Exit.Signal != 0:
		return e.with(fencing.Failed, fencing.ReasonSignaled, fmt.Sprintf("killed by signal %d (%s)", int(e.Exit.Signal), e.Exit.Signal))
	default:
		return e.with(fencing.Failed, fencing.ReasonNonZeroExit, e.Note)
	}
}

// isDone reports whether a command that was told to stop has finished its work instead.
func (e ending) isDone() bool {
	return e.Exit != nil && e.Exit.Code == 0 && e.Result.Written && e.Said == nil
}

// failed is what the command says of its own failure, however it exited after that.
func (e ending) failed() fencing.Submission {
	s := e.with(fencing.Failed, cmp.Or(e.Said.Reason, fencing.ReasonWorkerFailed), cmp.Or(e.Said.Message, e.Note))
	s.Retryable, s.RetryAfterSeconds = e.Said.Retryable, e.Said.RetryAfterSeconds
	return s
}

// unfinished says how a command ended that was told to stop.
func (e ending) unfinished() string {
	if e.Exit == nil {
		return "the command was not started"
	}
	return "the command ended without a result"
}

func (e ending) succeeded() fencing.Submission {
	if e.encodedSize() > fencing.MaxSubmissionBytes {
		return e.tooLarge()
	}
	return e.success()
}

func (e ending) success() fencing.Submission {
	s := e.with(fencing.Succeeded, fencing.ReasonCompleted, e.Note)
	switch {
	case e.Result.Ref != nil:
		s.ResultRef = e.Result.Ref
	case e.Result.Written:
		s.Result = &e.Result.Content
	}
	return s
}

// encodedSize is the size of the success as it would be submitted.
func (e ending) encodedSize() int {
	encoded, err := e.success().Encode()
	if err != nil {
		return math.MaxInt
	}
	return len(encoded)
}

// tooLarge is what is submitted instead of a success whose result does not fit, in the agent's own judgement or the API
// server's.
func (e ending) tooLarge() fencing.Submission {
	return e.with(fencing.Failed, fencing.ReasonResultTooLarge, fencing.ResultTooLarge(len(e.Result.Content), e.encodedSize()))
}

func (e ending) with(outcome fencing.Outcome, reason, message string) fencing.Submission {
	s := fencing.Submission{Token: e.Token, Outcome: outcome, Reason: reason,
		Message: fencing.Truncate(message, fencing.MaxMessageBytes)}
	if code, ran := e.exitCode(); ran {
		s.ExitCode = &code
	}
	if e.Said != nil {
		s.Effect = e.Said.Effect
	}
	return s
}

// exitCode is the command's, or what a shell would give for one that cannot be run.
func (e ending) exitCode() (int32, bool) {
	switch {
	case e.Start != nil:
		return int32(startExitCode(e.Start)), true
	case e.Exit != nil:
		return int32(e.Exit.Code), true // 0 to 255
	default:
		return 0, false
	}
}
