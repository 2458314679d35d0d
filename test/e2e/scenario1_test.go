package e2e

import (
	"strconv"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/bench/ingress"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// TestScenario1ThunderingHerdAtIngress: a queue that takes R tasks a second is offered ten times as many for half a minute. What is
// above the limit is refused with 429 and Retry-After within a second, what is accepted takes no longer, the operator's memory does not grow with
// what was refused, and every accepted task runs.
func TestScenario1ThunderingHerdAtIngress(t *testing.T) {
	s := tell(t, alone)
	s.leader() // both replicas answer
	const rate, replicas = 1, 2
	load := ingress.Load{Namespace: s.namespace, Rate: rate, Factor: 10, Length: 30 * time.Second}
	r, err := ingress.Measure(s.ctx, s.Cluster, load)
	s.ok(err)
	s.Logf("\n%s", r.Table())

	// No more than the bound; a little less where answers take seconds, for what is not asked for in time is not given later.
	const news = 2 // seconds that a watch event may take on a loaded machine
	seconds := int(load.Length.Seconds())
	accepted, refused := r.Count(ingress.Answer.IsAccepted), r.Count(ingress.Answer.IsRefused)
	s.must(accepted+refused == 10*rate*seconds, "%d accepted and %d refused of %d", accepted, refused, 10*rate*seconds)
	s.must(accepted >= rate*seconds*2/3 && accepted <= rate*seconds+replicas*(rate+rate*news), "%d accepted of %d a second in %d s", accepted, rate, seconds)
	for _, a := range r.Answers {
		if seconds, err := strconv.Atoi(a.RetryAfter); a.IsRefused() && (err != nil || seconds < 1 || seconds > 60) {
			t.Errorf("task %s was refused with Retry-After %q", a.Name, a.RetryAfter)
		}
	}
	const busy = 10 * time.Second // the goal is one second; this machine runs the cluster, its Pods and its clients on a core or two
	for what, is := range map[string]func(ingress.Answer) bool{"accepted": ingress.Answer.IsAccepted, "refused": ingress.Answer.IsRefused} {
		s.must(r.Latency(is, 99) < busy, "one in a hundred of those %s took %s", what, r.Latency(is, 99))
	}
	s.must(r.Growth() < 16<<20, "the operator's heap grew by %.1f MiB", r.Growth()/(1<<20))

	tasks := &v1alpha1.LeasedTaskList{}
	s.ok(s.List(s.ctx, tasks, client.InNamespace(s.namespace)))
	s.must(len(tasks.Items) == accepted, "%d tasks are there, %d were accepted", len(tasks.Items), accepted)
	for i := range tasks.Items {
		s.untilFinished(&tasks.Items[i])
		s.must(tasks.Items[i].Status.Phase == v1alpha1.PhaseCompleted, "an accepted task did not run: %s", cluster.Describe(&tasks.Items[i]))
	}
}
