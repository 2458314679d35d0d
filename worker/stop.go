package worker

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"time"
)

// Why a worker is told to stop. docs/worker.md says what follows each.
const (
	ReasonCancelled        = "Cancelled"        // spec.cancel; Message is its reason
	ReasonSuspended        = "Suspended"        // spec.suspend
	ReasonSuperseded       = "Superseded"       // a newer task with the same concurrencyKey replaces this one; Message names it
	ReasonDrained          = "Drained"          // spec.paused of the task's queue is Drain; Message names it
	ReasonDeadlineExceeded = "DeadlineExceeded" // the attempt's time is over, or the task's
	ReasonHeartbeatMissed  = "HeartbeatMissed"  // lease.heartbeat is Application, and the worker was silent for too long
	ReasonTerminated       = "Terminated"       // the Pod is deleted or evicted, or its node is drained
	ReasonRenewalFailed    = "RenewalFailed"    // the Lease is lost
)

// Stop says why the worker is told to stop. It is the cause of its context: context.Cause(ctx), or [StopOf].
type Stop struct {
	Reason  string
	Message string        // what was said about it, if anything
	Grace   time.Duration // from being told to SIGKILL; 0: not known
}

func (s *Stop) Error() string {
	if s.Message == "" {
		return "told to stop: " + s.Reason
	}
	return "told to stop: " + s.Reason + ": " + s.Message
}

// StopOf is why the worker was told to stop; nil: it was not.
func StopOf(ctx context.Context) *Stop {
	stop, _ := errors.AsType[*Stop](context.Cause(ctx))
	return stop
}

const (
	pollPause = time.Second // after a call that failed; a signal comes in any case
	quickAsk  = time.Second // for what the agent knows, once a signal has come
)

// watch cancels the work once the worker is told to stop: by the socket, which says so first, or by a signal. It ends with ctx.
func (t *Task) watch(ctx context.Context, signals <-chan os.Signal, cancel context.CancelCauseFunc) {
	if t.agent != nil {
		go t.poll(ctx, cancel)
	}
	select {
	case <-signals:
		cancel(t.whySignalled(ctx))
	case <-ctx.Done():
	}
}

func (t *Task) poll(ctx context.Context, cancel context.CancelCauseFunc) {
	for ctx.Err() == nil {
		stop, err := t.agent.awaitStop(ctx, longestWait)
		switch {
		case stop != nil:
			cancel(stop)
			return
		case err != nil:
			sleep(ctx, pollPause)
		}
	}
}

// whySignalled finds out what a signal is for: who sends it has said so before, at the socket and in the cancel file.
func (t *Task) whySignalled(ctx context.Context) *Stop {
	if t.agent != nil {
		ctx, cancel := context.WithTimeout(ctx, quickAsk)
		defer cancel()
		if stop, err := t.agent.awaitStop(ctx, 0); err == nil && stop != nil {
			return stop
		}
	}
	content, _ := os.ReadFile(t.cancelFile) // none: nobody but the sender knows
	reason, message, _ := strings.Cut(strings.TrimSpace(string(content)), "\n")
	return &Stop{Reason: cmp.Or(reason, ReasonTerminated), Message: message}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
