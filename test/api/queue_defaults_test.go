package api

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// leaveToQueue makes a task one of five lines.
func leaveToQueue(task *v1alpha1.LeasedTask) {
	task.Spec = v1alpha1.LeasedTaskSpec{QueueName: "mail", Payload: new("{}")}
}

// queue makes the queue of such tasks. Its Pods are told by their image.
func (s *scene) queue(change func(*v1alpha1.TaskQueueSpec)) *v1alpha1.TaskQueue {
	s.Helper()
	template := cluster.Task(s.namespace, "x", "true").Spec.Template
	template.Spec.Containers[0].Image = "first"
	queue := &v1alpha1.TaskQueue{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "mail"}, Spec: v1alpha1.TaskQueueSpec{
		Template: template,
		Defaults: v1alpha1.TaskDefaults{Lease: v1alpha1.LeaseSpec{DurationSeconds: 10}, Retry: v1alpha1.RetrySpec{Backoff: v1alpha1.BackoffSpec{MaxSeconds: 1}}, StopGraceSeconds: 7},
	}}
	if change != nil {
		change(&queue.Spec)
	}
	s.ok(admin.Create(s.Context(), queue))
	return queue
}

func (s *scene) change(queue *v1alpha1.TaskQueue, change func(*v1alpha1.TaskQueueSpec)) {
	s.Helper()
	before := queue.DeepCopy()
	change(&queue.Spec)
	s.ok(admin.Patch(s.Context(), queue, mergeFrom(before)))
}

// revisions are the names of what is kept of queues.
func (s *scene) revisions() (names []string) {
	s.Helper()
	list := &appsv1.ControllerRevisionList{}
	s.ok(admin.List(s.Context(), list, client.InNamespace(s.namespace)))
	for _, r := range list.Items {
		names = append(names, r.Name)
	}
	return names
}

// hasRun compares the images of the namespace's Pods, in the order of their names.
func (s *scene) hasRun(images ...string) {
	s.Helper()
	pods := &corev1.PodList{}
	s.ok(admin.List(s.Context(), pods, client.InNamespace(s.namespace)))
	var got []string
	for _, pod := range pods.Items {
		got = append(got, pod.Spec.Containers[0].Image)
	}
	s.must(slices.Equal(got, images), "Pods run %q, want %q", got, images)
}

// TestATaskOfFiveLinesRunsWhatItsQueueGaveAtItsFirstGrant: whatever becomes of the queue, for every attempt, and for a replay.
func TestATaskOfFiveLinesRunsWhatItsQueueGaveAtItsFirstGrant(t *testing.T) {
	s := sideBySide(t, nil)
	queue := s.queue(func(spec *v1alpha1.TaskQueueSpec) { spec.Defaults.Retry.MaxAttempts = 3 })
	task := s.start("mail-1", leaveToQueue)
	s.untilGranted(task, 1)
	fixed := task.Status.QueueRevision
	s.must(fixed != "" && task.Spec.Template == nil && task.Generation == 1, "status %+v, spec %+v", task.Status, task.Spec)
	revision := &appsv1.ControllerRevision{}
	s.ok(admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: fixed}, revision))
	s.must(len(revision.OwnerReferences) == 0, "owned by %+v", revision.OwnerReferences)

	ran := func(task *v1alpha1.LeasedTask, image string, grace int64) {
		t.Helper()
		pod := s.untilPod(task)
		s.must(pod.Spec.Containers[0].Image == image && *pod.Spec.TerminationGracePeriodSeconds == grace+5,
			"attempt %d runs %s with a grace of %d s", task.Status.Attempt, pod.Spec.Containers[0].Image, *pod.Spec.TerminationGracePeriodSeconds)
	}
	ran(task, "first", 7)
	s.change(queue, func(spec *v1alpha1.TaskQueueSpec) {
		spec.Template.Spec.Containers[0].Image, spec.Defaults.StopGraceSeconds, spec.Defaults.Retry.MaxAttempts = "second", 9, 1
	})
	s.fails(task, "not yet")
	s.untilGranted(task, 2)
	ran(task, "first", 7)

	next := s.start("mail-2", leaveToQueue)
	s.untilGranted(next, 1)
	ran(next, "second", 9)

	s.ok(admin.Delete(t.Context(), queue))
	s.queue(func(spec *v1alpha1.TaskQueueSpec) { spec.Template.Spec.Containers[0].Image = "third" })
	s.fails(task, "not yet")
	s.untilGranted(task, 3)
	ran(task, "first", 7)
	s.fails(task, "never")
	s.until(task, "dead-lettered", in(v1alpha1.PhaseDeadLettered, 3))
	s.must(task.Status.QueueRevision == fixed, "on record is %s, was %s", task.Status.QueueRevision, fixed)

	dead := &v1alpha1.DeadLetter{}
	s.ok(admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: task.Status.DeadLetterName}, dead))
	kept := v1alpha1.LeasedTaskSpec{}
	s.ok(json.Unmarshal(dead.Spec.Task.Spec.Raw, &kept))
	s.must(kept.Template.Spec.Containers[0].Image == "first" && kept.StopGraceSeconds == 7 && kept.Retry.MaxAttempts == 3 && *kept.Payload == "{}", "kept is %+v", kept)
	s.ok(s.ask(admin, dead, `{"request": 1}`))
	replay := s.replayOf(s.untilAnswered(dead, 1))
	s.untilGranted(replay, 1)
	ran(replay, "first", 7)
}

