package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/queue"
)

// turnsWorld is Turns on a clock of its own, and who was woken.
type turnsWorld struct {
	*testing.T
	*Turns
	clock  *clocktesting.FakeClock
	queue  *v1alpha1.TaskQueue
	woken  []string
	rv     int
	tasks  map[string]*v1alpha1.LeasedTask
	leases map[string]*fencing.Term
}

// newTurns are seeded Turns of a queue with the given concurrency.
func newTurns(t *testing.T, concurrency int32) *turnsWorld {
	w := &turnsWorld{T: t, clock: clocktesting.NewFakeClock(start), rv: 100, tasks: map[string]*v1alpha1.LeasedTask{}, leases: map[string]*fencing.Term{},
		queue: &v1alpha1.TaskQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bulk", ResourceVersion: "1", Generation: 1},
			Spec: v1alpha1.TaskQueueSpec{Concurrency: concurrency}}}
	w.Turns = NewTurns(w.clock)
	w.WakeWith(func(task types.NamespacedName) { w.woken = append(w.woken, task.Name) })
	w.begin()
	return w
}

func (w *turnsWorld) version() string { w.rv++; return fmt.Sprint(w.rv) }

// task is a task of the queue, in its latest version.
func (w *turnsWorld) task(name string) *v1alpha1.LeasedTask {
	if w.tasks[name] == nil {
		w.tasks[name] = &v1alpha1.LeasedTask{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid of " + name),
			ResourceVersion: w.version(), CreationTimestamp: metav1.NewTime(start)},
			Spec: v1alpha1.LeasedTaskSpec{QueueName: "bulk"}, Status: v1alpha1.LeasedTaskStatus{Phase: v1alpha1.PhaseAvailable}}
	}
	return w.tasks[name]
}

// is puts a task into a phase.
func (w *turnsWorld) is(name string, phase v1alpha1.Phase) *v1alpha1.LeasedTask {
	next := w.task(name).DeepCopy()
	next.ResourceVersion, next.Status.Phase = w.version(), phase
	w.tasks[name] = next
	return next
}

// term is the task's term as it stands from now on; open or revoked.
func (w *turnsWorld) term(isOpen bool) *fencing.Term {
	term := &fencing.Term{ResourceVersion: w.version()}
	if isOpen {
		term.Holder = "pod"
	}
	return term
}

func (w *turnsWorld) asks(names ...string) (admitted []string) {
	for _, name := range names {
		if w.Ask(w.task(name), w.queue).Admitted {
			admitted = append(admitted, name)
		}
	}
	return admitted
}

func (w *turnsWorld) wants(what string, want, got []string) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (w *turnsWorld) counts(pending, running int) {
	w.Helper()
	c := w.lines[client.ObjectKeyFromObject(w.queue)].queue.Counts(start)
	if c.Pending != pending || c.Running != running {
		w.Errorf("%d wait and %d hold, want %d and %d", c.Pending, c.Running, pending, running)
	}
}

func TestATaskHoldsFromItsAdmissionUntilWhatWasSeenSaysThatItIsOver(t *testing.T) {
	w := newTurns(t, 1)
	w.wants("admitted", []string{"a", "a"}, w.asks("a", "b", "c", "a"))
	w.counts(2, 1)
	w.See(w.task("a"), w.term(true)) // granted; its status is not written yet
	old := w.task("a")
	w.See(w.is("a", v1alpha1.PhaseClaimed), w.term(true))
	w.counts(2, 1)
	w.See(old, w.term(true)) // by a cache that is late
	w.Leave(old)             // and so is the plan that is made of it
	w.wants("woken while it runs", nil, w.woken)

	w.See(w.is("a", v1alpha1.PhaseExpired), w.term(false)) // revoked: its process may still run
	w.counts(2, 1)
	w.See(w.is("a", v1alpha1.PhaseAvailable), nil)
	w.wants("woken after", []string{"b"}, w.woken)
	w.counts(1, 1)
}

