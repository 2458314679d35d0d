package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// shipment is the task of worker/examples/shipment, with the carrier's address in it.
func (s *story) shipment(c *carrier, change ...func(*v1alpha1.LeasedTask)) *v1alpha1.LeasedTask {
	s.Helper()
	return s.example("shipment", "shipment", `{"to": "Ghent"}`, append(change, func(task *v1alpha1.LeasedTask) {
		for _, template := range []*corev1.PodTemplateSpec{task.Spec.Template, task.Spec.Reconcile.Template} {
			if template != nil {
				template.Spec.Containers[0].Env[0].Value = c.url
			}
		}
	})...)
}

// mustShipOnce checks the end: one shipment, and its answer is the result.
func (s *story) mustShipOnce(c *carrier, task *v1alpha1.LeasedTask, calls, lookUps int) {
	s.Helper()
	s.untilFinished(task)
	posts, found, shipments := s.seen(c)
	s.must(task.Status.Phase == v1alpha1.PhaseCompleted, "task %s", cluster.Describe(task))
	s.must(*task.Status.Result == `{"number":1,"to":"Ghent"}`, "result %q", *task.Status.Result)
	s.must(shipments == 1 && len(posts) == calls && found == lookUps, "%d shipments after %d calls and %d look-ups, want 1 after %d and %d",
		shipments, len(posts), found, calls, lookUps)
	for i, p := range posts {
		s.must(p.key == string(task.UID), "call %d has the key %s", i+1, p.key)
		s.must(i == 0 || p.token > posts[i-1].token, "tokens do not rise: %+v", posts)
	}
}

// mustHave checks the history: "REASON on NODE", oldest first.
func (s *story) mustHave(task *v1alpha1.LeasedTask, reasons ...string) {
	s.Helper()
	var got []string
	for _, h := range task.Status.History {
		got = append(got, h.Reason)
	}
	s.must(strings.Join(got, " ") == strings.Join(reasons, " "), "history %v, want %v: %s", got, reasons, cluster.Describe(task))
}

func TestScenario7TheRetryOnAnotherNodeCarriesTheSameKeyAndTheAPIAnswersWithTheFirstShipment(t *testing.T) {
	s := tell(t, alone)
	c := s.startCarrier(answerLost)
	s.Cleanup(func() { _, _ = s.Kubectl(context.Background(), "uncordon", node1, node2) })
	s.kubectl("cordon", node2)
	task := s.shipment(c, func(task *v1alpha1.LeasedTask) {
		task.Spec.OnLostAttempt, task.Spec.Reconcile = v1alpha1.LostAttemptRetry, v1alpha1.ReconcileSpec{}
	})
	s.untilCalled(c)
	s.kubectl("uncordon", node2)
	s.kubectl("cordon", node1)
	s.resume(c)
	s.mustShipOnce(c, task, 2, 0)
	s.mustHave(task, fencing.ReasonWorkerFailed, fencing.ReasonCompleted)
	h := task.Status.History
	s.must(h[0].NodeName == node1 && h[1].NodeName == node2, "the attempts ran on %s and %s", h[0].NodeName, h[1].NodeName)
}

func TestScenario7WithReconcileTheProbeFindsTheShipmentAndNoSecondCallIsMade(t *testing.T) {
	s := tell(t, sideBySide)
	c := s.startCarrier(answerLost)
	s.resume(c)
	task := s.shipment(c)
	s.mustShipOnce(c, task, 1, 1)
	s.mustHave(task, fencing.ReasonWorkerFailed, "EffectFound")
	h := task.Status.History
	s.must(h[1].ProbeFor == 1 && h[1].FencingToken > h[0].FencingToken && task.Status.Failures == 1, "history %+v", h)
	described := s.kubectl("describe", "lt", "-n", s.namespace, "shipment")
	for _, want := range []string{"Probe 2 for attempt 1 granted", "attempt 1 had its effect", "probe 2 for attempt 1 found its effect"} {
		s.must(strings.Contains(described, want), "kubectl describe does not say %q:\n%s", want, described)
	}
}

func TestScenario7WithReconcileACallThatNeverArrivedIsMadeAgainOnceTheProbeSaysSo(t *testing.T) {
	s := tell(t, sideBySide)
	c := s.startCarrier(requestLost)
	s.resume(c)
	task := s.shipment(c, func(task *v1alpha1.LeasedTask) { task.Spec.Reconcile.SettleSeconds = new(int32(3)) })
	s.mustShipOnce(c, task, 2, 1)
	s.mustHave(task, fencing.ReasonWorkerFailed, "NoEffect", fencing.ReasonCompleted)
	h := task.Status.History
	s.must(h[1].StartTime.Sub(h[0].EndTime.Time) >= 2*time.Second, "the probe did not wait for the call to settle: %+v", h) // whole seconds
}

func (s *story) untilCalled(c *carrier) {
	s.Helper()
	select {
	case <-c.called:
	case <-time.After(patience):
		s.Fatal("nobody calls the carrier")
	}
}