// TestWhatTaskAndQueueCannotDoTogetherIsSaidAndRepairedOnEitherSide: with the field's path; nothing runs before.
func TestWhatTaskAndQueueCannotDoTogetherIsSaidAndRepairedOnEitherSide(t *testing.T) {
	s := sideBySide(t, nil)
	early := s.start("early", leaveToQueue)
	s.until(early, "waiting for its queue", waitsFor(v1alpha1.WaitingQueueMissing, "TaskQueue mail"))
	queue := s.queue(func(spec *v1alpha1.TaskQueueSpec) { spec.Template = nil })
	s.until(early, "waiting for a template", waitsFor(v1alpha1.WaitingSpecInvalid, "spec.template: is required: TaskQueue mail has none"))
	own := s.start("own", func(task *v1alpha1.LeasedTask) { task.Spec.QueueName = "mail" })
	s.until(own, "granted with its own", in(v1alpha1.PhaseClaimed, 1))
	s.change(queue, func(spec *v1alpha1.TaskQueueSpec) {
		spec.Template = cluster.Task(s.namespace, "x", "true").Spec.Template
		spec.Template.Spec.Containers = append(spec.Template.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy"})
		spec.WorkerContainer, spec.Defaults.Timeouts.TotalSeconds = "worker", 600
	})
	s.untilGranted(early, 1)

	for worker, want := range map[string]string{"nope": "spec.workerContainer: names no container", "proxy": `spec.workerContainer: container "proxy" of the template of TaskQueue mail needs a command`} {
		task := s.start("names-"+worker, leaveToQueue, func(task *v1alpha1.LeasedTask) { task.Spec.WorkerContainer = worker })
		s.until(task, "told so", waitsFor(v1alpha1.WaitingSpecInvalid, want))
		s.ok(s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) { spec.WorkerContainer = "worker" }))
		s.untilGranted(task, 1)
	}
	slow := s.start("slow", leaveToQueue, func(task *v1alpha1.LeasedTask) { task.Spec.Timeouts.AttemptSeconds = 700 })
	s.until(slow, "told so", waitsFor(v1alpha1.WaitingSpecInvalid, "spec.timeouts: "))
	s.change(queue, func(spec *v1alpha1.TaskQueueSpec) { spec.Defaults.Timeouts.TotalSeconds = 800 })
	s.untilGranted(slow, 1)
}

// TestWhatAQueueGaveStaysWhileATaskHasItAndGoesThen: the queue may be gone by then.
func TestWhatAQueueGaveStaysWhileATaskHasItAndGoesThen(t *testing.T) {
	s := sideBySide(t, nil)
	queue := s.queue(nil)
	first := s.start("first", leaveToQueue)
	s.untilGranted(first, 1)
	s.change(queue, func(spec *v1alpha1.TaskQueueSpec) { spec.Defaults.StopGraceSeconds = 8 })
	second := s.start("second", leaveToQueue)
	s.untilGranted(second, 1)
	s.ok(admin.Delete(t.Context(), second)) // what it had, the queue gives still
	s.change(queue, func(spec *v1alpha1.TaskQueueSpec) { spec.Concurrency = 100 })
	s.untilRevisions(second.Status.QueueRevision, first.Status.QueueRevision)
	s.ok(admin.Delete(t.Context(), queue))
	s.untilRevisions(first.Status.QueueRevision) // its task runs
	s.fails(first, "so that a second attempt would need it")
	s.ok(admin.Delete(t.Context(), first))
	s.untilRevisions()
}

