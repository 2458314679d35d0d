package holder

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

// At D = 10 s a request may take 1.67 s.
var (
	cancelIn7 = fencing.Stop{Reason: fencing.ReasonCancelled, Message: "unwanted", GraceSeconds: 7}
	suspend   = fencing.Stop{Reason: fencing.ReasonSuspended}
)

func TestWhenTheCommandIsToldAndKilled(t *testing.T) {
	const grace = 30 * time.Second
	type want struct {
		Told   float64 // when the command gets its SIGTERM; 0: never
		Reason string
		Kill   float64
	}
	tests := map[string]struct {
		grace time.Duration
		do    map[float64]event
		want  want
	}{
		"ordered": {grace, map[float64]event{101: order(cancelIn7)}, want{101, "Cancelled", 108}},
		"ordered again and again: the first counts": {grace, map[float64]event{101: order(cancelIn7), 103: order(cancelIn7)},
			want{101, "Cancelled", 108}},
		"ordered again with less grace": {grace, map[float64]event{101: order(suspend), 103: order(cancelIn7)},
			want{101, "Suspended", 110}},
		"ordered without a grace of its own": {grace, map[float64]event{101: order(suspend)}, want{101, "Suspended", 131}},
		"ordered with more grace than there is": {5 * time.Second, map[float64]event{101: order(cancelIn7)},
			want{101, "Cancelled", 106}},
		"a signal, and the Lease says why": {grace, map[float64]event{101: signal, 101.2: answer(101, fencing.Accepted, &cancelIn7)},
			want{101.2, "Cancelled", 108.2}},
		"a signal, and the Lease says nothing": {grace, map[float64]event{101: signal, 101.2: answer(101, fencing.Accepted, nil)},
			want{101.2, "Terminated", 131}},
		"a signal, and an answer to an earlier request says nothing: asked again": {grace,
			map[float64]event{101: signal, 101.2: answer(100.9, fencing.Accepted, nil), 101.5: answer(101.2, fencing.Accepted, &suspend)},
			want{101.5, "Suspended", 131}},
		"a signal, and an answer to an earlier request says why": {grace,
			map[float64]event{101: signal, 101.2: answer(100.9, fencing.Accepted, &suspend)}, want{101.2, "Suspended", 131}},
		"a signal, and the try fails": {grace, map[float64]event{101: signal, 101.2: answer(101, fencing.Unavailable, nil)},
			want{101.2, "Terminated", 131}},
		"a signal, and no answer: told after one request's time":  {grace, map[float64]event{101: signal}, want{102.7, "Terminated", 131}},
		"a signal, no answer, and hardly any grace: told in time": {time.Second, map[float64]event{101: signal}, want{101.3, "Terminated", 102}},
		"a signal, and the reason comes late": {grace, map[float64]event{101: signal, 101.2: answer(101, fencing.Unavailable, nil),
			103: answer(102.7, fencing.Accepted, &cancelIn7)}, want{101.2, "Terminated", 110}},
		"ordered, then a signal: told once": {grace, map[float64]event{101: order(suspend), 102: signal}, want{101, "Suspended", 131}},
		"two signals: told once":            {grace, map[float64]event{101: signal, 102: signal}, want{102.7, "Terminated", 131}},
		"its time is over":                  {grace, map[float64]event{100: limit(2 * time.Second)}, want{102, "DeadlineExceeded", 132}},
		"ordered before its time is over: the order counts": {grace, map[float64]event{100: limit(2 * time.Second), 101: order(suspend)},
			want{101, "Suspended", 131}},
		"a signal, and the command ends before it is known why": {grace, map[float64]event{101: signal,
			101.2: ends(Exit{})}, want{0, "", 101.2}},
		"ordered after the command's end: it has ended by itself": {grace, map[float64]event{101: ends(Exit{Code: 1}),
			101.1: order(cancelIn7)}, want{0, "", 101}},
		"the fence tells everybody": {grace, map[float64]event{101: signal, 101.2: answer(101, fencing.Refused, nil)}, want{0, "", 102.2}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a, got := running(tc.grace), want{}
			for tenth := 1000; tenth <= 1070; tenth++ {
				at := float64(tenth) / 10
				a.Check(second(at))
				if do := tc.do[at]; do != nil {
					do(a, second(at))
				}
				if a.StopDue() {
					if got.Told != 0 {
						t.Errorf("told at %v and again at %v", got.Told, at)
					}
					got.Told = at
					got.Reason, _ = a.Why()
				}
			}
			got.Kill = killsOf(a).Kill
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if ordered := a.Ordered(); name == "ordered after the command's end: it has ended by itself" && ordered != nil {
				t.Errorf("ordered to %+v", ordered)
			}
			if a.IsOverdue() != (got.Reason == fencing.ReasonDeadlineExceeded) {
				t.Errorf("told %s, overdue %t", got.Reason, a.IsOverdue())
			}
		})
	}
}

