package agent

import (
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// newFailing is a fixture whose renewals meet the given actions once the command has started; the last one goes on for ever.
// Before that they are served: on a loaded machine, a claim may have to be renewed before the start.
func newFailing(t *testing.T, timing fencing.Timing, actions ...agenttest.Action) *fixture {
	n := 0
	var f *fixture
	f = newFixture(t, timing, func(r agenttest.Request) agenttest.Action {
		if r.Kind != agenttest.Renew || !f.has("start") {
			return agenttest.Serve
		}
		n++
		return actions[min(n, len(actions))-1]
	})
	f.tree.onStart = nil
	return f
}

// running a hook first, a request is served.
func after(hook func()) agenttest.Action { return agenttest.Action{Before: hook} }

func TestCase16TwoLostRenewalsAreHarmless(t *testing.T) {
	t.Parallel()
	var f *fixture
	last := after(func() { f.tree.end(holder.Exit{}) })
	f = newFailing(t, eager, agenttest.Serve, agenttest.Serve, agenttest.Timeout, agenttest.Timeout, agenttest.Serve, last, agenttest.Serve)
	f.wantCode(f.run(), 0)
	f.wantNever("kill terminated")
	f.wantSubmitted(fencing.Succeeded, fencing.ReasonCompleted)
}

func TestEveryRetryTakesANewConnection(t *testing.T) {
	t.Parallel()
	failures := map[string]agenttest.Action{"timeout": agenttest.Timeout, "hang-up": agenttest.LoseRequest, "error": agenttest.Answer(500, "")}
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failed := map[string]bool{} // client addresses
			var f *fixture
			f = newFixture(t, eager, func(r agenttest.Request) agenttest.Action {
				if failed[r.Remote] {
					t.Error("a request came over a connection that had just failed")
				}
				switch {
				case r.Kind != agenttest.Renew || !f.has("start"):
					return agenttest.Serve
				case len(failed) < 2:
					failed[r.Remote] = true
					return failure
				default:
					return after(func() { f.tree.end(holder.Exit{}) })
				}
			})
			f.tree.onStart = nil
			f.wantCode(f.run(), 0)
		})
	}
}

func TestTrustEndsInAnOutage(t *testing.T) {
	t.Parallel()
	tests := map[string]agenttest.Action{
		"requests time out":       agenttest.Timeout,
		"connections are cut":     agenttest.LoseRequest,
		"the server is failing":   agenttest.Answer(500, "etcdserver: request timed out"),
		"the token is not known":  agenttest.Answer(401, ""),
		"something else answers":  agenttest.Answer(302, "<html>"),
		"what we send is refused": agenttest.Answer(400, ""),
		"a policy is broken":      unreasoned,
	}
	for name, outage := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFailing(t, hasty, outage)
			f.wantCode(f.run(), ExitFenced)
			f.wantOrder("Claim", "start", "Renew", "kill terminated", "kill killed", "empty", "Submit")
			got := f.wantSubmitted(fencing.Fenced, fencing.ReasonRenewalFailed)
			if got.ExitCode == nil || *got.ExitCode != 137 {
				t.Errorf("submitted %+v", got)
			}
			f.wantReport(fencing.Fenced, fencing.DeliveryAccepted)
		})
	}
}

func TestATreeThatHeedsTheFenceIsNotKilledHarder(t *testing.T) {
	t.Parallel()
	timing := hasty
	timing.KillReserve = 0
	f := newFailing(t, timing, agenttest.Timeout)
	f.tree.onKill = dieOf(syscall.SIGTERM)
	f.wantCode(f.run(), ExitFenced)
	f.wantOrder("kill terminated", "empty", "Submit")
	f.wantNever("kill killed")
}

func TestARevokedTermFences(t *testing.T) {
	t.Parallel()
	var f *fixture
	f = newFailing(t, eager, agenttest.Serve, after(func() { f.revoke() }), agenttest.Serve)
	f.wantCode(f.run(), ExitFenced)
	f.wantOrder("start", "Renew", "Renew", "kill terminated", "kill killed", "empty", "Submit")
	if f.submitted() != nil {
		t.Error("a revoked term carries a submission")
	}
	f.wantReport(fencing.Fenced, fencing.DeliveryRefused)
}

// leapingClock is a machine that is suspended: its clock is suddenly later.
type leapingClock struct {
	SystemClock
	leap atomic.Int64
}

func (c *leapingClock) Boot() holder.Boot { return c.SystemClock.Boot() + holder.Boot(c.leap.Load()) }