// untilRevisions waits until these and no others are kept, and stay so for longer than what is of no use would.
func (s *scene) untilRevisions(want ...string) {
	s.Helper()
	slices.Sort(want)
	s.ok(s.Poll(s.Context(), patience, func() error {
		if got := s.revisions(); !slices.Equal(got, want) {
			return fmt.Errorf("kept are %q, want %q", got, want)
		}
		return nil
	}))
	time.Sleep(revisionPatience + revisionPatience/2)
	s.must(slices.Equal(s.revisions(), want), "kept are %q, want %q", s.revisions(), want)
}

// TestATaskWhoseRevisionSomebodyDeletedIsHeldAndCanBeCancelled: nothing else is run in its name.
func TestATaskWhoseRevisionSomebodyDeletedIsHeldAndCanBeCancelled(t *testing.T) {
	s := sideBySide(t, nil)
	queue := s.queue(nil)
	task := s.start("robbed", leaveToQueue)
	s.untilGranted(task, 1)
	s.change(queue, func(spec *v1alpha1.TaskQueueSpec) { spec.Template.Spec.Containers[0].Image = "second" })
	s.ok(admin.Delete(t.Context(), &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: task.Status.QueueRevision}}))
	s.fails(task, "not yet")
	s.until(task, "held", waitsFor(v1alpha1.WaitingQueueRevision, task.Status.QueueRevision))
	s.hasRun("first")
	s.ok(s.edit(task, cancelled))
	s.until(task, "cancelled", in(v1alpha1.PhaseCancelled, 1))
}

// TestADoubtIsKeptUntilItIsKnownAgainWhatFollows: an attempt ends while the revision with its onLostAttempt is gone, and another task of
// the queue makes that again. What the operator writes meanwhile, the API server takes.
func TestADoubtIsKeptUntilItIsKnownAgainWhatFollows(t *testing.T) {
	s := sideBySide(t, nil)
	queue := s.queue(nil)
	follows := map[v1alpha1.LostAttemptPolicy]func(*v1alpha1.LeasedTask) bool{
		v1alpha1.LostAttemptRetry:      in(v1alpha1.PhaseClaimed, 2),
		v1alpha1.LostAttemptReconcile:  in(v1alpha1.PhaseProbing, 2),
		v1alpha1.LostAttemptDeadLetter: in(v1alpha1.PhaseDeadLettered, 1),
	}
	for policy, isAsEver := range follows {
		name := strings.ToLower(string(policy))
		s.change(queue, func(spec *v1alpha1.TaskQueueSpec) {
			spec.Defaults.OnLostAttempt, spec.Defaults.Reconcile = policy, v1alpha1.ReconcileSpec{}
			if policy == v1alpha1.LostAttemptReconcile {
				spec.Defaults.Reconcile.Template = spec.Template
			}
		})
		task := s.start(name, leaveToQueue)
		s.untilGranted(task, 1)
		s.ok(admin.Delete(t.Context(), &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: task.Status.QueueRevision}}))
		s.fails(task, "perhaps too late")
		s.until(task, "held", waitsFor(v1alpha1.WaitingQueueRevision, "attempt 1 may have had its effect"))
		s.must(task.Status.Phase == v1alpha1.PhaseProbing && task.Status.Uncertain.Attempt == 1, "status %+v", task.Status)
		next := s.start(name+"-next", leaveToQueue)
		s.untilGranted(next, 1)
		s.must(next.Status.QueueRevision == task.Status.QueueRevision, "the revision is %s, was %s", next.Status.QueueRevision, task.Status.QueueRevision)
		s.until(task, "as ever", isAsEver)
		isDoubtful := task.Status.Uncertain.Attempt == 1
		s.must(isDoubtful == (policy != v1alpha1.LostAttemptRetry), "status %+v", task.Status)
	}
}

