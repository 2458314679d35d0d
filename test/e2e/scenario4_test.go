package e2e

import (
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/test/bench/outage"
)

// TestScenario4RetryStorm: a gateway fails all tasks of a queue in the same moment and goes on so. Their next attempts are spread as full
// jitter says, the queue's breaker opens and lets one try at a time, and closes for all once that has succeeded. All complete.
//
// Two cores start a few Pods in a second: 40 tasks stand for the scenario's 500, and 42 s for its minute. The bound of the pause is
// half of the outage, and the breaker is open for a sixth of it, as there.
func TestScenario4RetryStorm(t *testing.T) {
	s := tell(t, alone)
	s.leader()
	load := outage.Load{Namespace: s.namespace, Listen: hostAddress + ":0", Tasks: 40, Length: 42 * time.Second, Bound: 21 * time.Second, Open: 7 * time.Second}
	r, err := outage.Measure(s.ctx, s.Cluster, load, 2*patience)
	s.ok(err)
	s.Logf("\n%s", r.Table())
	for _, wrong := range r.Judge() {
		s.Error(wrong)
	}
}
