package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// once is for a task with an idempotency key.
func once(value, payload string) func(*v1alpha1.LeasedTask) {
	return func(task *v1alpha1.LeasedTask) { task.Spec.IdempotencyKey, task.Spec.Payload = value, &payload }
}

func alone(value string) func(*v1alpha1.LeasedTask) {
	return func(task *v1alpha1.LeasedTask) { task.Spec.ConcurrencyKey = value }
}

func blocking(task *v1alpha1.LeasedTask) { task.Spec.OnDeadLetter = v1alpha1.DeadLetterBlockKey }

// lock is what the Lease of a key says; nil: there is none.
func (s *scene) lock(kind key.Kind, value string) *key.Lock {
	s.Helper()
	lease := &coordinationv1.Lease{}
	err := admin.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: key.Name(kind, value)}, lease)
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.ok(err)
	return key.Read(lease)
}

func (s *scene) untilUnlocked(kind key.Kind, value string) {
	s.Helper()
	s.ok(s.Poll(s.Context(), patience, func() error {
		if l := s.lock(kind, value); l != nil {
			return fmt.Errorf("key %s is held: %+v", value, l)
		}
		return nil
	}))
}

// completes plays the agent of the task's attempt, which succeeds.
func (s *scene) completes(task *v1alpha1.LeasedTask, result string) {
	s.Helper()
	a := s.agentOf(task)
	s.ok(a.claimTerm())
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted, Result: &result}))
	s.until(task, "completed", in(v1alpha1.PhaseCompleted, 1))
}

// attachedTo reports whether a task is Completed with the result of another, without a run of its own.
func attachedTo(name, result string) func(*v1alpha1.LeasedTask) bool {
	return func(task *v1alpha1.LeasedTask) bool {
		ready := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionReady)
		status := &task.Status
		return status.Phase == v1alpha1.PhaseCompleted && ready.Reason == v1alpha1.ReasonAttached && strings.Contains(ready.Message, "LeasedTask "+name+" ") &&
			status.Result != nil && *status.Result == result && status.Attempt == 0 && status.FencingToken == 0 &&
			len(status.History) == 1 && status.History[0].Reason == "Attached" && status.History[0].PodName == ""
	}
}

func (s *scene) podsOf(task *v1alpha1.LeasedTask) int {
	s.Helper()
	pods := &corev1.PodList{}
	s.ok(admin.List(s.Context(), pods, client.InNamespace(s.namespace), client.MatchingLabels{v1alpha1.TaskLabel: string(task.UID)}))
	return len(pods.Items)
}

func TestTheSecondTaskOfAnIdempotencyKeyAttachesAndSoDoLaterOnes(t *testing.T) {
	s := sideBySide(t, nil)
	first := s.start("first", once("order-7", "a"))
	s.untilGranted(first, 1)
	second := s.start("second", once("order-7", "a"))
	s.until(second, "waiting", waitsFor(v1alpha1.WaitingKeyBusy, "LeasedTask first"))
	s.completes(first, "42")
	s.until(second, "attached", attachedTo("first", "42"))
	s.must(s.podsOf(second) == 0, "a Pod was made for it")
	s.untilEvent(second.UID, "Attached")
	version := s.lock(key.Idempotency, "order-7").ResourceVersion

	s.ok(admin.Delete(t.Context(), first))
	s.ok(admin.Delete(t.Context(), second))
	third := s.start("first", once("order-7", "a")) // also under the same name
	s.until(third, "attached to the one that is gone", attachedTo("first", "42"))
	l := s.lock(key.Idempotency, "order-7")
	s.must(l.ResourceVersion == version && l.Answer.RetentionSeconds == 86400, "lock %+v", l)
}

func TestATaskWithoutSharedKeysHasNoKeyLease(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("plain")
	s.untilGranted(task, 1)
	s.completes(task, "42")
	leases := &coordinationv1.LeaseList{}
	s.ok(admin.List(t.Context(), leases, client.InNamespace(s.namespace)))
	s.must(len(leases.Items) == 1, "%d Leases", len(leases.Items))
	s.must(s.idempotencyKey(task) == string(task.UID), "key %s", s.idempotencyKey(task))
}

