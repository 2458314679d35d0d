package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// TestCase14TheOperatorMayDieAfterEveryWrite plays one task to its end again and again, and lets the operator die after its first
// write, after its second, and so on; another one then takes over. The end must be the same each time, with one Pod an
// attempt. The task fails once, loses a worker once, and then succeeds, so that every kind of write but the dead letter's is
// in it; a second story ends dead-lettered.
func TestCase14TheOperatorMayDieAfterEveryWrite(t *testing.T) {
	stories := map[string]struct {
		of   func(*v1alpha1.LeasedTask)
		play func(*mortal)
		want ending
	}{
		"leaves all to its queue, which changes": {of: leaveToQueue, play: func(m *mortal) {
			queue := m.queue(func(spec *v1alpha1.TaskQueueSpec) {
				spec.Defaults.Retry = v1alpha1.RetrySpec{MaxAttempts: 2, Backoff: v1alpha1.BackoffSpec{MaxSeconds: 1}}
			})
			m.claimed(1).submits(fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(1))})
			m.change(queue, func(spec *v1alpha1.TaskQueueSpec) {
				spec.Template.Spec.Containers[0].Image, spec.Defaults.Retry.MaxAttempts = "second", 9
			})
			m.claimed(2).submits(fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(1))})
			m.until("given up", cluster.IsFinished)
			m.hasRun("first", "first")
			m.must(len(m.revisions()) == 1, "kept are %q", m.revisions())
		}, want: ending{Phase: v1alpha1.PhaseDeadLettered, Failures: 2, Attempts: 2, Pods: 2, Ends: []string{"NonZeroExit by Submission", "NonZeroExit by Submission"}}},
		"fails, is lost, succeeds": {play: func(m *mortal) {
			m.claimed(1).submits(fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(1))})
			m.claimed(2).vanishes()
			m.claimed(3).submits(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted, Result: new("42")})
		}, want: ending{Phase: v1alpha1.PhaseCompleted, Result: "42", Failures: 2, Attempts: 3, Pods: 3, Ends: []string{"NonZeroExit by Submission", "WorkerVanished by Pod", "Completed by Submission"}}},
		"falls silent, fails, is given up": {play: func(m *mortal) {
			m.claimed(1).fallsSilent()
			m.claimed(2).submits(fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new(int32(1))})
			m.claimed(3).vanishes()
		}, want: ending{Phase: v1alpha1.PhaseDeadLettered, Failures: 3, Attempts: 3, Pods: 3, Ends: []string{"LeaseExpired by Observation", "NonZeroExit by Submission", "WorkerVanished by Pod"}}},
		"is suspended while it runs, resumed, cancelled": {play: func(m *mortal) {
			first := m.claimed(1)
			m.owner(suspended(true))
			m.until("told to stop", m.isPushed)
			first.submits(fencing.Submission{Outcome: fencing.Cancelled, Reason: fencing.ReasonSuspended, ExitCode: new(int32(143))})
			m.owner(suspended(false))
			m.until("granted again", in(v1alpha1.PhaseClaimed, 2))
			m.owner(cancelled)
			m.until("cancelled", cluster.IsFinished)
			m.until("without the Pod that never started", func(*v1alpha1.LeasedTask) bool { return m.endingOf(m.task).Pods == 1 })
		}, want: ending{Phase: v1alpha1.PhaseCancelled, Attempts: 2, Pods: 1, Ends: []string{"Suspended by Submission", "Cancelled by Observation"}}},
		"is cancelled, and does not heed": {play: func(m *mortal) {
			m.claimed(1)
			m.owner(cancelled)
			m.until("cancelled", cluster.IsFinished)
		}, want: ending{Phase: v1alpha1.PhaseCancelled, Attempts: 1, Pods: 1, Ends: []string{"Cancelled by Observation"}}},
	}
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for after := 0; ; after++ {
				m := newMortal(t, after, func(task *v1alpha1.LeasedTask) {
					if story.of != nil {
						story.of(task)
					}
				})
				story.play(m)
				if diff := cmp.Diff(story.want, m.endingOf(m.task)); diff != "" {
					t.Errorf("dead after write %d (%s): -want +got:\n%s", after, m.lastWords, diff)
				}
				if !m.hasDied {
					t.Logf("%d writes, a death after each", after)
					return
				}
			}
		})
	}
}

