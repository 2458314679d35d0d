package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// untilStopped works until it is told to stop, and checks that it is told so.
func untilStopped(t *testing.T, want Stop, result any, err error) Work {
	return func(ctx context.Context, _ *Task) (any, error) {
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
			t.Error("nobody says stop")
		}
		if got := StopOf(ctx); got == nil || *got != want {
			t.Errorf("the cause is %v (%+v), want %+v", context.Cause(ctx), got, want)
		}
		if err == nil && result == nil {
			err = fmt.Errorf("copy: %w", ctx.Err())
		}
		return result, err
	}
}

func TestTheReasonForAStopIsTheCauseOfTheContext(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		withSocket bool
		stop       func(*place)
		want       Stop
	}{
		"by the socket": {true, func(p *place) { p.agent.tell(`{"reason":"Cancelled","message":"no longer needed","graceSeconds":20}`) },
			Stop{ReasonCancelled, "no longer needed", 20 * time.Second}},
		"by a signal, about which the socket knows more": {true, func(p *place) {
			p.agent.tell(`{"reason":"Suspended","graceSeconds":30}`)
			p.terminate("")
		}, Stop{ReasonSuspended, "", 30 * time.Second}},
		"by a signal and a socket that is gone": {true, func(p *place) { _ = p.agent.server.Close(); p.terminate("RenewalFailed") },
			Stop{ReasonRenewalFailed, "", 0}},
		"by a signal and the file":    {false, func(p *place) { p.terminate("Cancelled\nno longer\nneeded\n") }, Stop{ReasonCancelled, "no longer\nneeded", 0}},
		"by a signal and nobody else": {false, func(p *place) { p.terminate("") }, Stop{ReasonTerminated, "", 0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, tc.withSocket)
			if p.agent != nil {
				p.agent.isDeaf = !strings.HasPrefix(name, "by the socket")
			}
			code := p.run(func(ctx context.Context, task *Task) (any, error) {
				tc.stop(p)
				return untilStopped(t, tc.want, nil, nil)(ctx, task)
			}, nil)
			p.wantCode(code, ExitStopped)
			if tc.withSocket {
				p.agent.wantWords() // the agent knows why it ends
			}
			if strings.Count(p.log.text(), "told to stop") != 2 || !strings.Contains(p.log.text(), tc.want.Error()) {
				t.Errorf("its log:\n%s", p.log.text())
			}
		})
	}
}

func TestHowAWorkerEndsThatWasToldToStop(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		result any
		err    error
		code   int
		words  []string
	}{
		"it brings its result":      {"r", nil, ExitDone, []string{`result {"result":"r"}`}},
		"another error comes of it": {nil, errors.New("conn closed"), ExitStopped, nil},
		"it fails of its own":       {nil, &Failure{Reason: "Half", NoEffect: true}, ExitFailed, []string{`fail {"effect":"None","reason":"Half"}`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, true)
			p.agent.tell(`{"reason":"Cancelled","graceSeconds":20}`)
			p.wantCode(p.run(untilStopped(t, Stop{ReasonCancelled, "", 20 * time.Second}, tc.result, tc.err), nil), tc.code)
			p.agent.wantWords(tc.words...)
		})
	}
}

func TestAContextOfTheCallersIsNoStop(t *testing.T) {
	t.Parallel()
	p := newPlace(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	outside := process{getenv: func(name string) string { return p.env[name] }, signals: p.signals, log: &p.log, terminationLog: p.dir + "/log"}
	code := outside.run(ctx, func(ctx context.Context, _ *Task) (any, error) {
		cancel()
		<-ctx.Done()
		if StopOf(ctx) != nil {
			t.Errorf("stop %v", StopOf(ctx))
		}
		return nil, ctx.Err()
	}, nil)
	p.wantCode(code, ExitFailed)
}