func TestTheWorkerFindsTheKeyOfItsTask(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("keyed", once("order-7", "a"))
	s.untilGranted(task, 1)
	s.must(s.idempotencyKey(task) == "order-7", "key %s", s.idempotencyKey(task))
}

func TestAnotherPayloadIsAConflictAtOnceAndLater(t *testing.T) {
	s := sideBySide(t, nil)
	first := s.start("first", once("order-7", "a"))
	s.untilGranted(first, 1)
	conflicts := func(name, why string) {
		t.Helper()
		task := s.start(name, once("order-7", "b"))
		s.until(task, "dead-lettered", in(v1alpha1.PhaseDeadLettered, 0))
		dead := &v1alpha1.DeadLetter{}
		s.ok(admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: task.Status.DeadLetterName}, dead))
		message := dead.Spec.Message
		s.must(dead.Spec.Reason == v1alpha1.ReasonIdempotencyConflict && strings.Contains(message, "LeasedTask first") && strings.Contains(message, "LeasedTask "+name) &&
			strings.Contains(message, why), "dead letter: %s: %s", dead.Spec.Reason, message)
		s.must(s.podsOf(task) == 0 && task.Status.FencingToken == 0 && task.Status.Failures == 0, "status %+v", task.Status)
	}
	conflicts("early", "is under way")
	s.completes(first, "42")
	conflicts("late", "has completed")
}

// TestAKeyFollowsThePayloadOfItsHolder: until its first grant the holder's payload may be changed, and what others are compared with is
// the payload that it has.
func TestAKeyFollowsThePayloadOfItsHolder(t *testing.T) {
	s := sideBySide(t, nil)
	s.untilGranted(s.start("other", alone("db")), 1)
	first := s.start("first", once("order-7", "a"), alone("db"))
	s.until(first, "waiting", waitsFor(v1alpha1.WaitingKeyBusy, "LeasedTask other"))
	stale := s.lock(key.Idempotency, "order-7").Hash
	s.ok(s.edit(first, func(spec *v1alpha1.LeasedTaskSpec) { spec.Payload = new("b") }))
	s.ok(s.Poll(t.Context(), patience, func() error {
		if l := s.lock(key.Idempotency, "order-7"); l == nil || l.Holder != string(first.UID) || l.Hash == stale {
			return fmt.Errorf("the key is held for another payload: %+v", l)
		}
		return nil
	}))
	s.until(s.start("second", once("order-7", "b")), "waiting", waitsFor(v1alpha1.WaitingKeyBusy, "LeasedTask first"))
	s.until(s.start("third", once("order-7", "a")), "dead-lettered", in(v1alpha1.PhaseDeadLettered, 0))
}

func TestAnAnswerIsForgottenAfterItsRetention(t *testing.T) {
	s := sideBySide(t, nil)
	first := s.start("first", once("order-7", "a"), func(task *v1alpha1.LeasedTask) { task.Spec.IdempotencyRetentionSeconds = 2 })
	s.untilGranted(first, 1)
	s.completes(first, "42")
	s.untilUnlocked(key.Idempotency, "order-7")
	second := s.start("second", once("order-7", "b"))
	s.untilGranted(second, 1)
}

func TestAKeyIsFreeWhenItsHolderEndsWithoutASuccess(t *testing.T) {
	for name, end := range map[string]func(*scene, *v1alpha1.LeasedTask){
		"dead-lettered": func(s *scene, task *v1alpha1.LeasedTask) { s.fails(task, "no") },
		"cancelled": func(s *scene, task *v1alpha1.LeasedTask) {
			s.ok(s.edit(task, cancelled))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := set(t, nil)
			first := s.start("first", oneAttempt, once("order-7", "a"), alone("db"))
			s.untilGranted(first, 1)
			second := s.start("second", once("order-7", "a"), alone("db"))
			s.until(second, "waiting", waitsFor(v1alpha1.WaitingKeyBusy, "LeasedTask first"))
			end(s, first)
			s.untilGranted(second, 1)
			s.completes(second, "43")
			s.untilUnlocked(key.Concurrency, "db")
		})
	}
}