// ending is what must not depend on when somebody died.
type ending struct {
	Phase       v1alpha1.Phase
	Result      string
	Failures    int32
	Disruptions int32
	Attempts    int32
	Pods        int
	Ends        []string // of attempts: reason and evidence
}

// mortal is an operator that dies after a number of writes and is born again, once. It is driven by hand, on a clock of
// its own; the running operator of these tests does not look at its task.
type mortal struct {
	*scene
	task   *v1alpha1.LeasedTask
	clock  *clocktesting.FakeClock
	reader client.Reader

	operator  *controller.Reconciler
	sight     *controller.Sight
	left      int // writes until death
	isDead    bool
	hasDied   bool
	lastWords string
}

var errDead = errors.New("the operator is dead")

func newMortal(t *testing.T, writes int, changes ...func(*v1alpha1.LeasedTask)) *mortal {
	t.Helper()
	s := set(t, nil)
	m := &mortal{scene: s, clock: clocktesting.NewFakeClock(time.Now()), left: writes}
	m.reader = m.startCache()
	m.task = s.start("mortal", func(task *v1alpha1.LeasedTask) {
		task.Labels = map[string]string{handDriven: "true"}
		task.Spec.Retry = v1alpha1.RetrySpec{MaxAttempts: 3, Backoff: v1alpha1.BackoffSpec{MaxSeconds: 1}}
		for _, change := range changes {
			change(task)
		}
	})
	m.beBorn()
	return m
}

// startCache is a cache as the operator has it, of this namespace alone. It outlives the operator's deaths.
func (m *mortal) startCache() client.Reader {
	options := controller.CacheOptions()
	options.Scheme, options.DefaultNamespaces = admin.Scheme(), map[string]cache.Config{m.namespace: {}}
	informers, err := cache.New(config, options)
	m.ok(err)
	m.ok(controller.IndexPods(m.Context(), informers))
	go func() { _ = informers.Start(m.Context()) }()
	m.must(informers.WaitForCacheSync(m.Context()), "the cache does not sync")
	return informers
}

func (m *mortal) beBorn() {
	m.isDead = false
	under, err := client.NewWithWatch(config, client.Options{Scheme: admin.Scheme(), Cache: &client.CacheOptions{Reader: m.reader}})
	m.ok(err)
	m.sight = controller.NewSight()
	m.operator = &controller.Reconciler{
		Client: interceptor.NewClient(under, m.fate()), Live: admin, Clock: m.clock, Events: events.NewFakeRecorder(1000),
		Observer: controller.NewObserver(m.clock, m.sight),
		Turns:    controller.NewTurns(m.clock),
		Epoch:    &controller.ConfigMapEpoch{Live: admin, Name: epoch},
		Agent:    plan.AgentImage{Name: "agent:test", PullPolicy: corev1.PullIfNotPresent},
		Random:   controller.NewRandom(),
	}
	m.ok((&controller.Seeder{Turns: m.operator.Turns, Live: client.NewNamespacedClient(admin, m.namespace)}).Seed(m.Context()))
}