func TestAGrantThatIsNotOnRecordHoldsByItsLease(t *testing.T) {
	w := newTurns(t, 1)
	w.asks("a", "b")
	granted := w.term(true)
	w.See(w.task("a"), granted)
	w.Leave(w.task("a")) // suspended, say, before the grant was recorded
	w.counts(1, 1)
	if !w.IsGranted(w.task("a")) {
		t.Error("a cache that does not have the Lease yet would be believed")
	}
	w.See(w.task("a"), w.term(false))
	w.See(w.task("a"), granted) // late
	w.wants("woken", []string{"b"}, w.woken)
}

func TestAPlaceThatIsNotUsedIsGivenBack(t *testing.T) {
	w := newTurns(t, 1)
	w.asks("a", "b")
	w.Leave(w.task("a"))
	w.wants("woken", []string{"b"}, w.woken)
	w.wants("admitted later", nil, w.asks("a"))
	w.counts(1, 1)
}

// TestWhatStopsAQueueTakesBackTheTurnsThatWereNotUsed: c was let start, and its pass comes after. What was granted goes on, also if its
// status is not written yet.
func TestWhatStopsAQueueTakesBackTheTurnsThatWereNotUsed(t *testing.T) {
	for name, stop := range map[string]func(*turnsWorld){
		"paused": func(w *turnsWorld) {
			w.queue = w.queue.DeepCopy()
			w.queue.ResourceVersion, w.queue.Generation, w.queue.Spec.Paused = "2", 2, v1alpha1.PauseHold
		},
		"its breaker opens": func(w *turnsWorld) {
			w.Observe(w.task("a"), queue.Result{ID: "uid of a", Outcome: queue.Failed, Fingerprint: "x", Started: start})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTurns(t, 3)
			w.queue.Spec.Breaker = v1alpha1.BreakerSpec{SameFailures: 1, OpenSeconds: 10}
			w.wants("admitted", []string{"a", "b", "c"}, w.asks("a", "b", "c", "d"))
			w.See(w.is("a", v1alpha1.PhaseClaimed), w.term(true))
			w.See(w.task("b"), w.term(true))
			stop(w)
			w.wants("admitted after", nil, w.asks("c", "d"))
			w.counts(2, 2)
			w.See(w.is("b", v1alpha1.PhaseClaimed), w.term(true))
			w.counts(2, 2)
			w.wants("woken", nil, w.woken)
		})
	}
}

func TestWhoIsFinishedDeletedOrGoneHoldsNothing(t *testing.T) {
	for name, ends := range map[string]func(*turnsWorld){
		"finished": func(w *turnsWorld) { w.See(w.is("a", v1alpha1.PhaseCompleted), w.term(true)) },
		"deleting": func(w *turnsWorld) {
			w.is("a", v1alpha1.PhaseRunning).DeletionTimestamp = &metav1.Time{Time: start}
			w.See(w.task("a"), w.term(true))
		},
		"gone": func(w *turnsWorld) { w.Forget(types.NamespacedName{Namespace: "default", Name: "a"}) },
		"replaced by one of its name": func(w *turnsWorld) {
			w.is("a", v1alpha1.PhaseAvailable).UID = "another"
			w.See(w.task("a"), nil)
		},
		"in another queue": func(w *turnsWorld) {
			w.is("a", v1alpha1.PhaseAvailable).Spec.QueueName = "other"
			w.See(w.task("a"), nil)
		},
		"in no queue": func(w *turnsWorld) {
			w.is("a", v1alpha1.PhaseAvailable).Spec.QueueName = ""
			w.See(w.task("a"), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTurns(t, 1)
			w.T = t
			w.asks("a", "b")
			w.See(w.is("a", v1alpha1.PhaseRunning), w.term(true))
			late := w.task("a")
			ends(w)
			w.wants("woken", []string{"b"}, w.woken)
			w.counts(0, 1)
			if name == "replaced by one of its name" {
				w.asks("a")
				w.See(late, w.term(true)) // of the task before
				w.counts(1, 1)
				if w.Ask(late, w.queue).Admitted {
					t.Error("a task that is gone is let start")
				}
			}
		})
	}
}