func TestAConcurrencyKeyIsForOneTaskAtATime(t *testing.T) {
	s := sideBySide(t, nil)
	const n = 5
	var tasks []*v1alpha1.LeasedTask
	for i := range n {
		tasks = append(tasks, s.start(fmt.Sprintf("task-%d", i), alone("db"), once(fmt.Sprintf("order-%d", i), "")))
	}
	other := s.start("elsewhere", alone("cache"))
	s.until(other, "granted, with another key", in(v1alpha1.PhaseClaimed, 1))
	for done := range n {
		var running []*v1alpha1.LeasedTask
		s.ok(s.Poll(t.Context(), patience, func() error {
			running = nil
			for _, task := range tasks {
				s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(task), task))
				if task.Status.Phase == v1alpha1.PhaseClaimed {
					running = append(running, task)
				}
			}
			if len(running) == 0 {
				return fmt.Errorf("none runs, %d have", done)
			}
			return nil
		}))
		s.must(len(running) == 1, "%d run at once", len(running))
		if done == 0 { // the key is held between attempts, too
			a := s.agentOf(running[0])
			s.ok(a.claimTerm())
			s.ok(a.submit(fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(1))}))
			s.untilGranted(running[0], 2)
		}
		a := s.agentOf(running[0])
		s.ok(a.claimTerm())
		s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted}))
		s.until(running[0], "completed", cluster.IsFinished)
	}
	s.untilUnlocked(key.Concurrency, "db")
}

func TestASuspendedHolderKeepsItsKey(t *testing.T) {
	s := sideBySide(t, nil)
	first := s.start("first", alone("db"))
	s.untilGranted(first, 1)
	s.ok(s.edit(first, suspended(true)))
	s.until(first, "suspended", waitsFor(v1alpha1.WaitingSuspended, ""))
	second := s.start("second", alone("db"))
	s.until(second, "waiting", waitsFor(v1alpha1.WaitingKeyBusy, "LeasedTask first"))
	version, held := second.ResourceVersion, s.lock(key.Concurrency, "db").ResourceVersion
	time.Sleep(2 * time.Second)
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(second), second))
	s.must(second.ResourceVersion == version && s.lock(key.Concurrency, "db").ResourceVersion == held, "a task that waits, or its key, is written again")
	s.ok(s.edit(first, suspended(false)))
	s.untilGranted(first, 2)
}

func TestAHolderThatIsDeletedIsReplacedOnceNothingOfItCanRun(t *testing.T) {
	s := sideBySide(t, nil)
	first, a := s.claimed("first", alone("db"))
	second := s.start("second", alone("db"))
	s.until(second, "waiting", waitsFor(v1alpha1.WaitingKeyBusy, "LeasedTask first"))
	s.ok(admin.Delete(t.Context(), first))
	for range 13 { // no garbage collector runs here: its worker lives on, beyond the lease's duration of ten seconds
		s.ok(a.renew())
		time.Sleep(time.Second)
	}
	s.must(s.lock(key.Concurrency, "db").HolderName == "first", "the key was taken from a worker that lives")
	term := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: mailbox.Name(string(first.UID))}}
	s.ok(admin.Delete(t.Context(), term))
	gone := time.Now()
	s.untilGranted(second, 1)
	if waited := time.Since(gone); waited < 10*time.Second {
		t.Errorf("granted %s after the term of the other was gone: its worker may have run", waited)
	}
}

