package api

import (
	"cmp"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// resting is a task in a scene of its own, with operators that are driven by hand.
type resting struct {
	*scene
	*world
	task  *modelTask
	queue *v1alpha1.TaskQueue
}

// queues makes the queue bulk, in which another task runs, as both operators have seen.
func (r *resting) queues(spec *v1alpha1.TaskQueueSpec) {
	r.Helper()
	r.queue = r.makeQueue("bulk", *spec)
	other := &v1alpha1.LeasedTask{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "other", UID: "other", ResourceVersion: "1"},
		Spec: v1alpha1.LeasedTaskSpec{QueueName: "bulk"}, Status: v1alpha1.LeasedTaskStatus{Phase: v1alpha1.PhaseRunning}}
	for _, o := range r.operators {
		seeder := &controller.Seeder{Turns: o.reconciler.Turns, Live: client.NewNamespacedClient(admin, r.namespace)}
		r.ok(seeder.Seed(r.ctx))
		o.reconciler.Turns.See(other, nil)
	}
}

// passes makes passes, without time passing, until one writes nothing.
func (r *resting) passes() {
	r.Helper()
	if r.settles(r.task); len(r.problems) > 0 {
		r.Fatalf("%q\n%s", r.problems, strings.Join(r.trace, "\n"))
	}
}

func (r *resting) worker() *worker {
	r.Helper()
	r.passes()
	r.must(len(r.workers) > 0, "no Pod was made:\n%s", strings.Join(r.trace, "\n"))
	return r.workers[len(r.workers)-1]
}

// runs is a worker that has claimed, and is on record.
func (r *resting) runs() *worker {
	r.Helper()
	x := r.worker()
	x.claims(r.world)
	r.passes() // the claim is seen, and young
	r.advance(2*time.Second, true)
	r.passes()
	return x
}

// podIs sets the Pod's status, as scheduler and kubelet do.
func (r *resting) podIs(status corev1.PodStatus) {
	r.Helper()
	pod := &corev1.Pod{}
	r.ok(admin.Get(r.ctx, r.worker().pod, pod))
	pod.Status = status
	r.ok(admin.Status().Update(r.ctx, pod))
}

func (r *resting) containerWaits(reason string) {
	r.podIs(corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{Name: "worker",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "says the kubelet"}}}}})
}

// versions are those of everything that belongs to the task.
func (r *resting) versions() (all string) {
	r.Helper()
	task, lease, pods := &v1alpha1.LeasedTask{}, &coordinationv1.LeaseList{}, &corev1.PodList{}
	r.ok(cmp.Or(admin.Get(r.ctx, r.task.key, task), admin.List(r.ctx, lease, client.InNamespace(r.namespace)),
		admin.List(r.ctx, pods, client.InNamespace(r.namespace))))
	all = "task " + task.ResourceVersion
	for _, l := range lease.Items {
		all += ", Lease " + l.ResourceVersion
	}
	for _, p := range pods.Items {
		all += ", Pod " + p.ResourceVersion
	}
	return all
}

