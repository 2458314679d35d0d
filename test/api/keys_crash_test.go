package api

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// TestCase14TheOperatorMayDieAtEveryWriteOfAKey plays a task with both kinds of keys to its success, with another one of the same
// keys behind it, and lets the operator die after its first write, after its second, and so on.
func TestCase14TheOperatorMayDieAtEveryWriteOfAKey(t *testing.T) {
	t.Parallel()
	for after := 0; ; after++ {
		m := newMortal(t, after, once("order-7", "a"), alone("db"))
		k := &mortalKeys{mortal: m}
		k.claimed(1).submits(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted, Result: new("42")})
		k.second = m.start("second", once("order-7", "a"), alone("db"), func(task *v1alpha1.LeasedTask) { task.Labels = map[string]string{handDriven: "true"} })
		k.untilAll("at rest", func() error {
			l := m.lock(key.Idempotency, "order-7")
			switch {
			case m.task.Status.Phase != v1alpha1.PhaseCompleted || !attachedTo("mortal", "42")(k.second):
				return fmt.Errorf("%s, and %s", cluster.Describe(m.task), cluster.Describe(k.second))
			case l == nil || l.Answer == nil || *l.Answer.Result != "42" || l.Answer.Task != "mortal":
				return fmt.Errorf("lock %+v", l)
			case m.lock(key.Concurrency, "db") != nil:
				return fmt.Errorf("the concurrency key is held: %+v", m.lock(key.Concurrency, "db"))
			}
			return nil
		})
		m.must(m.podsOf(m.task) == 1 && m.podsOf(k.second) == 0, "dead after write %d (%s): Pods", after, m.lastWords)
		if !m.hasDied {
			t.Logf("%d writes, a death after each", after)
			return
		}
	}
}

// TestCase14ABlockSurvivesEveryDeathOfTheOperator: the holder is given up, and its dead letter has the key.
func TestCase14ABlockSurvivesEveryDeathOfTheOperator(t *testing.T) {
	t.Parallel()
	for after := 0; ; after++ {
		m := newMortal(t, after, alone("db"), blocking)
		k := &mortalKeys{mortal: m}
		for attempt := range int32(3) {
			k.claimed(attempt + 1).submits(fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(1))})
		}
		m.until("dead-lettered", in(v1alpha1.PhaseDeadLettered, 3))
		k.untilAll("blocked", func() error {
			l := m.lock(key.Concurrency, "db")
			m.must(l != nil, "dead after write %d (%s): the key is free", after, m.lastWords)
			if l.Holder != "" || len(l.BlockedBy) != 1 || l.BlockedBy[0] != m.task.Status.DeadLetterName {
				return fmt.Errorf("lock %+v", l)
			}
			return nil
		})
		if !m.hasDied {
			t.Logf("%d writes, a death after each", after)
			return
		}
	}
}

// TestCase14AReplacementSurvivesEveryDeathOfTheOperator: the holder is told, and stops; the newer task runs, and an older one that waits
// never does.
func TestCase14AReplacementSurvivesEveryDeathOfTheOperator(t *testing.T) {
	t.Parallel()
	byHand := func(task *v1alpha1.LeasedTask) { task.Labels = map[string]string{handDriven: "true"} }
	for after := 0; ; after++ {
		m := newMortal(t, after, alone("db"))
		k := &mortalKeys{mortal: m}
		a := k.claimed(1)
		k.third = m.start("v1-waits", alone("db"), byHand, func(task *v1alpha1.LeasedTask) { task.Spec.Suspend = new(true) })
		m.must(k.third.Name > m.task.Name, "the names do not say what is newer")
		k.second = m.start("v2-replaces", alone("db"), byHand, replacing)
		k.untilAll("told", func() error {
			if a.bearsStop() == nil || m.lock(key.Concurrency, "db").Newest == nil {
				return fmt.Errorf("the holder is not told")
			}
			return nil
		})
		m.ok(m.edit(k.third, suspended(false)))
		k.untilAll("superseded", func() error {
			if !supersededBy("v2-replaces")(k.third) {
				return fmt.Errorf("%s", cluster.Describe(k.third))
			}
			return nil
		})
		m.ok(a.submit(stoppedFor(fencing.ReasonSuperseded)))
		k.untilAll("replaced", func() error {
			l := m.lock(key.Concurrency, "db")
			m.must(l != nil, "dead after write %d (%s): the key was free for anybody", after, m.lastWords)
			if !supersededBy("v2-replaces")(m.task) || k.second.Status.Phase != v1alpha1.PhaseClaimed || m.podsOf(k.second) != 1 || l.Holder != string(k.second.UID) {
				return fmt.Errorf("%s, and %s, lock %+v", cluster.Describe(m.task), cluster.Describe(k.second), l)
			}
			return nil
		})
		m.mustNotHaveRun(k.third)
		if !m.hasDied {
			t.Logf("%d writes, a death after each", after)
			return
		}
	}
}

