package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// untilGone waits until an object is gone.
func (s *scene) untilGone(o client.Object) {
	s.Helper()
	s.ok(s.Poll(s.Context(), patience, func() error {
		switch err := admin.Get(s.Context(), client.ObjectKeyFromObject(o), o); {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("%s is still there", o.GetName())
	}))
}

// complete plays the agent of the task's attempt, and the kubelet of its Pod, to a good end.
func (s *scene) complete(task *v1alpha1.LeasedTask) *corev1.Pod {
	s.Helper()
	s.untilGranted(task, 1)
	a := s.agentOf(task)
	s.ok(a.claimTerm())
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Result: new("42")}))
	s.until(task, "completed", in(v1alpha1.PhaseCompleted, 1))
	return s.endPod(task)
}

// endPod is the kubelet's word that the worker of the current attempt has ended.
func (s *scene) endPod(task *v1alpha1.LeasedTask) *corev1.Pod {
	s.Helper()
	pod := s.untilPod(task)
	end := metav1.Now()
	pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{Name: "worker",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "c://1", FinishedAt: end, StartedAt: end, Reason: "Completed"}}}}}
	s.ok(admin.Status().Update(s.Context(), pod))
	return pod
}

func TestCase33EachOutcomeHasItsTimeToLive(t *testing.T) {
	s := sideBySide(t, nil)
	ttl := func(task *v1alpha1.LeasedTask) {
		task.Spec.TTLSecondsAfterFinished = new(int32(3600))
		task.Spec.TTL = v1alpha1.TTLSpec{CancelledSeconds: new(int32(0)), DeadLetteredSeconds: new(int32(2))}
	}
	completed := s.start("completed", ttl)
	s.complete(completed)
	stopped := s.start("stopped", ttl)
	s.untilGranted(stopped, 1)
	s.ok(s.edit(stopped, cancelled))
	s.untilGone(stopped)
	dead := s.start("dead", ttl, oneAttempt)
	s.untilGranted(dead, 1)
	s.fails(dead, "no")
	s.untilGone(dead)
	s.must(len(s.deadLetters()) == 1, "the dead letter went with its task")
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(completed), completed))
}

func TestCase33ARaisedTimeToLiveIsHonoured(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("raised", func(task *v1alpha1.LeasedTask) { task.Spec.TTL.CompletedSeconds = new(int32(6)) })
	s.complete(task)
	s.ok(s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) { spec.TTL.CompletedSeconds = new(int32(3600)) }))
	time.Sleep(time.Until(task.Status.CompletionTime.Add(8 * time.Second)))
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(task), task))
	s.must(task.DeletionTimestamp == nil, "it is being deleted")
	s.ok(s.edit(task, func(spec *v1alpha1.LeasedTaskSpec) { spec.TTL.CompletedSeconds = new(int32(1)) })) // and a lowered one
	s.untilGone(task)
}

// TestCase33AForeignFinalizerIsRespected: the task is told to go, once, and stays for as long as somebody else needs it.
func TestCase33AForeignFinalizerIsRespected(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("held", func(task *v1alpha1.LeasedTask) {
		task.Finalizers = []string{"example.com/reads-the-result"}
		task.Spec.TTL.CompletedSeconds = new(int32(1))
	})
	t.Cleanup(func() {
		_ = admin.Patch(context.Background(), task, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	s.complete(task)
	s.ok(s.Until(t.Context(), task, patience, "being deleted", func(task *v1alpha1.LeasedTask) bool { return task.DeletionTimestamp != nil }))
	version := task.ResourceVersion
	time.Sleep(3 * time.Second)
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(task), task))
	s.must(task.ResourceVersion == version && *task.Status.Result == "42", "it was written while it waits: %s", task.ResourceVersion)
	s.ok(admin.Patch(t.Context(), task, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))))
	s.untilGone(task)
}

