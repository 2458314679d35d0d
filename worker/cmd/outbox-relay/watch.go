package main

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

// watch turns the relay's hooks into health and metrics.
type watch struct {
	now      func() time.Time
	patience time.Duration // the longest time between two rounds of a relay that is well
	registry *prometheus.Registry

	delivered prometheus.Counter
	failed    *prometheus.CounterVec
	rounds    *prometheus.CounterVec
	age       prometheus.Histogram

	mu          sync.Mutex
	lastRound   time.Time
	lastTouched time.Time // a round that the database took part in
}

func newWatch(now func() time.Time, c postgres.Config) *watch {
	w := &watch{now: now, registry: prometheus.NewRegistry(), lastRound: now(),
		patience: c.BatchTimeout + c.DeliveryTimeout + c.Poll + time.Minute,
		delivered: prometheus.NewCounter(prometheus.CounterOpts{Name: "outbox_delivered_total",
			Help: "Deliveries that the sink took, repeats included."}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "outbox_failed_deliveries_total",
			Help: "Deliveries that the sink did not take, by what follows: wait (an outage), retry, park."}, []string{"verdict"}),
		rounds: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "outbox_rounds_total",
			Help: "Looks into the table, by how they ended: ok, empty, outage (of the sink), error (of the database)."}, []string{"outcome"}),
		age: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "outbox_event_age_seconds",
			Help:    "Age of events when they are claimed for the delivery that succeeds.",
			Buckets: []float64{.01, .05, .1, .5, 1, 5, 30, 60, 300, 1800, 3600, 21600, 86400}}),
	}
	w.registry.MustRegister(w.delivered, w.failed, w.rounds, w.age)
	return w
}

var verdicts = map[outbox.Verdict]string{outbox.Wait: "wait", outbox.Retry: "retry", outbox.Park: "park"}

func (w *watch) hooks() postgres.Hooks {
	return postgres.Hooks{
		Delivered: func(_ outbox.Event, age time.Duration) {
			w.delivered.Inc()
			w.age.Observe(age.Seconds())
		},
		Failed: func(_ outbox.Event, verdict outbox.Verdict, _ error) {
			w.failed.WithLabelValues(verdicts[verdict]).Inc()
		},
		Round: w.round,
	}
}

func (w *watch) round(r postgres.Round) {
	outcome := "ok"
	switch {
	case r.Err != nil:
		outcome = "error"
	case r.Outage:
		outcome = "outage"
	case r.Claimed == 0:
		outcome = "empty"
	}
	w.rounds.WithLabelValues(outcome).Inc()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastRound = w.now()
	if r.Err == nil {
		w.lastTouched = w.lastRound
	}
}

// handler: /healthz fails when the relay hangs, which a restart may cure. /readyz fails while the database is away, which it does
// not. An outage of the sink is neither; the metrics tell.
func (w *watch) handler() http.Handler {
	mux := http.NewServeMux()
	probe := func(last *time.Time, what string) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) {
			w.mu.Lock()
			silence := w.now().Sub(*last)
			w.mu.Unlock()
			if silence > w.patience {
				http.Error(rw, "no "+what+" for too long", http.StatusServiceUnavailable)
				return
			}
			_, _ = fmt.Fprintln(rw, "ok")
		}
	}
	mux.HandleFunc("GET /healthz", probe(&w.lastRound, "round"))
	mux.HandleFunc("GET /readyz", probe(&w.lastTouched, "round with the database"))
	mux.Handle("GET /metrics", promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{}))
	return mux
}
