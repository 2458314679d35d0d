package admission

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/leasehold-io/leasehold/internal/admission/gate"
)

// Metrics, by queues that exist. Each replica counts the questions that it has answered.
var (
	accepted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_admission_accepted_total", Help: "New tasks that a queue's admission has accepted."}, []string{"namespace", "queue"})
	refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_admission_refused_total", Help: "New tasks that a queue's admission has refused, by the limit."}, []string{"namespace", "queue", "reason"})
)

func init() {
	metrics.Registry.MustRegister(accepted, refused)
}

func count(queue types.NamespacedName, reason gate.Reason) {
	if reason == gate.Admitted {
		accepted.WithLabelValues(queue.Namespace, queue.Name).Inc()
		return
	}
	refused.WithLabelValues(queue.Namespace, queue.Name, string(reason)).Inc()
}

// forgetCounts removes the series of a queue that is gone.
func forgetCounts(queue types.NamespacedName) {
	of := prometheus.Labels{"namespace": queue.Namespace, "queue": queue.Name}
	accepted.DeletePartialMatch(of)
	refused.DeletePartialMatch(of)
}