// TestCase33TheLastPodsOfANamespaceStay: those of the tasks that ended last, and all of a task that goes on.
func TestCase33TheLastPodsOfANamespaceStay(t *testing.T) {
	s := set(t, nil)
	before := counted(t, "leasehold_surplus_pods_deleted_total", "")
	goesOn := s.start("goes-on", func(task *v1alpha1.LeasedTask) {
		task.Spec.Retry.Backoff = v1alpha1.BackoffSpec{InitialSeconds: 300, Jitter: v1alpha1.JitterNone}
	})
	s.untilGranted(goesOn, 1)
	s.fails(goesOn, "again")
	evidence := s.endPod(goesOn)
	var pods []*corev1.Pod
	for i := range keptPods + 2 {
		pods = append(pods, s.complete(s.start(fmt.Sprintf("done-%d", i))))
		time.Sleep(1100 * time.Millisecond) // the kubelet writes whole seconds
	}
	s.untilGone(pods[0])
	s.untilGone(pods[1])
	time.Sleep(3 * time.Second)
	for _, pod := range append(pods[2:], evidence) {
		s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
		s.must(pod.DeletionTimestamp == nil, "Pod %s is being deleted", pod.Name)
	}
	s.must(counted(t, "leasehold_surplus_pods_deleted_total", "") >= before+2, "it is not counted")
}

func TestADiscardedDeadLetterIsNotReplayedAndStaysForItsRetention(t *testing.T) {
	s := set(t, nil)
	before, expired := counted(t, "leasehold_dead_letters_discarded_total", ""), counted(t, "leasehold_dead_letters_expired_total", "Discarded")
	_, dead := s.die("order")
	patch := func(text string) error {
		return admin.Patch(t.Context(), dead, client.RawPatch(types.MergePatchType, []byte(text)))
	}
	s.ok(patch(`{"spec":{"retentionSeconds":0}}`))
	time.Sleep(2 * time.Second)
	s.ok(patch(`{"spec":{"discard":{"reason":"the customer is gone"},"retentionSeconds":3600}}`)) // it has not gone, because nobody had decided
	s.ok(s.Poll(t.Context(), patience, func() error {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(dead), dead); err != nil {
			return err
		}
		if !isReady(dead, v1alpha1.ReasonDiscarded) {
			return fmt.Errorf("conditions %+v", dead.Status.Conditions)
		}
		return nil
	}))
	c := meta.FindStatusCondition(dead.Status.Conditions, v1alpha1.ConditionDiscarded)
	s.must(c.Status == metav1.ConditionTrue && c.Message == "the customer is gone" && dead.Status.DiscardTime != nil, "condition %+v", c)
	s.must(counted(t, "leasehold_dead_letters_discarded_total", "") == before+1, "it is not counted")
	for what, text := range map[string]string{"a replay": `{"spec":{"replay":{"request":1}}}`, "another reason": `{"spec":{"discard":{"reason":"other"}}}`,
		"taking it back": `{"spec":{"discard":null}}`} {
		if err := patch(text); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "final") {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.ok(patch(`{"spec":{"retentionSeconds":1}}`))
	s.untilGone(dead)
	s.ok(s.Poll(t.Context(), patience, func() error {
		events := &eventsv1.EventList{}
		if err := admin.List(t.Context(), events, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		said := map[string]bool{}
		for _, e := range events.Items {
			said[e.Reason] = true
		}
		if !said["Discarded"] || !said["RetentionOver"] {
			return fmt.Errorf("events %v", said)
		}
		return nil
	}))
	s.must(counted(t, "leasehold_dead_letters_expired_total", "Discarded") == expired+1, "it goes uncounted")
}

func TestAReplayedDeadLetterStaysForItsRetention(t *testing.T) {
	s := sideBySide(t, nil)
	_, dead := s.die("order")
	s.ok(s.ask(admin, dead, `{"request": 1}`))
	record := s.untilAnswered(dead, 1)
	s.ok(admin.Patch(t.Context(), dead, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"retentionSeconds":1}}`))))
	s.untilGone(dead)
	s.replayOf(record) // goes on without it
}