type event = func(*Attempt, Boot)

func signal(a *Attempt, now Boot) { a.Stop(now) }

func order(s fencing.Stop) event { return func(a *Attempt, now Boot) { a.Order(s, now) } }

func limit(d time.Duration) event { return func(a *Attempt, _ Boot) { a.LimitTo(d) } }

func ends(exit Exit) event { return func(a *Attempt, now Boot) { a.End(now, exit) } }

// answer is that to a renewal begun at some time.
func answer(start float64, answer fencing.Answer, bears *fencing.Stop) event {
	return func(a *Attempt, now Boot) {
		a.Hear(answer, false, second(start), now, 0)
		if bears != nil {
			a.Order(*bears, now)
		}
	}
}

// TestASignalMakesTheAgentRenewAtOnce, again if the answer is that to an earlier request, and not for ever.
func TestASignalMakesTheAgentRenewAtOnce(t *testing.T) {
	a := running(30 * time.Second)
	due := func(at float64) bool { a.Check(second(at)); return a.RenewDue(second(at)) }
	if due(101) {
		t.Fatal("nothing has happened")
	}
	a.Stop(second(101))
	if !due(101) || a.Wake(false) > second(101) {
		t.Error("a signal, and no renewal is due")
	}
	if wake := a.Wake(true); wake > second(102.7) {
		t.Errorf("sleeps until %v, and the command waits to be told", wake)
	}
	if a.Hear(fencing.Accepted, false, second(100.9), second(101.2), 0); !due(101.2) {
		t.Error("an earlier request says nothing about a later stop")
	}
	if a.Hear(fencing.Accepted, false, second(101.2), second(101.3), 0); due(101.3) {
		t.Error("it was answered")
	}
}

func TestNothingIsStartedOnceToldToStop(t *testing.T) {
	for name, do := range map[string]event{"signal": signal, "order": order(suspend)} {
		held := NewTrust(fencing.TimingFor(10*time.Second), Fence)
		held.Succeed(second(100), 0)
		a := NewAttempt(held, time.Second)
		if do(a, second(101)); a.MayStart(second(101)) || !a.HasNoTree() || a.StopDue() || a.RenewDue(second(101)) {
			t.Errorf("%s: nothing runs, nothing may be started, nobody is owed a signal", name)
		}
	}
	a := running(time.Second)
	a.Started(errors.New("not found"))
	if a.Stop(second(101)); a.stop.isAsking() && a.StopDue() {
		t.Error("nobody is there to be told")
	}
}

// TestWhatEndsBeforeItIsToldHasNotBrokenOff: the signal waits for the Lease to say why, and a command that was not told cannot have
// heeded it. One that fails meanwhile may have failed of what ends around it.
func TestWhatEndsBeforeItIsToldHasNotBrokenOff(t *testing.T) {
	killed := Exit{Code: 137, Signal: syscall.SIGKILL}
	tests := map[string]struct {
		do       map[float64]event
		want     bool // it ended for the Pod was told to stop
		wantKill float64
	}{
		"exit 0 before it is told":   {map[float64]event{101: signal, 101.2: ends(Exit{})}, false, 101.2},
		"exit 1 before it is told":   {map[float64]event{101: signal, 101.2: ends(Exit{Code: 1})}, true, 101.2},
		"killed before it is told":   {map[float64]event{101: signal, 101.2: ends(killed)}, true, 101.2},
		"exit 0 once told":           {map[float64]event{101: signal, 103: ends(Exit{})}, true, 103},
		"dead of it once told":       {map[float64]event{101: signal, 103: ends(Exit{Code: 143, Signal: syscall.SIGTERM})}, true, 131},
		"exit 0, then the signal":    {map[float64]event{101: ends(Exit{}), 101.2: signal}, false, 101},
		"exit 1, then the signal":    {map[float64]event{101: ends(Exit{Code: 1}), 101.2: signal}, false, 101},
		"exit 0, with a signal each": {map[float64]event{101: signal, 101.2: ends(Exit{}), 101.4: signal}, false, 101.2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := running(30 * time.Second)
			for tenth := 1000; tenth <= 1031; tenth++ {
				at := second(float64(tenth) / 10)
				a.Check(at)
				if do := tc.do[float64(tenth)/10]; do != nil {
					do(a, at)
				}
				a.StopDue()
			}
			if a.IsStopped() != tc.want {
				t.Errorf("stopped: %t", a.IsStopped())
			}
			if kill := killsOf(a).Kill; kill != tc.wantKill {
				t.Errorf("killed at %v, want %v", kill, tc.wantKill)
			}
			if !tc.want && a.RenewDue(second(102)) {
				t.Error("renews to learn what it is to stop for, and has ended")
			}
		})
	}
}