// TestNobodyChangesWhatIsOnRecordOfAQueue: the API server sees to it, whoever writes.
func TestNobodyChangesWhatIsOnRecordOfAQueue(t *testing.T) {
	s := sideBySide(t, nil)
	s.queue(nil)
	task := s.start("fixed", leaveToQueue)
	s.untilGranted(task, 1)
	bare := s.start("without")
	s.untilGranted(bare, 1)
	for name, patch := range map[string]string{"fixed": `{"status":{"queueRevision":"other"}}`, "without": `{"status":{"queueRevision":"late"}}`} {
		target := &v1alpha1.LeasedTask{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
		err := admin.Status().Patch(t.Context(), target, client.RawPatch(types.MergePatchType, []byte(patch)))
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "status.queueRevision") {
			t.Errorf("%s: %v", name, err)
		}
	}
	next := task.DeepCopy()
	next.Spec.Template = bare.Spec.Template
	if err := admin.Patch(t.Context(), next, mergeFrom(task)); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.template") {
		t.Errorf("a template of its own, late: %v", err)
	}
}

// TestATaskAndItsQueueAreRecordedTogetherOrHeld: what is accepted fits into the dead letter.
func TestATaskAndItsQueueAreRecordedTogetherOrHeld(t *testing.T) {
	s := sideBySide(t, nil)
	wide := func(n int) func(*v1alpha1.TaskQueueSpec) {
		return func(spec *v1alpha1.TaskQueueSpec) {
			spec.Defaults.Retry.MaxAttempts = 1
			spec.Template.Spec.Containers[0].Env = nil
			for i := range n {
				spec.Template.Spec.Containers[0].Env = append(spec.Template.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprintf("V%d", i), Value: strings.Repeat("x", 1000)})
			}
		}
	}
	queue := s.queue(wide(430))
	full := func(task *v1alpha1.LeasedTask) { task.Spec.Payload = new(strings.Repeat("\x01", 65536)) } // six bytes each in JSON
	task := s.start("full", leaveToQueue, full)
	s.untilGranted(task, 1)
	s.fails(task, "never")
	s.until(task, "dead-lettered", in(v1alpha1.PhaseDeadLettered, 1))

	s.change(queue, wide(460))
	tooLarge := s.start("too-large", leaveToQueue)
	s.until(tooLarge, "told so", waitsFor(v1alpha1.WaitingSpecInvalid, "spec: is too large with what TaskQueue mail gives"))
	s.ok(s.Poll(t.Context(), patience, func() error { // a new policy acts some seconds late
		next := &v1alpha1.TaskQueue{}
		s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(queue), next))
		wide(600)(&next.Spec)
		if err := admin.Update(t.Context(), next, client.DryRunAll); !apierrors.IsForbidden(err) && !apierrors.IsRequestEntityTooLargeError(err) {
			return fmt.Errorf("want a refusal, got: %w", err)
		}
		return nil
	}))
}