func TestWakingAfterTrustHasEnded(t *testing.T) {
	t.Parallel()
	clock := &leapingClock{SystemClock: SystemClock(time.Now)}
	asleep := after(func() { clock.leap.Add(int64(eager.Duration)) }) // while this very answer was on its way
	f := newFailing(t, eager, agenttest.Serve, asleep, agenttest.Serve)
	f.agent.Clock = clock
	// The kill budget has passed as well. The tree is killed at once, and what became of it is still told.
	f.wantCode(f.run(), ExitFenced)
	f.wantOrder("Renew", "Renew", "kill terminated", "kill killed", "empty", "Submit")
	f.wantSubmitted(fencing.Fenced, fencing.ReasonRenewalFailed)
}

func TestWakingInsideTheKillBudget(t *testing.T) {
	t.Parallel()
	clock := &leapingClock{SystemClock: SystemClock(time.Now)}
	asleep := after(func() { clock.leap.Add(int64(eager.Trust() + eager.KillAfter() + time.Second)) })
	f := newFailing(t, eager, asleep, agenttest.Serve)
	f.agent.Clock = clock
	f.wantCode(f.run(), ExitFenced)
	f.wantOrder("kill terminated", "kill killed", "empty", "Submit")
	f.wantSubmitted(fencing.Fenced, fencing.ReasonRenewalFailed)
}

// TestAStaleClaimIsRenewedBeforeTheStart: the gap between claim and start was longer than p.
func TestAStaleClaimIsRenewedBeforeTheStart(t *testing.T) {
	t.Parallel()
	clock := &leapingClock{SystemClock: SystemClock(time.Now)}
	f := newFixture(t, patient, func(r agenttest.Request) agenttest.Action {
		action := agenttest.Serve
		if r.Kind == agenttest.Claim {
			action.Before = func() { clock.leap.Add(int64(patient.Renew + time.Second)) }
		}
		return action
	})
	f.agent.Clock = clock
	f.wantCode(f.run(), 0)
	f.wantOrder("Claim", "Renew", "start", "Submit")
}

func TestATreeThatCannotBeKilledIsLeftToTheKernel(t *testing.T) {
	t.Parallel()
	timing := hasty
	timing.KillBudget, timing.KillReserve = 300*time.Millisecond, 250*time.Millisecond
	f := newFailing(t, timing, agenttest.Timeout)
	f.tree.onKill = nil
	f.wantCode(f.run(), ExitTreeAlive)
	f.wantOrder("kill terminated", "kill killed")
	f.wantNever("Submit")
	f.wantReport(fencing.Fenced, fencing.DeliveryUnknown)
}

func TestWhatTheCommandLeavesAndNobodyCanKillIsLeftToTheKernel(t *testing.T) {
	t.Parallel()
	timing := patient
	timing.KillBudget = 300 * time.Millisecond
	f := newFixture(t, timing, nil)
	f.tree.onStart = func(tree *fakeTree) { tree.exited <- holder.Exit{} }
	f.tree.onKill = nil
	f.wantCode(f.run(), ExitTreeAlive)
	f.wantOrder("start", "kill killed")
	f.wantNever("Submit")
	f.wantReport(fencing.Failed, fencing.DeliveryUnknown)
}

func TestWhatTheCommandLeavesIsKilledFirst(t *testing.T) {
	t.Parallel()
	f := newFixture(t, patient, nil)
	f.tree.onStart = func(tree *fakeTree) { tree.exited <- holder.Exit{} }
	f.tree.onKill = func(tree *fakeTree, _ syscall.Signal) { tree.once.Do(tree.vanish) }
	f.wantCode(f.run(), 0)
	f.wantOrder("start", "kill killed", "empty", "Submit")
	f.wantSubmitted(fencing.Succeeded, fencing.ReasonCompleted)
}

func TestACommandThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err  error
		want int
	}{
		"not found":      {&fs.PathError{Op: "exec", Path: "/no", Err: syscall.ENOENT}, 127},
		"not executable": {&fs.PathError{Op: "exec", Path: "/etc/passwd", Err: syscall.EACCES}, 126},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, patient, nil)
			f.tree.startErr = tc.err
			f.wantCode(f.run(), tc.want)
			f.wantOrder("Claim", "start", "Submit")
			got := f.wantSubmitted(fencing.Failed, fencing.ReasonCommandNotRunnable)
			if got.ExitCode == nil || int(*got.ExitCode) != tc.want || got.Message == "" {
				t.Errorf("submitted %+v", got)
			}
		})
	}
}

func TestOtherSignalsAreForwarded(t *testing.T) {
	t.Parallel()
	f := newFixture(t, patient, nil)
	f.tree.onStart = func(*fakeTree) { f.signals <- syscall.SIGHUP; f.signals <- syscall.SIGUSR1 }
	f.tree.onSignal = func(tree *fakeTree, sig syscall.Signal) {
		if sig == syscall.SIGUSR1 {
			tree.end(holder.Exit{})
		}
	}
	f.wantCode(f.run(), 0)
	f.wantOrder("signal hangup", "signal user defined signal 1", "Submit")
	f.wantSubmitted(fencing.Succeeded, fencing.ReasonCompleted) // neither is a stop
}