func TestCase34ReconcilingTwiceWritesNothing(t *testing.T) {
	g := newModelGround(t)
	restricted := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	onSpec := func(change func(*v1alpha1.LeasedTaskSpec)) func(*v1alpha1.LeasedTask) {
		return func(task *v1alpha1.LeasedTask) { change(&task.Spec) }
	}
	tests := map[string]struct { // by phase, and what it waits for
		labels map[string]string
		queue  *v1alpha1.TaskQueueSpec // of the queue bulk, in which another task runs
		change func(*v1alpha1.LeasedTask)
		bring  func(*resting)
	}{
		"Available Suspended":  {change: onSpec(suspended(true))},
		"Available StartAfter": {change: onSpec(func(spec *v1alpha1.LeasedTaskSpec) { spec.StartAfter = new(metav1.NewTime(time.Now().Add(time.Hour))) })},
		"Available Backoff":    {bring: func(r *resting) { r.runs().fails(r.world) }},
		"Available EpochMissing": {bring: func(r *resting) {
			for _, o := range r.operators {
				o.reconciler.Epoch = &controller.ConfigMapEpoch{Live: admin, Name: types.NamespacedName{Namespace: epoch.Namespace, Name: "none"}}
			}
		}},
		"Available QueueMissing":      {change: inQueue("bulk")},
		"Available QueueConcurrency":  {queue: &v1alpha1.TaskQueueSpec{Concurrency: 1}},
		"Available TenantConcurrency": {queue: &v1alpha1.TaskQueueSpec{Tenants: v1alpha1.TenantsSpec{Concurrency: 1}}},
		"Available RateLimited":       {queue: &v1alpha1.TaskQueueSpec{Dispatch: v1alpha1.DispatchSpec{Rate: 1, PeriodSeconds: 600}}},
		"Available QueuePaused":       {queue: &v1alpha1.TaskQueueSpec{Paused: v1alpha1.PauseHold}},
		"Available BreakerOpen":       {queue: &v1alpha1.TaskQueueSpec{Breaker: v1alpha1.BreakerSpec{Override: v1alpha1.BreakerForcedOpen}}},
		"Running, its queue on hold": {queue: &v1alpha1.TaskQueueSpec{}, bring: func(r *resting) {
			r.runs()
			r.changeQueue(r.queue, func(spec *v1alpha1.TaskQueueSpec) { spec.Paused = v1alpha1.PauseHold })
		}},
		"Running, its queue drained": {queue: &v1alpha1.TaskQueueSpec{}, bring: func(r *resting) {
			r.runs()
			r.changeQueue(r.queue, func(spec *v1alpha1.TaskQueueSpec) { spec.Paused = v1alpha1.PauseDrain })
		}},
		"Available WorkerRole": {change: func(task *v1alpha1.LeasedTask) { task.Spec.Template.Spec.ServiceAccountName = "My_SA" }},
		"Claimed PodStarting":  {},
		"Claimed Unschedulable": {bring: func(r *resting) {
			r.podIs(corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
				Reason: corev1.PodReasonUnschedulable, Message: "no room"}}})
		}},
		"Claimed ImagePull":       {bring: func(r *resting) { r.containerWaits("ImagePullBackOff") }},
		"Claimed ContainerConfig": {bring: func(r *resting) { r.containerWaits("CreateContainerConfigError") }},
		"Claimed AgentUnreachable": {bring: func(r *resting) {
			r.podIs(corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "worker",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(r.clock.Now().Add(-time.Minute))}}}}})
		}},
		"Claimed PodRefused": {labels: restricted, change: func(task *v1alpha1.LeasedTask) {
			task.Spec.Template.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		}},
		"Claimed QuotaExceeded": {bring: func(r *resting) { r.closeQuota() }},
		"Running":               {bring: func(r *resting) { r.runs() }},
		"Running, told to stop": {bring: func(r *resting) { r.runs(); r.owner(r.task, "suspends", `{"spec":{"suspend":true}}`) }},
		"Expired AwaitingRelease": {bring: func(r *resting) {
			r.runs()
			r.deletesLease(r.task)
		}},
		"Expired DeadLetterPending": {change: oneAttempt, bring: func(r *resting) { r.noDeadLetters(); r.runs().fails(r.world) }},
		"Completed":                 {bring: func(r *resting) { r.runs().submits(r.world, successful) }},
		"Cancelled":                 {change: onSpec(cancelled)},
		"DeadLettered":              {change: oneAttempt, bring: func(r *resting) { r.runs().fails(r.world) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &resting{scene: set(t, test.labels), world: g.newWorld(1)}
			r.ctx = t.Context()
			r.operators = [2]*operator{r.newOperator("leader"), r.newOperator("rival")}
			task := r.start("resting", func(task *v1alpha1.LeasedTask) {
				task.Labels = map[string]string{handDriven: "true"}
				if test.queue != nil {
					r.queues(test.queue)
					inQueue("bulk")(task)
				}
				if test.change != nil {
					test.change(task)
				}
			})
			r.task = r.enter(task, 0)
			if test.bring != nil {
				test.bring(r)
			}
			r.passes()
			r.ok(admin.Get(r.ctx, r.task.key, task))
			is := string(task.Status.Phase)
			if c := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionWaiting); c.Status == metav1.ConditionTrue {
				is += " " + c.Reason
			}
			want, _, _ := strings.Cut(name, ",")
			r.must(is == want, "the task is %s: %s\n%s", is, cluster.Describe(task), strings.Join(r.trace, "\n"))
			before := r.versions()
			for _, o := range r.operators { // one that remembers, and one that has just been born
				o.begin(allFresh, -1, 0, nil)
				o.pass(r.task)
				r.must(o.accepted == 0, "the %s writes again:\n%s", o.name, strings.Join(r.trace, "\n"))
			}
			if after := r.versions(); after != before {
				t.Errorf("%s\nbecame\n%s\n%s", before, after, strings.Join(r.trace, "\n"))
			}
		})
	}
}
