package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Work is what a worker does, or how a probe looks.
//
// It returns the result: a string or bytes, a [Reference], anything that encodes to JSON, or nil for none. A worker that was told to stop and
// returns a result has succeeded nevertheless; one that returns nil has broken off, and the task may be run again. An error means that the
// attempt has failed; a [*Failure] says how. Once ctx is cancelled an error means that it has stopped, unless it is a Failure.
//
// A probe returns the result if the effect happened, [ErrNoEffect] if it did not and will not, and any other error if it cannot tell.
type Work func(ctx context.Context, task *Task) (result any, err error)

// JSON makes a Work of one whose payload is JSON, decoded as by [Task.Decode]. One that does not decode fails for good, without an effect:
// work is not called.
func JSON[P any](work func(ctx context.Context, task *Task, payload P) (result any, err error)) Work {
	return func(ctx context.Context, task *Task) (any, error) {
		var payload P
		if err := task.Decode(&payload); err != nil {
			if failure, is := errors.AsType[*Failure](err); is {
				failure.NoEffect = true
			}
			return nil, err
		}
		return work(ctx, task, payload)
	}
}

// Exit codes. They say the same as the socket was told, as far as a number can, for those who have rules about them.
const (
	ExitDone       = 0   // done; in a probe: the effect happened
	ExitFailed     = 1   // failed
	ExitNoEffect   = 1   // in a probe: there was no effect, and there will be none
	ExitCannotTell = 2   // in a probe
	ExitUsage      = 64  // not started by the agent
	ExitPermanent  = 65  // failed, and another attempt would
	ExitStopped    = 143 // told to stop, and did
)

// Run is the main function of a worker. It does not return. A panic is left to Go, which prints it and exits with 2: a failure, and in a
// probe one that cannot tell.
func Run(work Work) { os.Exit(Do(context.Background(), work, nil)) }

// RunWithProbe is the main function of a program that is both the worker and its probe (spec.reconcile.template).
func RunWithProbe(work, probe Work) { os.Exit(Do(context.Background(), work, probe)) }

// Do is what Run does, for programs with more to do before they exit with its code. probe may be nil.
func Do(ctx context.Context, work, probe Work) (exitCode int) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	p := process{getenv: os.Getenv, signals: signals, log: os.Stderr, terminationLog: "/dev/termination-log"}
	return p.run(ctx, work, probe)
}

// process is what a worker has from outside.
type process struct {
	getenv         func(string) string
	signals        <-chan os.Signal
	log            io.Writer
	terminationLog string // for the message of a failure, where there is no socket
}

func (p process) run(ctx context.Context, work, probe Work) (exitCode int) {
	t, err := open(p.getenv)
	switch {
	case err != nil:
		p.logf("%v", err)
		return ExitUsage
	case t.Probe != nil && probe == nil:
		err := errors.New("this is a probe, and the program only works: it needs worker.RunWithProbe")
		return p.cannotTell(ctx, t, &Failure{Reason: reasonWrongKind, Err: err})
	case t.Probe != nil:
		work = probe
	}
	p.greet(ctx, t)
	result, stop, err := p.carryOut(ctx, t, work)
	if err == nil {
		if err = t.deliver(context.WithoutCancel(ctx), result); err == nil { // what was done counts, also after being told to stop
			return ExitDone
		}
	}
	_, isFailure := errors.AsType[*Failure](err)
	switch {
	case stop != nil && (t.Probe != nil || !isFailure):
		p.logf("%v; the work ended with: %v", stop, err)
		return ExitStopped
	case t.Probe != nil && errors.Is(err, ErrNoEffect):
		p.logf("%v", err)
		return ExitNoEffect
	case t.Probe != nil:
		return p.cannotTell(ctx, t, err)
	}
	return p.fail(ctx, t, err)
}

// greetings is how often the socket is asked for the task, with pauses between, before the work begins without an answer.
const (
	greetings  = 4
	greetPause = 250 * time.Millisecond
)

// shortestSilence is what the shortest lease leaves a worker whose heartbeats count.
const shortestSilence = 7 * time.Second

// greet asks the socket what the environment does not say. A socket that does not answer now may answer later, so it is kept. Until then
// the checkpoint is that of the file, and the worker beats as if it had to.
func (p process) greet(ctx context.Context, t *Task) {
	if t.agent == nil {
		return
	}
	var h hello
	var err error
	for n := range greetings {
		if n > 0 {
			sleep(ctx, greetPause<<(n-1))
		}
		if h, err = t.agent.task(ctx); err == nil {
			break
		}
	}
	if err != nil {
		p.logf("the agent does not say more than the files do: %v", err)
		t.HeartbeatTimeout = shortestSilence
		return
	}
	t.Checkpoint = h.Checkpoint
	if h.Heartbeat == "Application" {
		t.HeartbeatTimeout = time.Duration(h.HeartbeatTimeoutSeconds) * time.Second
	}
}

// carryOut does the work, and meanwhile listens for a stop and speaks for it.
func (p process) carryOut(ctx context.Context, t *Task, work Work) (result any, stop *Stop, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	aside, end := context.WithCancel(context.WithoutCancel(ctx)) // what goes on beside the work, until it ends
	var once sync.Once
	go t.watch(aside, p.signals, func(cause error) {
		once.Do(func() {
			p.logf("%v", cause)
			cancel(cause)
		})
	})
	spoken := make(chan struct{})
	go func() {
		t.speak(aside)
		close(spoken)
	}()
	result, err = work(ctx, t)
	stop = StopOf(ctx)
	close(t.voice.ended)
	end()
	<-spoken
	t.utter(context.WithoutCancel(ctx)) // the last word
	return result, stop, err
}

// fail says that the attempt has failed, and how.
func (p process) fail(ctx context.Context, t *Task, err error) (exitCode int) {
	p.logf("failed: %v", err)
	w := wordOf(err)
	p.say(ctx, t, w)
	if w.Retryable != nil && !*w.Retryable {
		return ExitPermanent
	}
	return ExitFailed
}

// cannotTell says why. Whatever a probe says of its own failure, it has not answered.
func (p process) cannotTell(ctx context.Context, t *Task, err error) (exitCode int) {
	p.logf("cannot tell: %v", err)
	w := wordOf(err)
	p.say(ctx, t, word{Reason: w.Reason, Message: w.Message})
	return ExitCannotTell
}

// say tells a failure by the socket, or leaves its message for people, as any container does.
func (p process) say(ctx context.Context, t *Task, w word) {
	if t.agent != nil {
		err := t.agent.tell(context.WithoutCancel(ctx), "/v1/fail", w)
		if refusal, is := errors.AsType[*Refusal](err); err == nil || is && refusal.Status == http.StatusGone {
			return
		}
		p.logf("the failure could not be told: %v", err)
	}
	if err := os.WriteFile(p.terminationLog, []byte(w.Message), 0o644); err != nil {
		p.logf("the message could not be left: %v", err)
	}
}

func (p process) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(p.log, "worker: "+format+"\n", args...)
}
