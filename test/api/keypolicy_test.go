package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// Tasks that are made within one second are ordered by name, so these are numbered.

func replacing(task *v1alpha1.LeasedTask) { task.Spec.KeyPolicy = v1alpha1.KeyPolicyReplace }
func rejecting(task *v1alpha1.LeasedTask) { task.Spec.KeyPolicy = v1alpha1.KeyPolicyReject }

// supersededBy reports whether a task is Cancelled because the other one replaces it, and charged to no budget.
func supersededBy(other string) func(*v1alpha1.LeasedTask) bool {
	return func(task *v1alpha1.LeasedTask) bool {
		ready := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionReady)
		return task.Status.Phase == v1alpha1.PhaseCancelled && ready.Reason == v1alpha1.ReasonSuperseded && strings.Contains(ready.Message, "LeasedTask "+other+",") &&
			task.Status.Failures == 0 && task.Status.Disruptions == 0
	}
}

// never ran: no token, no Pod.
func (s *scene) mustNotHaveRun(task *v1alpha1.LeasedTask) {
	s.Helper()
	s.must(task.Status.FencingToken == 0 && task.Status.Attempt == 0 && s.podsOf(task) == 0, "it ran: %+v", task.Status)
}

func stoppedFor(reason string) fencing.Submission {
	return fencing.Submission{Outcome: fencing.Cancelled, Reason: reason, ExitCode: new(int32(143))}
}

func TestReplaceStopsTheHolderAndRunsOnceItHasStopped(t *testing.T) {
	s := sideBySide(t, nil)
	first, a := s.claimed("v1", alone("site"))
	second := s.start("v2", alone("site"), replacing)
	s.until(second, "next", waitsFor(v1alpha1.WaitingKeyBusy, "this task is to have it next"))
	stop := a.untilTold(fencing.ReasonSuperseded)
	s.must(strings.Contains(stop.Message, "LeasedTask v2"), "the worker is told %q", stop.Message)
	time.Sleep(time.Second)
	s.ok(a.renew())
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(second), second))
	s.must(second.Status.FencingToken == 0, "it was granted beside the other one: %+v", second.Status)

	s.ok(a.submit(stoppedFor(fencing.ReasonSuperseded)))
	s.until(first, "superseded", supersededBy("v2"))
	s.must(first.Status.History[0].Outcome == v1alpha1.AttemptStopped && first.Status.DeadLetterName == "" && len(first.Status.History) == 1, "history %+v", first.Status.History)
	s.untilEvent(first.UID, "Superseded")
	s.untilGranted(second, 1)
	s.completes(second, "42")
	s.untilUnlocked(key.Concurrency, "site")
}

func TestASuccessThatIsSubmittedFirstWinsOverItsReplacement(t *testing.T) {
	s := sideBySide(t, nil)
	first, a := s.claimed("v1", alone("site"))
	second := s.start("v2", alone("site"), replacing)
	a.untilTold(fencing.ReasonSuperseded)
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted, Result: new("41")}))
	s.until(first, "completed", in(v1alpha1.PhaseCompleted, 1))
	s.untilGranted(second, 1)
}

// TestOfSeveralReplacementsTheNewestSurvives, whatever the others are: holder, waiter, or replacement in its turn.
func TestOfSeveralReplacementsTheNewestSurvives(t *testing.T) {
	s := sideBySide(t, nil)
	holder, a := s.claimed("v1", alone("site"))
	queued := s.start("v2", alone("site"))
	s.until(queued, "waiting", waitsFor(v1alpha1.WaitingKeyBusy, "LeasedTask v1"))
	between := s.start("v3", alone("site"), replacing)
	newest := s.start("v4", alone("site"), replacing)
	later := s.start("v5", alone("site"))
	for _, older := range []*v1alpha1.LeasedTask{queued, between} {
		s.until(older, "superseded", func(task *v1alpha1.LeasedTask) bool { return supersededBy("v4")(task) || supersededBy("v3")(task) })
		s.mustNotHaveRun(older)
	}
	a.untilTold(fencing.ReasonSuperseded)
	s.ok(a.submit(stoppedFor(fencing.ReasonSuperseded)))
	s.untilGranted(newest, 1)
	s.until(holder, "superseded", func(task *v1alpha1.LeasedTask) bool { return task.Status.Phase == v1alpha1.PhaseCancelled })
	s.completes(newest, "42")
	s.until(later, "granted, for it is newer", in(v1alpha1.PhaseClaimed, 1))
	s.completes(later, "43")
	s.untilUnlocked(key.Concurrency, "site")
}