func TestStop(t *testing.T) {
	t.Parallel()
	exit := func(code int) func(*fakeTree, syscall.Signal) {
		return func(tree *fakeTree, _ syscall.Signal) { tree.end(holder.Exit{Code: code}) }
	}
	tests := map[string]struct {
		result   bool
		grace    time.Duration
		signal   syscall.Signal
		onSignal func(*fakeTree, syscall.Signal)
		want     fencing.Outcome
		reason   string
		code     int
	}{
		"finishes with a result":         {result: true, onSignal: exit(0), want: fencing.Succeeded, reason: fencing.ReasonCompleted},
		"exits 0 without one":            {onSignal: exit(0), want: fencing.Interrupted, reason: fencing.ReasonTerminated},
		"exits 1 with one":               {result: true, onSignal: exit(1), want: fencing.Interrupted, reason: fencing.ReasonTerminated, code: 1},
		"dies of the signal":             {onSignal: dieOf(syscall.SIGTERM), want: fencing.Interrupted, reason: fencing.ReasonTerminated, code: 143},
		"ignores it":                     {grace: 1, onSignal: nil, want: fencing.Interrupted, reason: fencing.ReasonTerminated, code: 137},
		"is stopped by the image's own":  {signal: syscall.SIGQUIT, onSignal: exit(0), want: fencing.Interrupted, reason: fencing.ReasonTerminated},
		"is stopped by that of an init":  {signal: rtmin3, onSignal: exit(0), want: fencing.Interrupted, reason: fencing.ReasonTerminated},
		"ignores it, has a result ready": {result: true, grace: 1, want: fencing.Interrupted, reason: fencing.ReasonTerminated, code: 137},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, patient, nil)
			if tc.signal == 0 {
				tc.signal = syscall.SIGTERM
			}
			if tc.grace != 0 {
				f.agent.Config.StopGrace = tc.grace
			}
			if tc.result {
				f.writeResult("r")
			}
			f.tree.onStart = func(*fakeTree) { f.signals <- tc.signal }
			f.tree.onSignal = tc.onSignal
			f.wantCode(f.run(), tc.code)
			f.wantOrder("start", "signal "+tc.signal.String()+" to the group", "empty", "Submit")
			got := f.wantSubmitted(tc.want, tc.reason)
			if (got.Result != nil) != (tc.want == fencing.Succeeded) {
				t.Errorf("submitted %+v", got)
			}
		})
	}
}

// leapingTree leaps as its command is started, before anybody can see that.
type leapingTree struct {
	*fakeTree
	leap func()
}

func (l leapingTree) Start(environ ...string) error {
	defer l.leap()
	return l.fakeTree.Start(environ...)
}

// TestAnAttemptThatTakesTooLongIsStopped: the cancel file is there before the signal, the rest as after any other stop.
func TestAnAttemptThatTakesTooLongIsStopped(t *testing.T) {
	tests := map[string]struct {
		result string
		code   int
		want   fencing.Outcome
		reason string
	}{
		"it gives up":                   {"", 1, fencing.Failed, fencing.ReasonDeadlineExceeded},
		"it claims success, no result":  {"", 0, fencing.Failed, fencing.ReasonDeadlineExceeded},
		"it brings its result in time":  {"here", 0, fencing.Succeeded, fencing.ReasonCompleted},
		"it has a result, and fails so": {"here", 2, fencing.Failed, fencing.ReasonDeadlineExceeded},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, patient, nil)
			clock := &leapingClock{SystemClock: SystemClock(time.Now)}
			f.agent.Clock, f.agent.Alarm = clock, leapingAlarm{f.agent.Alarm, clock}
			f.agent.Config.AttemptLimit = time.Minute // the claim takes less on any machine; or nothing would be started
			f.agent.Tree = leapingTree{f.tree, func() { clock.leap.Add(int64(time.Minute - 100*time.Millisecond)) }}
			f.tree.onStart = nil
			f.tree.onSignal = func(tree *fakeTree, _ syscall.Signal) {
				reason, err := os.ReadFile(f.agent.Config.CancelPath)
				if err != nil || string(reason) != fencing.ReasonDeadlineExceeded {
					t.Errorf("the cancel file says %q: %v", reason, err)
				}
				if tc.result != "" {
					f.writeResult(tc.result)
				}
				tree.end(holder.Exit{Code: tc.code})
			}
			f.run()
			f.wantSubmitted(tc.want, tc.reason)
			f.wantOrder("start", "signal terminated to the group", "Submit")
		})
	}
}
