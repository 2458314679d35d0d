package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
)

const (
	headers = `--header "Idempotency-Key: $LEASEHOLD_IDEMPOTENCY_KEY" --header "Fencing-Token: $LEASEHOLD_FENCING_TOKEN"`
	// shipIt asks the carrier to ship; its answer is the result.
	shipIt = `wget -q -O "$LEASEHOLD_RESULT_FILE" ` + headers + ` --post-data "to=$(cat "$LEASEHOLD_PAYLOAD_FILE")" %s/shipments`
	// findIt is the probe: it must tell "nothing there" from "cannot tell", which wget ends with one exit code.
	findIt = `said=$(wget -q -O "$LEASEHOLD_RESULT_FILE" ` + headers + ` "%s/shipments/$LEASEHOLD_IDEMPOTENCY_KEY" 2>&1) && exit 0
echo "$said"; case "$said" in *" 404 "*) exit 1;; esac; exit 2`
)

func shipment(c *carrier, changes ...func(*v1alpha1.LeasedTask)) (script string, change func(*v1alpha1.LeasedTask)) {
	return fmt.Sprintf(shipIt, c.url), func(task *v1alpha1.LeasedTask) {
		task.Spec.Payload = new("Ghent")
		for _, change := range changes {
			change(task)
		}
	}
}

// probed lets a probe look for the shipment.
func probed(c *carrier) func(*v1alpha1.LeasedTask) {
	return func(task *v1alpha1.LeasedTask) {
		task.Spec.OnLostAttempt = v1alpha1.LostAttemptReconcile
		task.Spec.Reconcile = v1alpha1.ReconcileSpec{Template: cluster.Task("", "", fmt.Sprintf(findIt, c.url)).Spec.Template}
	}
}

// mustShipOnce checks the end: one shipment, and its answer is the result.
func (s *story) mustShipOnce(c *carrier, task *v1alpha1.LeasedTask, calls, lookUps int) {
	s.Helper()
	s.untilFinished(task)
	posts, found, shipments := c.seen()
	s.must(task.Status.Phase == v1alpha1.PhaseCompleted, "task %s", cluster.Describe(task))
	s.must(*task.Status.Result == "shipment 1 for Ghent", "result %q", *task.Status.Result)
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
	script, change := shipment(c)
	task := s.start("shipment", script, change)
	s.untilCalled(c)
	s.kubectl("uncordon", node2)
	s.kubectl("cordon", node1)
	close(c.resume)
	s.mustShipOnce(c, task, 2, 0)
	s.mustHave(task, fencing.ReasonNonZeroExit, fencing.ReasonCompleted)
	h := task.Status.History
	s.must(h[0].NodeName == node1 && h[1].NodeName == node2, "the attempts ran on %s and %s", h[0].NodeName, h[1].NodeName)
}

func TestScenario7WithReconcileTheProbeFindsTheShipmentAndNoSecondCallIsMade(t *testing.T) {
	s := tell(t, sideBySide)
	c := s.startCarrier(answerLost)
	close(c.resume)
	script, change := shipment(c, probed(c))
	task := s.start("shipment", script, change)
	s.mustShipOnce(c, task, 1, 1)
	s.mustHave(task, fencing.ReasonNonZeroExit, "EffectFound")
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
	close(c.resume)
	script, change := shipment(c, probed(c), func(task *v1alpha1.LeasedTask) { task.Spec.Reconcile.SettleSeconds = new(int32(3)) })
	task := s.start("shipment", script, change)
	s.mustShipOnce(c, task, 2, 1)
	s.mustHave(task, fencing.ReasonNonZeroExit, "NoEffect", fencing.ReasonCompleted)
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
