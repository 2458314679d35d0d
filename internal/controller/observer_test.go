package controller

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// watcher is an observer with open eyes, its clock, and whom it woke.
type watcher struct {
	*Observer
	clock *testingclock.FakeClock
	sight *Sight
	woken []string
}

func newWatcher() *watcher {
	w := &watcher{clock: testingclock.NewFakeClock(start), sight: NewSight()}
	w.Observer = NewObserver(w.clock, w.sight)
	w.WakeWith(func(task types.NamespacedName) { w.woken = append(w.woken, task.Name) })
	w.sight.Answered(start)
	return w
}

// pass lets time pass while the API server answers.
func (w *watcher) pass(d time.Duration) {
	for end := w.clock.Now().Add(d); w.clock.Now().Before(end); {
		w.clock.Step(time.Second)
		w.sight.Answered(w.clock.Now())
	}
}

func (w *watcher) see(task *v1alpha1.LeasedTask, term *fencing.Term) time.Duration {
	return w.See(task, term, w.clock.Now()).Sub(start)
}

func taskNamed(name, uid string) *v1alpha1.LeasedTask {
	return &v1alpha1.LeasedTask{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid)}}
}

// heldTerm is a claimed term after so many renewals.
func heldTerm(renewals int) *fencing.Term {
	claim := fencing.ParseClaim("nonce/node/uid")
	return &fencing.Term{UID: "lease", Holder: "pod", Attempt: 1, Duration: 10 * time.Second, GrantTime: start, Claim: &claim,
		RenewTime: start.Add(time.Duration(renewals) * time.Second), ResourceVersion: fmt.Sprint(1000 + renewals)}
}

func TestObserverRemembersSinceWhen(t *testing.T) {
	w := newWatcher()
	task := taskNamed("a", "uid-a")
	if got := w.see(task, nil); got != 0 {
		t.Errorf("absent since %s, want 0s", got)
	}
	w.pass(3 * time.Second)
	if got := w.see(task, nil); got != 0 {
		t.Errorf("still absent since %s, want 0s", got)
	}
	if got := w.see(task, heldTerm(0)); got != 3*time.Second {
		t.Errorf("claimed since %s, want 3s", got)
	}
	w.pass(2 * time.Second)
	if got := w.see(task, heldTerm(1)); got != 5*time.Second {
		t.Errorf("renewed since %s, want 5s", got)
	}
	w.pass(2 * time.Second)
	revoked := heldTerm(1)
	revoked.Holder, revoked.Ended = "", revoked.ResourceVersion
	if got := w.see(task, revoked); got != 5*time.Second {
		t.Errorf("revoked: unchanged since %s, want 5s: a revoke tells nothing about the holder's life", got)
	}
}

// TestObserverDoesNotTakeALeaseBeforeItsGrantForALostOne: another leader granted it meanwhile, and this process has seen nothing of it.
func TestObserverDoesNotTakeALeaseBeforeItsGrantForALostOne(t *testing.T) {
	w := newWatcher()
	task := taskNamed("a", "uid-a")
	w.see(task, nil)
	w.pass(9 * time.Second)
	task.Status.FencingToken = 1<<44 + 1
	if got := w.see(task, nil); got != 9*time.Second {
		t.Errorf("absent under a token since %s, want 9s", got)
	}
	w.pass(time.Second)
	if got := w.see(task, nil); got != 9*time.Second {
		t.Errorf("still absent since %s, want 9s", got)
	}
}

// TestObserverSeesThatARenewalWasUndone: a request that arrives twice may put back an old renewTime while this process is blind.
func TestObserverSeesThatARenewalWasUndone(t *testing.T) {
	w := newWatcher()
	task := taskNamed("a", "uid-a")
	term, again := heldTerm(0), heldTerm(0)
	term.ResourceVersion, again.ResourceVersion = "5", "9"
	w.see(task, term)
	w.pass(9 * time.Second)
	if got := w.see(task, again); got != 9*time.Second {
		t.Errorf("written since, with the same renewTime: unchanged since %s, want 9s", got)
	}
	w.pass(time.Second)
	revoked := heldTerm(0)
	revoked.Holder, revoked.ResourceVersion, revoked.Ended = "", "10", "9"
	if got := w.see(task, revoked); got != 9*time.Second {
		t.Errorf("revoked: unchanged since %s, want 9s", got)
	}
}