func TestAKeyChangesHandsAtOnceAlsoIfItsHolderDoesNotStay(t *testing.T) {
	s := sideBySide(t, nil)
	first := s.start("first", alone("db"), func(task *v1alpha1.LeasedTask) { task.Spec.TTLSecondsAfterFinished = new(int32(0)) })
	s.untilGranted(first, 1)
	second := s.start("second", alone("db"))
	s.until(second, "waiting", waitsFor(v1alpha1.WaitingKeyBusy, "LeasedTask first"))
	a := s.agentOf(first)
	s.ok(a.claimTerm())
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted}))
	ended := time.Now()
	s.untilGranted(second, 1)
	if waited := time.Since(ended); waited > 8*time.Second { // the lease's duration is ten
		t.Errorf("granted after %s", waited)
	}
}

// TestATermThatOutlivesItsTaskIsEnded: the task was deleted with its dependents orphaned, say. Nothing else would ever end it.
func TestATermThatOutlivesItsTaskIsEnded(t *testing.T) {
	s := sideBySide(t, nil)
	first := s.start("first", alone("db"))
	s.untilGranted(first, 1)
	second := s.start("second", alone("db"))
	s.until(second, "waiting", waitsFor(v1alpha1.WaitingKeyBusy, "LeasedTask first"))
	a := s.agentOf(first)
	s.ok(admin.Delete(t.Context(), first))
	s.untilGranted(second, 1)
	if err := a.claimTerm(); !apierrors.IsNotFound(err) {
		t.Errorf("the Pod of the deleted task can still claim: %v", err)
	}
}

func TestAKeyThatTheAPIServerDoesNotTakeIsWaitedFor(t *testing.T) {
	s := sideBySide(t, nil)
	none := corev1.ResourceList{"count/leases.coordination.k8s.io": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
	s.ok(admin.Create(t.Context(), quota))
	quota.Status.Hard, quota.Status.Used = none, none
	s.ok(admin.Status().Update(t.Context(), quota)) // the controller-manager's part
	task := s.start("refused", once("order-7", "a"))
	s.until(task, "waiting", waitsFor(v1alpha1.WaitingKeyRefused, "exceeded quota: none"))
	s.ok(admin.Delete(t.Context(), quota))
	s.untilGranted(task, 1)
}

func TestWhatIsRefusedOfKeys(t *testing.T) {
	s := sideBySide(t, nil)
	for want, change := range map[string]func(*v1alpha1.LeasedTask){
		"spec.idempotencyKey": func(task *v1alpha1.LeasedTask) { task.Spec.IdempotencyKey = strings.Repeat("k", 254) },
		"spec.concurrencyKey": func(task *v1alpha1.LeasedTask) { task.Spec.ConcurrencyKey = strings.Repeat("k", 254) },
		"needs idempotencyKey: without one no answer is kept": func(task *v1alpha1.LeasedTask) { task.Spec.IdempotencyRetentionSeconds = 60 },
		"there is no key to block":                            blocking,
		"spec.onDeadLetter":                                   func(task *v1alpha1.LeasedTask) { task.Spec.OnDeadLetter = "Perhaps" },
		"less than or equal to 31536000": func(task *v1alpha1.LeasedTask) {
			task.Spec.IdempotencyKey, task.Spec.IdempotencyRetentionSeconds = "k", 31536001
		},
	} {
		task := cluster.Task(s.namespace, "refused", "true")
		change(task)
		if err := admin.Create(t.Context(), task); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	task := s.start("fixed", once("order-7", "a"), alone("db"), blocking, suspendedAtFirst)
	for what, change := range map[string]func(*v1alpha1.LeasedTaskSpec){
		"spec.idempotencyKey": func(spec *v1alpha1.LeasedTaskSpec) { spec.IdempotencyKey = "other" },
		"spec.concurrencyKey": func(spec *v1alpha1.LeasedTaskSpec) { spec.ConcurrencyKey = "" },
		"spec.onDeadLetter":   func(spec *v1alpha1.LeasedTaskSpec) { spec.OnDeadLetter = "" },
	} {
		if err := s.edit(task, change); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), what) || !strings.Contains(err.Error(), "immutable") {
			t.Errorf("%s may be changed: %v", what, err)
		}
	}
}

func suspendedAtFirst(task *v1alpha1.LeasedTask) { task.Spec.Suspend = new(true) }