func TestAChangedQueueIsLearntOfOnceAndADeletedOneLetsNobodyStart(t *testing.T) {
	w := newTurns(t, 1)
	w.asks("a", "b", "c")
	raised := w.queue.DeepCopy()
	raised.ResourceVersion, raised.Generation, raised.Spec.Concurrency = "2", 2, 2
	w.Learn(raised)
	w.wants("woken by a higher limit", []string{"b"}, w.woken)
	w.Learn(w.queue) // late
	w.counts(1, 2)

	w.QueueGone(client.ObjectKeyFromObject(w.queue))
	w.Leave(w.task("a"))
	w.wants("woken after the queue is gone", []string{"b"}, w.woken)
	w.See(w.is("b", v1alpha1.PhaseRunning), w.term(true))
	again := w.queue.DeepCopy()
	again.ResourceVersion, again.UID = "300", "another"
	w.Learn(again)
	w.wants("woken while b holds the capacity of the new queue", []string{"b"}, w.woken)
	w.See(w.is("b", v1alpha1.PhaseCompleted), nil)
	w.wants("woken after", []string{"b", "c"}, w.woken)
}

// TestAWrittenStatusIsNoReasonToLearnTheLimitsAgain: of ten thousand tenants each would be given its share anew, every few seconds.
func TestAWrittenStatusIsNoReasonToLearnTheLimitsAgain(t *testing.T) {
	w := newTurns(t, 1)
	w.asks("a", "b")
	written := w.queue.DeepCopy()
	written.ResourceVersion, written.Spec.Concurrency = "2", 2 // by which the test sees whether it is looked at
	w.Learn(written)
	w.wants("woken", nil, w.woken)
	changed := written.DeepCopy()
	changed.ResourceVersion, changed.Generation = "3", 2
	w.Learn(changed)
	w.wants("woken by a change", []string{"b"}, w.woken)
}

// TestAQueueThatWasMadeAnewHasABreakerOfItsOwn: whether or not it was seen to be gone.
func TestAQueueThatWasMadeAnewHasABreakerOfItsOwn(t *testing.T) {
	for name, isSeen := range map[string]bool{"seen to be gone": true, "made again at once": false} {
		t.Run(name, func(t *testing.T) {
			w := newTurns(t, 2)
			w.queue.UID, w.queue.Spec.Breaker = "one", v1alpha1.BreakerSpec{SameFailures: 1}
			w.asks("a")
			w.See(w.is("a", v1alpha1.PhaseRunning), w.term(true))
			w.Observe(w.task("a"), queue.Result{ID: "uid of a", Outcome: queue.Failed, Fingerprint: "x", Started: start})
			w.wants("admitted", nil, w.asks("b"))
			if isSeen {
				w.QueueGone(client.ObjectKeyFromObject(w.queue))
			}
			again := w.queue.DeepCopy()
			again.ResourceVersion, again.UID = "300", "another"
			if is, _ := w.Learn(again); is.Breaker.State != queue.Closed {
				t.Errorf("%+v", is.Breaker)
			}
			w.wants("woken", []string{"b"}, w.woken)
		})
	}
}

func TestNothingIsKeptOfAQueueThatIsGoneAndHasNoTasks(t *testing.T) {
	w := newTurns(t, 1)
	w.asks("a", "b")
	w.QueueGone(client.ObjectKeyFromObject(w.queue))
	w.Leave(w.task("a"))
	w.Leave(w.task("b"))
	w.asks("c") // by a cache that still has it; the pass over the queue that this asks for finds out
	w.Leave(w.task("c"))
	w.QueueGone(client.ObjectKeyFromObject(w.queue))
	if len(w.lines)+len(w.places) > 0 {
		t.Errorf("lines %v, places %v", w.lines, w.places)
	}
}

func TestATaskWithoutAQueueHasNoPlace(t *testing.T) {
	w := newTurns(t, 1)
	task := w.is("a", v1alpha1.PhaseRunning)
	task.Spec.QueueName = ""
	w.See(task, w.term(true))
	w.Leave(task)
	w.Forget(client.ObjectKeyFromObject(task))
	if len(w.lines)+len(w.places) > 0 {
		t.Errorf("lines %v, places %v", w.lines, w.places)
	}
}