// TestObserverHoldsNoTermUnchangedThatWasRevokedUnseen plays a holder that was heard at 0 s, renews at 15 s while this process
// sees nothing, is told to stop, does not, and is revoked at 16 s. Its next attempt may start D after what the revoke proves.
func TestObserverHoldsNoTermUnchangedThatWasRevokedUnseen(t *testing.T) {
	const d, seen, gap = 30 * time.Second, 0 * time.Second, 16 * time.Second
	tests := map[string]struct {
		renewals int    // when it was revoked
		ended    string // the version that the revoke says it ended; this process saw 5
		want     time.Duration
	}{
		"revoked as it was seen":                                     {0, "5", seen},
		"another renewal stands":                                     {1, "6", gap},
		"a renewal that was undone, and another version was revoked": {0, "7", gap},
		"nobody knows what version was revoked":                      {0, "", gap},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWatcher()
			task, term := taskNamed("a", "uid-a"), heldTerm(0)
			term.ResourceVersion, term.Duration = "5", d
			w.see(task, term)
			w.pass(gap)
			revoked := heldTerm(tc.renewals)
			revoked.Holder, revoked.ResourceVersion, revoked.Duration, revoked.Ended = "", "8", d, tc.ended
			if got := w.see(task, revoked); got != tc.want {
				t.Errorf("unchanged since %s, want %s", got, tc.want)
			}
			w.pass(seen + d - gap)
			release, left := fencing.Released(revoked, false, w.See(task, revoked, w.clock.Now()), w.clock.Now())
			if isEarly := tc.want > 0 && release != fencing.NotReleased; isEarly || left != tc.want {
				t.Errorf("30 s after the sight of 5: %s, %s left; want %s", release, left, tc.want)
			}
		})
	}
}

func TestObserverIsTaughtByTheWatch(t *testing.T) {
	w := newWatcher()
	key := types.NamespacedName{Namespace: "default", Name: "a"}
	w.SeeLease("uid-a", key, heldTerm(0), w.clock.Now())
	w.pass(4 * time.Second)
	if got := w.see(taskNamed("a", "uid-a"), heldTerm(0)); got != 0 {
		t.Errorf("a standby that becomes leader has seen the term since %s, want 0s", got)
	}
}

func TestObserverWakesOnceTheDurationIsOver(t *testing.T) {
	w := newWatcher()
	w.see(taskNamed("a", "uid-a"), heldTerm(0))
	w.pass(9 * time.Second)
	w.see(taskNamed("a", "uid-a"), heldTerm(1)) // renewed
	w.pass(9 * time.Second)
	if len(w.woken) > 0 {
		t.Fatalf("woke %v although it was renewed", w.woken)
	}
	w.pass(time.Second)
	if diff := cmp.Diff([]string{"a"}, w.woken); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}

func TestObserverDoesNotWakeForUnclaimedTerms(t *testing.T) {
	w := newWatcher()
	granted := heldTerm(0)
	granted.Claim = nil
	w.see(taskNamed("a", "uid-a"), granted)
	w.pass(time.Hour)
	if len(w.woken) > 0 {
		t.Errorf("woke %v", w.woken)
	}
}

func TestObserverWakesWhenAPassAsksForIt(t *testing.T) {
	w := newWatcher()
	task := taskNamed("a", "uid-a")
	w.see(task, heldTerm(0))
	w.WakeIn(task, 2*time.Second)
	w.WakeIn(task, 4*time.Second) // the later one counts
	w.pass(3 * time.Second)
	if len(w.woken) > 0 {
		t.Fatalf("woke %v too early", w.woken)
	}
	w.pass(30 * time.Second)
	if diff := cmp.Diff([]string{"a"}, w.woken); diff != "" {
		t.Errorf("woken (-want +got):\n%s", diff)
	}
}

func TestCase36ObserverForgets(t *testing.T) {
	key := types.NamespacedName{Namespace: "default", Name: "a"}
	tests := map[string]func(*watcher){
		"a task that is gone": func(w *watcher) {
			w.see(taskNamed("a", "uid-a"), heldTerm(0))
			w.ForgetTask(key)
		},
		"a task that is gone, and its Lease after it": func(w *watcher) {
			w.see(taskNamed("a", "uid-a"), heldTerm(0))
			w.ForgetTask(key)
			w.SeeLease("uid-a", key, heldTerm(1), w.clock.Now())
			w.LeaseGone("uid-a")
		},
		"on a standby, which makes no passes": func(w *watcher) {
			w.SeeLease("uid-a", key, heldTerm(0), w.clock.Now())
			w.LeaseGone("uid-a")
		},
		"a task whose name another took": func(w *watcher) {
			w.see(taskNamed("a", "uid-a"), heldTerm(0))
			w.see(taskNamed("a", "uid-b"), nil)
			w.ForgetTask(key)
		},
		"what it never knew": func(w *watcher) {
			w.ForgetTask(key)
			w.LeaseGone("uid-a")
		},
	}
	for name, do := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWatcher()
			do(w)
			if len(w.seen) > 0 || len(w.names) > 0 {
				t.Errorf("still known: %v, %v", w.seen, w.names)
			}
			w.pass(time.Minute)
			if len(w.woken) > 0 {
				t.Errorf("woke %v", w.woken)
			}
		})
	}
}

