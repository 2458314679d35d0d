package controller

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/controller/plan/replay"
)

// queueLabels name a TaskQueue: the one object whose name is a label. There are as many as administrators make.
var queueLabels = []string{"namespace", "queue"}

// Metrics. Labels come from closed lists; no object's name is ever a label, but a TaskQueue's, whose series go with it.
var (
	grants = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "leasehold_grants_total", Help: "Terms granted."})
	claims = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "leasehold_claims_total", Help: "Terms claimed by a worker, as recorded."})
	expiries = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "leasehold_expiries_total", Help: "Terms revoked because no renewal was seen for their duration."})
	lateSubmissions = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "leasehold_late_submissions_refused_total", Help: "Submissions refused because their term had been revoked."})
	attempts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_attempts_total", Help: "Attempts that ended, by outcome."}, []string{"outcome"})
	probes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_probes_total", Help: "Probes for uncertain attempts that ended, by their answer, or by their outcome if they gave none."}, []string{"answer"})
	finishedTasks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_tasks_finished_total", Help: "Tasks that reached a final phase, by phase."}, []string{"phase"})
	deadLetters = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_dead_letters_total", Help: "Dead letters made, by the reason of the task's last attempt; Other for one not on the list."}, []string{"reason"})
	replays = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_replays_total", Help: "Replay requests answered, by outcome."}, []string{"outcome"})
	keysEnded = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_keys_ended_total", Help: "Holds, answers and blocks of key Leases that ended, by ground."}, []string{"ground"})
	discards = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "leasehold_dead_letters_discarded_total", Help: "Dead letters that somebody has discarded."})
	expiredDeadLetters = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_dead_letters_expired_total", Help: "Dead letters deleted because their retention was over, by what had settled them."}, []string{"settled"})
	surplusPods = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "leasehold_surplus_pods_deleted_total", Help: "Finished Pods of finished tasks deleted because a namespace had more than are kept."})
	queuePending = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leasehold_queue_pending", Help: "Tasks that wait for their turn in a TaskQueue."}, queueLabels)
	queueRunning = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leasehold_queue_running", Help: "Tasks that hold capacity of a TaskQueue."}, queueLabels)
	queueOldest = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leasehold_queue_oldest_pending_timestamp_seconds", Help: "Since when the task waits that has waited longest in a TaskQueue; none if no task waits."}, queueLabels)
	queueBreaker = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leasehold_queue_breaker_open", Help: "1 while the breaker of a TaskQueue is open or half-open, 0 while it is closed; none if it has none."}, queueLabels)
	decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leasehold_decisions_total", Help: "Passes over a task, by the rule that decided."}, []string{"rule"})
	verdictLag = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "leasehold_verdict_lag_seconds", Help: "Time from when an expiry could first be judged to when it was.",
		Buckets: []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}})
)

func init() {
	metrics.Registry.MustRegister(grants, claims, expiries, lateSubmissions, attempts, probes, finishedTasks, deadLetters, replays,
		discards, expiredDeadLetters, keysEnded, surplusPods, queuePending, queueRunning, queueOldest, queueBreaker, decisions, verdictLag)
}

// measure sets the metrics of a TaskQueue.
func measure(name types.NamespacedName, is *plan.QueueState) {
	set := func(gauge *prometheus.GaugeVec, isThere bool, value float64) {
		if !isThere {
			gauge.DeleteLabelValues(name.Namespace, name.Name)
			return
		}
		gauge.WithLabelValues(name.Namespace, name.Name).Set(value)
	}
	set(queuePending, true, float64(is.Counts.Pending))
	set(queueRunning, true, float64(is.Counts.Running))
	set(queueOldest, !is.Counts.Oldest.IsZero(), float64(is.Counts.Oldest.Unix()))
	open := 0.0
	if is.IsBroken() {
		open = 1
	}
	set(queueBreaker, is.Breaker != nil, open)
}

// unmeasure removes the metrics of a TaskQueue that is gone.
func unmeasure(name types.NamespacedName) {
	for _, gauge := range []*prometheus.GaugeVec{queuePending, queueRunning, queueOldest, queueBreaker} {
		gauge.DeleteLabelValues(name.Namespace, name.Name)
	}
}

func count(c plan.Count) {
	switch c.Counter {
	case plan.CountGrant:
		grants.Inc()
	case plan.CountClaim:
		claims.Inc()
	case plan.CountExpiry:
		expiries.Inc()
	case plan.CountLateSubmission:
		lateSubmissions.Inc()
	case plan.CountAttempt:
		attempts.WithLabelValues(c.Label).Inc()
	case plan.CountProbe:
		probes.WithLabelValues(c.Label).Inc()
	case plan.CountFinished:
		finishedTasks.WithLabelValues(c.Label).Inc()
	case plan.CountDeadLetter:
		deadLetters.WithLabelValues(c.Label).Inc()
	case replay.CountReplay:
		replays.WithLabelValues(c.Label).Inc()
	case replay.CountDiscard:
		discards.Inc()
	case replay.CountExpired:
		expiredDeadLetters.WithLabelValues(c.Label).Inc()
	}
}