// TestCase14ARejectionSurvivesEveryDeathOfTheOperator: one dead letter, and no term.
func TestCase14ARejectionSurvivesEveryDeathOfTheOperator(t *testing.T) {
	t.Parallel()
	for after := 0; ; after++ {
		m := newMortal(t, after, alone("db"))
		k := &mortalKeys{mortal: m}
		k.claimed(1)
		k.second = m.start("second", alone("db"), rejecting, func(task *v1alpha1.LeasedTask) { task.Labels = map[string]string{handDriven: "true"} })
		k.untilAll("rejected", func() error {
			if k.second.Status.Phase != v1alpha1.PhaseDeadLettered {
				return fmt.Errorf("%s", cluster.Describe(k.second))
			}
			return nil
		})
		m.mustNotHaveRun(k.second)
		m.must(len(m.deadLetters()) == 1 && len(k.second.Status.History) == 1, "dead after write %d (%s): %d dead letters, history %+v", after, m.lastWords, len(m.deadLetters()), k.second.Status.History)
		if !m.hasDied {
			t.Logf("%d writes, a death after each", after)
			return
		}
	}
}

// mortalKeys is a mortal operator that keeps keys, too.
type mortalKeys struct {
	*mortal
	second, third *v1alpha1.LeasedTask
}

// untilAll makes passes over tasks and keys, and lets time pass, until there is no error.
func (k *mortalKeys) untilAll(what string, check func() error) {
	k.Helper()
	var err error
	for range 200 {
		keeper := &controller.KeyKeeper{Client: k.operator.Client, Live: admin, Clock: k.clock}
		k.sight.Answered(k.clock.Now())
		for _, task := range []*v1alpha1.LeasedTask{k.task, k.second, k.third} {
			if task == nil {
				continue
			}
			_, _ = k.operator.Reconcile(k.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(task)})
			k.ok(admin.Get(k.Context(), client.ObjectKeyFromObject(task), task))
		}
		for _, name := range []string{key.Name(key.Idempotency, "order-7"), key.Name(key.Concurrency, "db")} {
			_, _ = keeper.Reconcile(k.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: k.namespace, Name: name}})
		}
		if k.isDead {
			k.beBorn()
		}
		if err = check(); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond) // for the cache
		k.clock.Step(250 * time.Millisecond)
	}
	k.Fatalf("dead after write (%s): not %s: %v", k.lastWords, what, err)
}

// TestTwoTasksOfOneKeyMadeAtTheSameInstant, with two operators that both believe to lead: exactly one runs, the other one
// attaches.
func TestTwoTasksOfOneKeyMadeAtTheSameInstant(t *testing.T) {
	t.Parallel()
	for range 5 {
		m := newMortal(t, 0, once("order-7", "a")) // of it, the cache is used
		pair := [2]*v1alpha1.LeasedTask{m.task}
		pair[1] = m.start("twin", once("order-7", "a"), func(task *v1alpha1.LeasedTask) { task.Labels = map[string]string{handDriven: "true"} })
		run := func(is func() bool) {
			t.Helper()
			for range 100 {
				var both sync.WaitGroup
				for i := range 2 {
					operator := m.another()
					both.Go(func() { // each begins with another task
						for j := range 2 {
							_, _ = operator.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pair[(i+j)%2])})
						}
					})
				}
				both.Wait()
				for _, task := range pair {
					m.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(task), task))
				}
				m.must(m.podsOf(pair[0])+m.podsOf(pair[1]) <= 1, "both run")
				if is() {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
			m.Fatalf("stuck: %s and %s", cluster.Describe(pair[0]), cluster.Describe(pair[1]))
		}
		var first, second *v1alpha1.LeasedTask
		run(func() bool {
			for i, task := range pair {
				if in(v1alpha1.PhaseClaimed, 1)(task) && m.podsOf(task) == 1 {
					first, second = task, pair[1-i]
					return waitsFor(v1alpha1.WaitingKeyBusy, "LeasedTask "+first.Name)(second)
				}
			}
			return false
		})
		a := m.agentOf(first)
		m.ok(a.claimTerm())
		m.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted, Result: new("42")}))
		run(func() bool {
			return first.Status.Phase == v1alpha1.PhaseCompleted && attachedTo(first.Name, "42")(second)
		})
	}
}

// another is one more operator on the same cache.
func (m *mortal) another() *controller.Reconciler {
	under, err := client.NewWithWatch(config, client.Options{Scheme: admin.Scheme(), Cache: &client.CacheOptions{Reader: m.reader}})
	m.ok(err)
	sight := controller.NewSight()
	sight.Answered(time.Now())
	return &controller.Reconciler{
		Client: under, Live: admin, Clock: clock.RealClock{}, Events: events.NewFakeRecorder(1000),
		Observer: controller.NewObserver(clock.RealClock{}, sight),
		Turns:    controller.NewTurns(clock.RealClock{}),
		Epoch:    &controller.ConfigMapEpoch{Live: admin, Name: epoch},
		Agent:    plan.AgentImage{Name: "agent:test", PullPolicy: corev1.PullIfNotPresent},
		Random:   controller.NewRandom(),
	}
}
