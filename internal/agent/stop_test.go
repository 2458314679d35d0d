package agent

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// order is the controller's stop, written to the Lease as it stands.
func (f *fixture) order(stop fencing.Stop) {
	claim := fencing.ParseClaim(f.srv.Annotation(fencing.ClaimAnnotation))
	seen := &fencing.Term{Holder: testPod, Claim: &claim}
	if raw := f.srv.Annotation(fencing.StopAnnotation); raw != "" {
		stands := fencing.ParseStop(raw)
		seen.Stop = &stands
	}
	if code := f.srv.Patch(fencing.StopPatch(seen, stop)); code != 200 {
		f.t.Errorf("stop answered %d", code)
	}
}

// whenTold ends the command when it is told to stop, and records what its cancel file says by then.
func (f *fixture) whenTold(code int, result string) {
	f.tree.onSignal = func(tree *fakeTree, _ syscall.Signal) {
		reason, _ := os.ReadFile(f.agent.Config.CancelPath)
		f.add("reads " + string(reason))
		if result != "" {
			f.writeResult(result)
		}
		tree.end(holder.Exit{Code: code})
	}
}

var cancelled = fencing.Stop{Reason: fencing.ReasonCancelled, Message: "no longer needed", GraceSeconds: 20}

// TestTheLeaseTellsTheAgentToStop: the pull. The next renewal brings the word; no signal comes from outside.
func TestTheLeaseTellsTheAgentToStop(t *testing.T) {
	tests := map[string]struct {
		result  string
		code    int
		want    fencing.Outcome
		reason  string
		message string
	}{
		"it gives up":                  {"", 1, fencing.Cancelled, fencing.ReasonCancelled, "the command ended without a result"},
		"it exits 0 without a result":  {"", 0, fencing.Cancelled, fencing.ReasonCancelled, "the command ended without a result"},
		"it fails with a result":       {"half", 1, fencing.Cancelled, fencing.ReasonCancelled, "the command ended without a result"},
		"it brings its result in time": {"here", 0, fencing.Succeeded, fencing.ReasonCompleted, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, eager, nil)
			f.tree.onStart = func(*fakeTree) { f.order(cancelled) }
			f.whenTold(tc.code, tc.result)
			f.wantCode(f.run(), tc.code)
			f.wantOrder("start", "Renew", "signal terminated to the group", "reads Cancelled\nno longer needed", "empty", "Submit")
			if got := f.wantSubmitted(tc.want, tc.reason); got.Message != tc.message {
				t.Errorf("message %q, want %q", got.Message, tc.message)
			}
			f.wantReport(tc.want, fencing.DeliveryAccepted)
		})
	}
}

// TestASignalIsPassedOnOnceTheLeaseHasSaidWhy: the push.
func TestASignalIsPassedOnOnceTheLeaseHasSaidWhy(t *testing.T) {
	suspended := fencing.Stop{Reason: fencing.ReasonSuspended}
	tests := map[string]struct {
		stop   *fencing.Stop
		answer agenttest.Action
		reads  string
		want   fencing.Outcome
		reason string
	}{
		"the Lease bears a stop":        {&suspended, agenttest.Serve, "Suspended", fencing.Cancelled, fencing.ReasonSuspended},
		"the Lease bears none":          {nil, agenttest.Serve, "Terminated", fencing.Interrupted, fencing.ReasonTerminated},
		"the server fails":              {&suspended, agenttest.Answer(500, ""), "Terminated", fencing.Interrupted, fencing.ReasonTerminated},
		"the server does not answer":    {&suspended, agenttest.Timeout, "Terminated", fencing.Interrupted, fencing.ReasonTerminated},
		"what it answers is no Lease":   {&suspended, agenttest.Answer(200, "<html>"), "Terminated", fencing.Interrupted, fencing.ReasonTerminated},
		"what it answers bears nothing": {&suspended, agenttest.Answer(200, "{}"), "Terminated", fencing.Interrupted, fencing.ReasonTerminated},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFailing(t, patient, tc.answer)
			f.tree.onStart = func(*fakeTree) {
				if tc.stop != nil {
					f.order(*tc.stop)
				}
				f.signals <- syscall.SIGTERM
			}
			f.whenTold(1, "")
			f.wantCode(f.run(), 1)
			f.wantOrder("start", "Renew", "signal terminated to the group", "reads "+tc.reads, "Submit")
			f.wantSubmitted(tc.want, tc.reason)
		})
	}
}

// TestTheReasonMayComeAfterTheSignal: the first try fails, the command is told what is known; the outcome is what the Lease says.
func TestTheReasonMayComeAfterTheSignal(t *testing.T) {
	t.Parallel()
	f := newFailing(t, eager, agenttest.LoseRequest, agenttest.LoseRequest, agenttest.Serve)
	f.tree.onStart = func(*fakeTree) { f.order(cancelled); f.signals <- syscall.SIGTERM }
	f.tree.onSignal = func(tree *fakeTree, _ syscall.Signal) {
		eventually(t, "a renewal that is served", func() bool { return f.has("start", "Renew", "Renew", "Renew", "Renew") })
		tree.end(holder.Exit{Code: 1})
	}
	f.run()
	f.wantSubmitted(fencing.Cancelled, fencing.ReasonCancelled)
}