func TestLeaseGoneStartsTheWaitAnew(t *testing.T) {
	w := newWatcher()
	task := taskNamed("a", "uid-a")
	w.see(task, heldTerm(0))
	w.pass(5 * time.Second)
	w.LeaseGone("uid-a")
	if got := w.see(task, nil); got != 5*time.Second {
		t.Errorf("absent since %s, want 5s", got)
	}
}

// TestCase18ObserverWhileBlind: what this process could not see is not held against a worker.
func TestCase18ObserverWhileBlind(t *testing.T) {
	w := newWatcher()
	task := taskNamed("a", "uid-a")
	w.see(task, heldTerm(0))
	w.clock.Step(time.Minute) // no answer meanwhile
	if got := w.see(task, heldTerm(0)); got != time.Minute {
		t.Errorf("while blind, unchanged since %s, want 1m0s", got)
	}
	w.sight.Answered(w.clock.Now())
	w.pass(4 * time.Second)
	if got := w.see(task, heldTerm(0)); got != time.Minute {
		t.Errorf("after the return, unchanged since %s, want 1m0s", got)
	}
}

func TestObserverRemembersTheClaimThroughRenewals(t *testing.T) {
	w := newWatcher()
	task := taskNamed("a", "uid-a")
	granted := heldTerm(0)
	granted.Claim = nil
	w.see(task, granted)
	if got := w.ClaimedSince(task, w.clock.Now()); !got.IsZero() {
		t.Errorf("not claimed, and claimed since %s", got)
	}
	w.pass(3 * time.Second)
	w.see(task, heldTerm(0))
	w.pass(3 * time.Second)
	w.see(task, heldTerm(1))
	if got := w.ClaimedSince(task, w.clock.Now()).Sub(start); got != 3*time.Second {
		t.Errorf("claimed since %s, want 3s", got)
	}
	another := heldTerm(0)
	claim := fencing.ParseClaim("nonce-2/node/uid")
	another.Claim = &claim
	w.see(task, another)
	if got := w.ClaimedSince(task, w.clock.Now()).Sub(start); got != 6*time.Second {
		t.Errorf("claimed by another since %s, want 6s", got)
	}
}

// TestObserverRemembersTheStop: since this process saw it, for this claim; and nobody is hurried who could not be seen.
func TestObserverRemembersTheStop(t *testing.T) {
	w := newWatcher()
	task := taskNamed("a", "uid-a")
	stopped := func() time.Duration { return w.StoppedSince(task, w.clock.Now()).Sub(start) }
	stop := func(reason string) *fencing.Term {
		term := heldTerm(0)
		term.Stop = &fencing.Stop{Reason: reason}
		return term
	}
	w.see(task, heldTerm(0))
	if got := w.StoppedSince(task, w.clock.Now()); !got.IsZero() {
		t.Errorf("not stopped, and stopped since %s", got)
	}
	w.pass(3 * time.Second)
	since := w.see(task, stop("A"))
	w.pass(3 * time.Second)
	w.see(task, stop("A"))
	if got := stopped(); got != 3*time.Second {
		t.Errorf("stopped since %s, want 3s", got)
	}
	if since != 0 {
		t.Errorf("a stop counts as a renewal: seen since %s", since)
	}
	w.see(task, stop("B"))
	if got := stopped(); got != 6*time.Second {
		t.Errorf("stopped otherwise since %s, want 6s", got)
	}
	w.clock.Step(time.Minute) // blind
	if got := stopped(); got != 66*time.Second {
		t.Errorf("while blind: stopped since %s, want now", got)
	}
	w.sight.Answered(w.clock.Now())
	w.pass(time.Second)
	if got := stopped(); got != 66*time.Second {
		t.Errorf("after that: stopped since %s, want 66s", got)
	}
	another := stop("B")
	claim := fencing.ParseClaim("nonce-2/node/uid")
	another.Claim = &claim
	w.see(task, another)
	if got := stopped(); got != 67*time.Second {
		t.Errorf("another claim, stopped since %s, want 67s", got)
	}
}