// TestAQueueThatCouldRunNothingIsRefusedWithTheField: by the rules of a task's own fields, each at the queue's path.
func TestAQueueThatCouldRunNothingIsRefusedWithTheField(t *testing.T) {
	s := sideBySide(t, nil)
	type spec = v1alpha1.TaskQueueSpec
	pod := func(change func(*corev1.PodSpec)) func(*spec) { return func(q *spec) { change(&q.Template.Spec) } }
	tests := map[string]struct {
		change func(*spec)
		want   []string
	}{
		"no container": {pod(func(p *corev1.PodSpec) { p.Containers = []corev1.Container{} }), []string{"spec.template", "at least one container"}},
		"no command":   {pod(func(p *corev1.PodSpec) { p.Containers[0].Command = nil }), []string{"spec.template", "needs a command"}},
		"hooks": {pod(func(p *corev1.PodSpec) {
			p.Containers[0].Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGTERM)}
		}), []string{"spec.template", "lifecycle hooks"}},
		"restartPolicy":         {pod(func(p *corev1.PodSpec) { p.RestartPolicy = corev1.RestartPolicyAlways }), []string{"spec.template.spec.restartPolicy", "must be Never"}},
		"activeDeadlineSeconds": {pod(func(p *corev1.PodSpec) { p.ActiveDeadlineSeconds = new(int64(5)) }), []string{"spec.template.spec.activeDeadlineSeconds", "spec.defaults.timeouts"}},
		"grace period":          {pod(func(p *corev1.PodSpec) { p.TerminationGracePeriodSeconds = new(int64(5)) }), []string{"spec.template.spec.terminationGracePeriodSeconds", "spec.defaults.stopGraceSeconds"}},
		"shareProcessNamespace": {pod(func(p *corev1.PodSpec) { p.ShareProcessNamespace = new(true) }), []string{"spec.template.spec.shareProcessNamespace"}},
		"hostPID":               {pod(func(p *corev1.PodSpec) { p.HostPID = true }), []string{"spec.template.spec.hostPID"}},
		"windows":               {pod(func(p *corev1.PodSpec) { p.OS = &corev1.PodOS{Name: corev1.Windows} }), []string{"spec.template.spec.os"}},
		"our volume":            {pod(func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{{Name: "leasehold-bin"}} }), []string{"spec.template.spec.volumes"}},
		"two containers": {pod(func(p *corev1.PodSpec) { p.Containers = append(p.Containers, corev1.Container{Name: "b", Image: "b"}) }),
			[]string{"spec.workerContainer", "is required"}},
		"no such worker":                 {func(q *spec) { q.WorkerContainer = "nope" }, []string{"spec.workerContainer", "names no container"}},
		"a worker of no template":        {func(q *spec) { q.Template, q.WorkerContainer = nil, "worker" }, []string{"spec.workerContainer", "needs spec.template"}},
		"a short lease":                  {func(q *spec) { q.Defaults.Lease.DurationSeconds = 9 }, []string{"spec.defaults.lease.durationSeconds", "10"}},
		"total below attempt":            {func(q *spec) { q.Defaults.Timeouts = v1alpha1.TimeoutsSpec{AttemptSeconds: 61, TotalSeconds: 60} }, []string{"spec.defaults.timeouts.totalSeconds", "attemptSeconds"}},
		"too many attempts":              {func(q *spec) { q.Defaults.Retry.MaxAttempts = 101 }, []string{"spec.defaults.retry.maxAttempts", "100"}},
		"a negative time to live":        {func(q *spec) { q.Defaults.TTLSecondsAfterFinished = new(int32(-1)) }, []string{"spec.defaults.ttlSecondsAfterFinished", "0"}},
		"a negative one of an outcome":   {func(q *spec) { q.Defaults.TTL.CancelledSeconds = new(int32(-1)) }, []string{"spec.defaults.ttl.cancelledSeconds", "0"}},
		"a grace above an hour":          {func(q *spec) { q.Defaults.StopGraceSeconds = 3601 }, []string{"spec.defaults.stopGraceSeconds", "3600"}},
		"probes without a probe":         {func(q *spec) { q.Defaults.OnLostAttempt = v1alpha1.LostAttemptReconcile }, []string{"spec.defaults.reconcile", "is required"}},
		"a probe without what asks":      {func(q *spec) { q.Defaults.Reconcile.Template = q.Template }, []string{"spec.defaults.reconcile", "no other"}},
		"a rule without a requirement":   {func(q *spec) { q.Defaults.Retry.Rules = []v1alpha1.RetryRule{{Action: v1alpha1.RetryActionRetry}} }, []string{"spec.defaults.retry.rules[0]", "at least one of"}},
		"a first pause above the last's": {func(q *spec) { q.Defaults.Retry.Backoff = v1alpha1.BackoffSpec{InitialSeconds: 9, MaxSeconds: 8} }, []string{"spec.defaults.retry.backoff.maxSeconds", "initialSeconds"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			queue := &v1alpha1.TaskQueue{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "bad"}}
			queue.Spec.Template = cluster.Task(s.namespace, "x", "true").Spec.Template
			test.change(&queue.Spec)
			err := admin.Create(t.Context(), queue)
			if !apierrors.IsInvalid(err) {
				t.Fatalf("want 422 Invalid, got %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the answer does not say %q: %v", want, err)
				}
			}
		})
	}
}
