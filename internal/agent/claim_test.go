package agent

import (
	"context"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// first scripts the answers to the first requests; everything after them is served.
func first(actions ...agenttest.Action) func(agenttest.Request) agenttest.Action {
	n := 0
	return func(agenttest.Request) agenttest.Action {
		if n++; n <= len(actions) {
			return actions[n-1]
		}
		return agenttest.Serve
	}
}

// another is the claim of a second process under the same holder.
var another = fencing.ClaimPatch(testPod, fencing.Claim{Nonce: "nonce-2", Node: "node-1", PodUID: testUID}, wallEpoch)

func TestClaimIsSettledBeforeAnythingRuns(t *testing.T) {
	t.Parallel()
	forbidden := agenttest.Answer(403, `{"kind":"Status","reason":"Forbidden"}`)
	tests := map[string]struct {
		answers []agenttest.Action
		want    []string
	}{
		"at once":                         {nil, []string{"Claim", "start"}},
		"its answer was lost":             {[]agenttest.Action{agenttest.LoseAnswer}, []string{"Claim", "Renew", "start"}},
		"the request was lost":            {[]agenttest.Action{agenttest.LoseRequest}, []string{"Claim", "Renew", "Claim", "start"}},
		"the answer came too late":        {[]agenttest.Action{agenttest.LateAnswer}, []string{"Claim", "Renew", "start"}},
		"answers to both forms were lost": {[]agenttest.Action{agenttest.LoseAnswer, agenttest.LoseAnswer}, []string{"Claim", "Renew", "Claim", "Renew", "start"}},
		"the server was unavailable":      {[]agenttest.Action{agenttest.Answer(503, ""), agenttest.Answer(429, "")}, []string{"Claim", "Renew", "Claim", "start"}},
		"a policy was broken":             {[]agenttest.Action{unreasoned, unreasoned}, []string{"Claim", "Renew", "Claim", "start"}},
		"the role had not arrived yet":    {[]agenttest.Action{forbidden, forbidden, forbidden}, []string{"Claim", "Claim", "Claim", "Claim", "start"}},
		"lost, then denied for a while":   {[]agenttest.Action{agenttest.LoseAnswer, forbidden, forbidden}, []string{"Claim", "Renew", "Renew", "Renew", "start"}},
		"the token was renewed meanwhile": {[]agenttest.Action{agenttest.Answer(401, "")}, []string{"Claim", "Claim", "start"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, patient, first(tc.answers...))
			f.wantCode(f.run(), 0)
			got := f.list()
			if diff := cmp.Diff(tc.want, got[:min(len(got), len(tc.want))]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			f.wantSubmitted(fencing.Succeeded, fencing.ReasonCompleted)
		})
	}
}

func TestNothingRunsWithoutTheTerm(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		before  func(*fixture)
		answers func(*fixture) []agenttest.Action
		want    []string
	}{
		"another process has claimed": {before: func(f *fixture) { f.srv.Patch(another) }, want: []string{"Claim"}},
		"the term was revoked":        {before: func(f *fixture) { f.srv.Patch(fencing.RevokePatch(&fencing.Term{Holder: testPod}, false)) }, want: []string{"Claim"}},
		"the Lease is gone":           {before: func(f *fixture) { f.srv.Delete() }, want: []string{"Claim"}},
		"a claim was lost, and another landed": {
			answers: func(f *fixture) []agenttest.Action {
				lost := agenttest.LoseRequest
				lost.Before = func() { f.srv.Patch(another) }
				return []agenttest.Action{lost}
			},
			want: []string{"Claim", "Renew", "Claim", "Renew"},
		},
		"a claim landed, was lost and revoked": {
			answers: func(f *fixture) []agenttest.Action {
				revoked := agenttest.Serve
				revoked.Before = f.revoke
				return []agenttest.Action{agenttest.LoseAnswer, revoked}
			},
			want: []string{"Claim", "Renew", "Claim", "Renew"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var script func(agenttest.Request) agenttest.Action
			f := newFixture(t, patient, func(r agenttest.Request) agenttest.Action { return script(r) })
			script = first()
			if tc.answers != nil {
				script = first(tc.answers(f)...)
			}
			if tc.before != nil {
				tc.before(f)
			}
			f.wantCode(f.run(), ExitNotHeld)
			if diff := cmp.Diff(tc.want, f.list()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			f.wantReport(fencing.Fenced, fencing.DeliveryNone)
		})
	}
}

// TestClaimThatLandsLate: our first claim lands only after its repeat was refused. The refusal of the next first form is
// then our own doing, and must not be taken for another's.
func TestClaimThatLandsLate(t *testing.T) {
	t.Parallel()
	var f *fixture
	late := agenttest.Serve
	late.Before = func() {
		f.srv.Patch(fencing.ClaimPatch(testPod, f.agent.Config.Claim("nonce-1"), wallEpoch))
	}
	f = newFixture(t, patient, first(agenttest.LoseRequest, agenttest.Serve, late))
	f.wantCode(f.run(), 0)
	if diff := cmp.Diff([]string{"Claim", "Renew", "Claim", "Renew", "start"}, f.list()[:5]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestStopBeforeTheClaim(t *testing.T) {
	t.Parallel()
	var f *fixture
	denied := agenttest.Answer(403, "")
	denied.Before = func() { f.signals <- syscall.SIGTERM }
	f = newFixture(t, patient, first(denied))
	f.wantCode(f.run(), ExitStopped)
	f.wantNever("start")
	f.wantReport(fencing.Interrupted, fencing.DeliveryNone)
}

// TestStopDuringTheClaim: the claim is accepted, and the stop was first.
func TestStopDuringTheClaim(t *testing.T) {
	t.Parallel()
	var f *fixture
	f = newFixture(t, patient, first(after(func() { f.signals <- syscall.SIGTERM })))
	f.wantCode(f.run(), ExitStopped)
	f.wantNever("start")
	f.wantSubmitted(fencing.Interrupted, fencing.ReasonTerminated)
}

// TestStopWhileAClaimMayStand: such a term is ended by a submission, so that nobody has to wait until it expires.
func TestStopWhileAClaimMayStand(t *testing.T) {
	t.Parallel()
	var f *fixture
	lost := agenttest.LoseAnswer
	lost.Before = func() { f.signals <- os.Signal(syscall.SIGTERM) }
	f = newFixture(t, patient, first(lost))
	f.wantCode(f.run(), ExitStopped)
	f.wantNever("start")
	f.wantSubmitted(fencing.Interrupted, fencing.ReasonTerminated)
	f.wantReport(fencing.Interrupted, fencing.DeliveryAccepted)
}

// stamped is a mailbox that notes the renewTime of every request.
type stamped struct {
	Mailbox
	mu    sync.Mutex
	times []time.Time
}

func (s *stamped) note(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, now)
}

func (s *stamped) Claim(ctx context.Context, now time.Time) Reply {
	s.note(now)
	return s.Mailbox.Claim(ctx, now)
}

func (s *stamped) Renew(ctx context.Context, now time.Time, note fencing.Note) Reply {
	s.note(now)
	return s.Mailbox.Renew(ctx, now, note)
}

// TestEveryRenewalMakesANewVersion: of a wall clock that stands still, no two requests have the same renewTime, the repeat of a claim
// among them; one that had would change nothing, and no controller would see it.
func TestEveryRenewalMakesANewVersion(t *testing.T) {
	f := newFixture(t, eager, func(r agenttest.Request) agenttest.Action {
		if r.Kind == agenttest.Claim {
			return agenttest.LoseAnswer
		}
		return agenttest.Serve
	})
	box := &stamped{Mailbox: f.agent.Mailbox}
	f.agent.Mailbox, f.agent.Clock = box, SystemClock(func() time.Time { return wallEpoch })
	f.tree.onStart = func(tree *fakeTree) {
		for f.srv.Count(agenttest.Renew) < 4 {
			time.Sleep(10 * time.Millisecond)
		}
		tree.end(holder.Exit{})
	}
	f.wantCode(f.run(), 0)
	box.mu.Lock()
	defer box.mu.Unlock()
	for i := 1; i < len(box.times); i++ {
		if !box.times[i].After(box.times[i-1]) {
			t.Errorf("request %d has the renewTime %s, that before it %s", i+1, box.times[i], box.times[i-1])
		}
	}
}