func TestARateSaysWhenToLookAgain(t *testing.T) {
	w := newTurns(t, 0)
	w.queue.Spec.Dispatch = v1alpha1.DispatchSpec{Rate: 1, PeriodSeconds: 60, Algorithm: v1alpha1.RateLeakyBucket}
	w.asks("a", "b")
	for range 2 {
		_, again := w.Learn(w.queue)
		if again != time.Minute {
			t.Errorf("to be learnt of again in %s", again)
		}
		w.clock.Step(again)
	}
	w.Learn(w.queue)
	w.wants("woken", []string{"a", "b"}, w.woken)
}

// TestNobodyStartsBeforeAllHoldersAreKnown: the first list fails, and a task goes between the lists.
func TestNobodyStartsBeforeAllHoldersAreKnown(t *testing.T) {
	w := newTurns(t, 1)
	w.isSeeded, w.later = false, map[types.NamespacedName]bool{}
	if turn := w.Ask(w.task("waits"), w.queue); turn.Admitted || turn.Waiting != nil {
		t.Errorf("before it is known who holds: %+v", turn)
	}
	running, gone := w.is("runs", v1alpha1.PhaseRunning), w.is("gone", v1alpha1.PhaseRunning)
	c := clientWith(t, running, gone)
	broken := &failingReader{Reader: c, failures: 1}
	seeder := &Seeder{Turns: w.Turns, Live: broken}
	if err := seeder.Seed(t.Context()); err == nil || w.isSeeded {
		t.Fatalf("seeded by a list that failed: %v", err)
	}
	w.Forget(client.ObjectKeyFromObject(gone))
	if err := seeder.Seed(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(w.woken) != 2 {
		t.Errorf("woken are %v, want the one that has asked, and the one that is gone, to be looked at", w.woken)
	}
	w.wants("admitted beside two that hold", nil, w.asks("waits"))
	w.Forget(client.ObjectKeyFromObject(gone))
	w.See(w.is("runs", v1alpha1.PhaseCompleted), nil)
	w.wants("last woken", []string{"waits"}, w.woken[2:])
}

type failingReader struct {
	client.Reader
	failures int
}

func (f *failingReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, isLeases := list.(*coordinationv1.LeaseList); !isLeases && f.failures > 0 {
		f.failures--
		return errors.New("not now")
	}
	return f.Reader.List(ctx, list, opts...)
}

// TestALateCacheDoesNotTeachAQueueTheLimitsOfAnother: a task was moved, and is seen once more as it was.
func TestALateCacheDoesNotTeachAQueueTheLimitsOfAnother(t *testing.T) {
	w := newTurns(t, 1)
	w.asks("holds", "waits")
	before, other := w.is("moved", v1alpha1.PhaseAvailable).DeepCopy(), w.queue.DeepCopy()
	before.Spec.QueueName, other.Name, other.ResourceVersion, other.Spec.Concurrency = "other", "other", "90", 0
	w.See(w.is("moved", v1alpha1.PhaseAvailable), nil)
	w.asks("moved")
	w.See(before, nil)
	if w.Ask(before, other).Admitted {
		t.Error("a task is let start by the limits of the queue that it has left")
	}
	w.wants("woken", nil, w.woken)
	w.counts(2, 1)
}

// TestWhatTheSeedMayHaveSeenTooEarlyIsLookedAtAgain: the Leases are listed before the tasks. A term that was closed in between, and whose
// task rests now, holds nothing.
func TestWhatTheSeedMayHaveSeenTooEarlyIsLookedAtAgain(t *testing.T) {
	w := newTurns(t, 1)
	w.isSeeded, w.later = false, map[types.NamespacedName]bool{}
	early, late := w.term(true), w.term(false)
	w.See(w.task("rests"), early)
	w.See(w.is("runs", v1alpha1.PhaseRunning), w.term(true))
	w.begin()
	w.wants("woken", []string{"rests"}, w.woken)
	w.See(w.task("rests"), late)
	w.counts(0, 1)
}