// TestAStopIsToldOnce: many programs take a second signal for "at once".
func TestAStopIsToldOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, eager, nil)
	f.tree.onStart = func(*fakeTree) { f.order(cancelled) }
	f.tree.onSignal = func(tree *fakeTree, _ syscall.Signal) {
		f.signals <- syscall.SIGTERM // the push comes after the pull
		f.signals <- syscall.SIGHUP
		eventually(t, "renewals after the signal", func() bool { return f.has("signal hangup", "Renew", "Renew") })
		tree.end(holder.Exit{Code: 1})
	}
	f.run()
	told := 0
	for _, event := range f.list() {
		if event == "signal terminated to the group" {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times: %v", told, f.list())
	}
	f.wantSubmitted(fencing.Cancelled, fencing.ReasonCancelled)
}

// TestACommandThatDoesNotHeedIsKilledAfterTheStopsGrace, which may be lowered meanwhile.
func TestACommandThatDoesNotHeedIsKilledAfterTheStopsGrace(t *testing.T) {
	t.Parallel()
	f := newFixture(t, eager, nil)
	f.agent.Config.StopGrace = time.Hour
	sooner := cancelled
	sooner.GraceSeconds = 1
	f.tree.onStart = func(*fakeTree) { f.order(cancelled) }
	f.tree.onSignal = func(*fakeTree, syscall.Signal) { f.order(sooner) }
	begin := time.Now()
	f.wantCode(f.run(), 137)
	if took := time.Since(begin); took > 15*time.Second {
		t.Errorf("killed after %s, as the first stop had it", took)
	}
	f.wantOrder("signal terminated to the group", "kill killed", "empty", "Submit")
	f.wantSubmitted(fencing.Cancelled, fencing.ReasonCancelled)
}

// TestAStopBeforeTheStart: the claim's answer was lost, and the controller has seen the claim meanwhile.
func TestAStopBeforeTheStart(t *testing.T) {
	t.Parallel()
	var f *fixture
	f = newFixture(t, patient, func(r agenttest.Request) agenttest.Action {
		switch {
		case r.Kind == agenttest.Claim && r.N == 1:
			return agenttest.LoseAnswer
		case r.Kind == agenttest.Renew && r.N == 1:
			return agenttest.Action{Before: func() { f.order(cancelled) }}
		}
		return agenttest.Serve
	})
	f.wantCode(f.run(), ExitStopped)
	f.wantNever("start")
	if got := f.wantSubmitted(fencing.Cancelled, fencing.ReasonCancelled); got.ExitCode != nil || got.Message != "the command was not started" {
		t.Errorf("submitted %+v", got)
	}
}

// TestAStopThatComesAfterTheEndIsNotWhatItEndedOf: the command had failed by itself.
func TestAStopThatComesAfterTheEndIsNotWhatItEndedOf(t *testing.T) {
	t.Parallel()
	f := newFixture(t, eager, nil)
	f.tree.onStart = func(tree *fakeTree) { tree.exited <- holder.Exit{Code: 7} }
	f.tree.onKill = func(tree *fakeTree, _ syscall.Signal) { // what it has left takes its time to die
		tree.once.Do(func() {
			f.order(cancelled)
			seen := len(f.list())
			eventually(t, "a renewal that bears the stop", func() bool { return slices.Contains(f.list()[seen:], "Renew") })
			time.Sleep(200 * time.Millisecond) // for its answer
			tree.vanish()
		})
	}
	f.wantCode(f.run(), 7)
	f.wantSubmitted(fencing.Failed, fencing.ReasonNonZeroExit)
	f.wantNever("signal terminated to the group")
}

// TestACommandThatEndsBeforeItIsToldHasSucceeded: the Lease has not yet said why, and so nobody has told the command.
func TestACommandThatEndsBeforeItIsToldHasSucceeded(t *testing.T) {
	t.Parallel()
	slow := patient
	slow.RequestTimeout = time.Minute
	f := newFailing(t, slow, agenttest.Timeout)
	f.agent.Config.StopGrace = time.Hour
	f.tree.onStart = func(tree *fakeTree) {
		f.signals <- syscall.SIGTERM
		eventually(t, "a renewal that asks why", func() bool { return f.has("start", "Renew") })
		tree.end(holder.Exit{})
	}
	f.wantCode(f.run(), 0)
	f.wantNever("signal terminated to the group")
	f.wantSubmitted(fencing.Succeeded, fencing.ReasonCompleted)
}

// TestASignalThatComesAfterTheEndIsNotWhatItEndedOf: the same for the Pod's SIGTERM, while what the command has left takes its time to
// die.
func TestASignalThatComesAfterTheEndIsNotWhatItEndedOf(t *testing.T) {
	for code, want := range map[int]fencing.Outcome{0: fencing.Succeeded, 7: fencing.Failed} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, patient, nil)
			f.tree.onStart = func(tree *fakeTree) { tree.exited <- holder.Exit{Code: code} }
			f.tree.onKill = func(tree *fakeTree, _ syscall.Signal) {
				tree.once.Do(func() {
					f.signals <- syscall.SIGTERM
					f.signals <- syscall.SIGHUP // passed on at once, and so a sign that the other was taken
					eventually(t, "the signals are taken", func() bool { return f.has("signal hangup") })
					tree.vanish()
				})
			}
			f.wantCode(f.run(), code)
			f.wantNever("signal terminated to the group")
			if got := f.submitted(); got == nil || got.Outcome != want {
				t.Errorf("submitted %+v, want %s", got, want)
			}
		})
	}
}