func TestAHolderOfWhichNothingRunsIsReplacedAtOnce(t *testing.T) {
	for name, rest := range map[string]func(*scene, *v1alpha1.LeasedTask){
		"suspended": func(s *scene, task *v1alpha1.LeasedTask) {
			s.ok(s.edit(task, suspended(true)))
			s.until(task, "suspended", waitsFor(v1alpha1.WaitingSuspended, ""))
		},
		"in back-off": func(s *scene, task *v1alpha1.LeasedTask) {
			s.fails(task, "try later")
			s.until(task, "in back-off", waitsFor(v1alpha1.WaitingBackoff, ""))
		},
		"granted, not claimed": func(*scene, *v1alpha1.LeasedTask) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := set(t, nil)
			first := s.start("v1", alone("site"), func(task *v1alpha1.LeasedTask) {
				task.Spec.Retry = v1alpha1.RetrySpec{Backoff: v1alpha1.BackoffSpec{InitialSeconds: 600, MaxSeconds: 600, Jitter: v1alpha1.JitterNone}}
			})
			s.untilGranted(first, 1)
			rest(s, first)
			second := s.start("v2", alone("site"), replacing)
			s.untilGranted(second, 1)
			s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(first), first))
			ready := meta.FindStatusCondition(first.Status.Conditions, v1alpha1.ConditionReady)
			s.must(first.Status.Phase == v1alpha1.PhaseCancelled && ready.Reason == v1alpha1.ReasonSuperseded, "%s: %+v", cluster.Describe(first), ready)
		})
	}
}

// TestARequestStandsWhateverBecomesOfWhoeverMadeIt: the holder ends all the same, and the key is for whoever is next.
func TestARequestStandsWhateverBecomesOfWhoeverMadeIt(t *testing.T) {
	for name, end := range map[string]func(*scene, *v1alpha1.LeasedTask) error{
		"deleted":   func(s *scene, task *v1alpha1.LeasedTask) error { return admin.Delete(s.Context(), task) },
		"cancelled": func(s *scene, task *v1alpha1.LeasedTask) error { return s.edit(task, cancelled) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := set(t, nil)
			first, a := s.claimed("v1", alone("site"))
			second := s.start("v2", alone("site"), replacing)
			third := s.start("v3", alone("site"))
			a.untilTold(fencing.ReasonSuperseded)
			s.ok(end(s, second))
			s.ok(a.submit(stoppedFor(fencing.ReasonSuperseded)))
			s.until(first, "superseded", supersededBy("v2"))
			s.untilGranted(third, 1)
			s.completes(third, "42")
			s.untilUnlocked(key.Concurrency, "site")
		})
	}
}

// TestAKeyThatIsPromisedIsFreeOnceItsTaskIsGone: it never had a process, so nobody waits for one.
func TestAKeyThatIsPromisedIsFreeOnceItsTaskIsGone(t *testing.T) {
	s := sideBySide(t, nil)
	first, a := s.claimed("v1", alone("site"))
	second := s.start("v2", alone("site"), replacing)
	a.untilTold(fencing.ReasonSuperseded)
	s.ok(s.edit(second, suspended(true)))
	s.ok(a.submit(stoppedFor(fencing.ReasonSuperseded)))
	s.until(first, "superseded", supersededBy("v2"))
	s.ok(s.Poll(t.Context(), patience, func() error { // before, the third one would be told of the first, for two minutes
		if l := s.lock(key.Concurrency, "site"); l.Holder != "" {
			return fmt.Errorf("the key is not yet promised: %s has it", l.HolderName)
		}
		return nil
	}))
	third := s.start("v3", alone("site"))
	s.until(third, "behind the one that is suspended", waitsFor(v1alpha1.WaitingKeyBusy, "LeasedTask v2 is to have"))
	s.ok(admin.Delete(t.Context(), second))
	s.untilGranted(third, 1)
}