// fate lets the operator's last write through, and nothing after it.
func (m *mortal) fate() interceptor.Funcs {
	write := func(what string, o client.Object, do func() error) error {
		if m.isDead {
			return errDead
		}
		err := do()
		if m.hasDied {
			return err // the second operator lives
		}
		if m.left--; m.left <= 0 {
			m.isDead, m.hasDied, m.lastWords = true, true, fmt.Sprintf("%s %T", what, o)
			return errors.Join(err, errDead)
		}
		return err
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return write("create", o, func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return write("update", o, func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return write("patch", o, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return write("delete", o, func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return write("patch "+sub, o, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	}
}

// until makes passes, and lets time pass, until the task is as wanted. A dead operator is followed by another one.
func (m *mortal) until(what string, is func(*v1alpha1.LeasedTask) bool) {
	m.Helper()
	for range 400 {
		m.sight.Answered(m.clock.Now())
		_, err := m.operator.Reconcile(m.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(m.task)})
		if m.isDead {
			m.beBorn()
		} else if err != nil {
			m.Logf("a pass failed, as one may on a cache that lags: %v", err)
		}
		m.ok(admin.Get(m.Context(), client.ObjectKeyFromObject(m.task), m.task))
		if is(m.task) {
			return
		}
		time.Sleep(10 * time.Millisecond) // for the cache
		m.clock.Step(250 * time.Millisecond)
	}
	m.Fatalf("dead after write (%s): the task is not %s: %s", m.lastWords, what, cluster.Describe(m.task))
}

// claimed waits for an attempt, and claims it as its agent.
func (m *mortal) claimed(attempt int32) *mortalAgent {
	m.Helper()
	m.until(fmt.Sprintf("in attempt %d, with a Pod", attempt), func(task *v1alpha1.LeasedTask) bool {
		return in(v1alpha1.PhaseClaimed, attempt)(task) &&
			admin.Get(m.Context(), client.ObjectKey{Namespace: m.namespace, Name: task.Status.Holder.PodName}, &corev1.Pod{}) == nil
	})
	a := &mortalAgent{agent: m.agentOf(m.task), m: m}
	m.ok(a.claimTerm())
	m.until("running", in(v1alpha1.PhaseRunning, attempt))
	return a
}

// owner is an edit of the spec by the task's owner.
func (m *mortal) owner(change func(*v1alpha1.LeasedTaskSpec)) {
	m.Helper()
	m.ok(m.edit(m.task, change))
}

// isPushed reports whether the Lease bears a stop and the kubelet is told to end the Pod.
func (m *mortal) isPushed(task *v1alpha1.LeasedTask) bool {
	lease, pod := &coordinationv1.Lease{}, &corev1.Pod{}
	m.ok(admin.Get(m.Context(), client.ObjectKey{Namespace: m.namespace, Name: task.Status.LeaseName}, lease))
	m.ok(admin.Get(m.Context(), client.ObjectKey{Namespace: m.namespace, Name: task.Status.Holder.PodName}, pod))
	return lease.Annotations[fencing.StopAnnotation] != "" && pod.Spec.ActiveDeadlineSeconds != nil
}

type mortalAgent struct {
	*agent
	m *mortal
}

func (a *mortalAgent) submits(sub fencing.Submission) {
	a.Helper()
	a.ok(a.submit(sub))
	a.m.untilAttemptIsOver()
}

// vanishes is the worker container's end without a submission, as a kubelet reports it.
func (a *mortalAgent) vanishes() {
	a.Helper()
	pod := a.untilPod(a.m.task)
	pod.Status.Phase = corev1.PodFailed
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "worker", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 137, Reason: "Error", ContainerID: "containerd://1", StartedAt: metav1.Now(), FinishedAt: metav1.Now()}}}}
	a.ok(admin.Status().Update(a.Context(), pod))
	a.m.untilAttemptIsOver()
}

// fallsSilent is a worker that renews no more.
func (a *mortalAgent) fallsSilent() { a.m.untilAttemptIsOver() }

func (m *mortal) untilAttemptIsOver() {
	m.Helper()
	attempt := m.task.Status.Attempt
	m.until(fmt.Sprintf("done with attempt %d", attempt), func(task *v1alpha1.LeasedTask) bool {
		return task.Status.Phase.IsFinished() || task.Status.Phase == v1alpha1.PhaseAvailable || task.Status.Attempt > attempt
	})
}

func (s *scene) endingOf(task *v1alpha1.LeasedTask) ending {
	pods := &corev1.PodList{}
	s.ok(admin.List(s.Context(), pods, client.InNamespace(s.namespace)))
	status := &task.Status
	e := ending{Phase: status.Phase, Failures: status.Failures, Disruptions: status.Disruptions, Attempts: status.Attempt, Pods: len(pods.Items)}
	if status.Result != nil {
		e.Result = *status.Result
	}
	last := int64(0)
	for _, h := range status.History {
		e.Ends = append(e.Ends, fmt.Sprintf("%s by %s", h.Reason, h.Evidence))
		s.must(h.FencingToken > last, "tokens do not rise: %+v", status.History)
		last = h.FencingToken
	}
	return e
}