func TestAKeyThatIsBlockedIsNotReplaced(t *testing.T) {
	s := sideBySide(t, nil)
	_, dead := s.die("v1", blocking, alone("site"))
	second := s.start("v2", alone("site"))
	s.until(second, "blocked", waitsFor(v1alpha1.WaitingKeyBlocked, "DeadLetter "+dead.Name))
	third := s.start("v3", alone("site"), replacing)
	s.until(third, "blocked", waitsFor(v1alpha1.WaitingKeyBlocked, "DeadLetter "+dead.Name))
	s.until(second, "superseded", supersededBy("v3"))
	s.mustNotHaveRun(second)
	s.ok(s.ask(admin, dead, `{"request": 1}`))
	replay := s.replayOf(s.untilAnswered(dead, 1))
	s.untilGranted(replay, 1)
	s.completes(replay, "41")
	s.untilGranted(third, 1)
}

func TestRejectDoesNotRunBesideAnotherTask(t *testing.T) {
	s := sideBySide(t, nil)
	first := s.start("first", alone("db"), rejecting)
	s.until(first, "granted: the key was free", in(v1alpha1.PhaseClaimed, 1))
	second := s.start("second", alone("db"), rejecting)
	s.until(second, "rejected", in(v1alpha1.PhaseDeadLettered, 0))
	s.mustNotHaveRun(second)
	dead := &v1alpha1.DeadLetter{}
	s.ok(admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: second.Status.DeadLetterName}, dead))
	s.must(dead.Spec.Reason == v1alpha1.ReasonKeyRejected && strings.Contains(dead.Spec.Message, `LeasedTask first has the concurrencyKey "db"`), "dead letter %+v", dead.Spec)
	s.must(second.Status.Failures == 0 && second.Status.Disruptions == 0, "charged: %+v", second.Status)
	ready := meta.FindStatusCondition(second.Status.Conditions, v1alpha1.ConditionReady)
	s.must(ready.Reason == v1alpha1.ReasonKeyRejected && meta.IsStatusConditionTrue(second.Status.Conditions, v1alpha1.ConditionStalled), "conditions %+v", second.Status.Conditions)

	// Whoever replays it has decided that it is to run: it waits.
	s.ok(s.ask(admin, dead, `{"request": 1}`))
	replay := s.replayOf(s.untilAnswered(dead, 1))
	s.until(replay, "waiting", waitsFor(v1alpha1.WaitingKeyBusy, "LeasedTask first"))
	s.completes(first, "42")
	s.untilGranted(replay, 1)
}

// TestRejectWaitsForAKeyThatIsAboutToBeFree: whoever has seen that the holder has finished may start the next one.
func TestRejectWaitsForAKeyThatIsAboutToBeFree(t *testing.T) {
	s := sideBySide(t, nil)
	previous := s.start("run-0", alone("db"), rejecting)
	for i := range 8 {
		s.untilGranted(previous, 1)
		s.completes(previous, "42")
		previous = s.start("run-"+string(rune('1'+i)), alone("db"), rejecting)
	}
	s.untilGranted(previous, 1)
	s.ok(admin.Delete(t.Context(), previous)) // its worker may run on: the key is not free, but will be
	next := s.start("run-9", alone("db"), rejecting)
	s.until(next, "waiting", waitsFor(v1alpha1.WaitingKeyBusy, "LeasedTask "+previous.Name))
	s.untilGranted(next, 1)
}

func TestWhatIsRefusedOfKeyPolicies(t *testing.T) {
	s := sideBySide(t, nil)
	for want, change := range map[string]func(*v1alpha1.LeasedTask){
		"spec.keyPolicy: Invalid value":                                      replacing,
		"needs concurrencyKey: there is no key that another task could have": func(task *v1alpha1.LeasedTask) { rejecting(task); task.Spec.IdempotencyKey = "k" },
		`supported values: "Queue", "Replace", "Reject"`: func(task *v1alpha1.LeasedTask) {
			task.Spec.ConcurrencyKey, task.Spec.KeyPolicy = "k", "Perhaps"
		},
	} {
		task := cluster.Task(s.namespace, "refused", "true")
		change(task)
		if err := admin.Create(t.Context(), task); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "spec.keyPolicy") {
			t.Errorf("want %q: %v", want, err)
		}
	}
	task := s.start("fixed", alone("db"), suspendedAtFirst)
	for _, policy := range []v1alpha1.KeyPolicy{v1alpha1.KeyPolicyReplace, v1alpha1.KeyPolicyQueue} {
		err := s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) { spec.KeyPolicy = policy })
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.keyPolicy") || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("%s can be set later: %v", policy, err)
		}
	}
}
