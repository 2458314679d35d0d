package outage

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/leasehold-io/leasehold/api/env"
	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
)

const (
	// QueueName is the queue of the tasks.
	QueueName = "gateway"
	// GatewayVariable has the gateway's address in the workers' environment.
	GatewayVariable = "GATEWAY"
	// probes is how many attempts the queue's breaker lets try.
	probes = 1
	// script is a worker: one call, and no patience of its own.
	script = `exec wget -q -O /dev/null "$` + GatewayVariable + `/?task=$` + env.Task + `&attempt=$` + env.Attempt + `"`
)

// Load is the storm.
type Load struct {
	Namespace string
	Listen    string          // address of the gateway, which workers can reach
	Tasks     int             // that call at the same time
	Length    time.Duration   // of the outage, from the first answer on
	Bound     time.Duration   // of the pause before the next attempt
	Open      time.Duration   // how long the breaker is open before it lets one try
	Jitter    v1alpha1.Jitter // of the pause
}

// Validate says what of a load would show nothing.
func (l Load) Validate() error {
	switch {
	case l.Tasks < 20:
		return errors.New("fewer than 20 tasks say nothing of how they are spread")
	case l.Bound < time.Second || l.Open < time.Second || l.Bound%time.Second != 0 || l.Open%time.Second != 0:
		return errors.New("the bound of the pause and the time that the breaker is open are whole seconds, at least one")
	case l.Length <= l.Bound:
		return errors.New("the outage must outlast the bound of the pause: else no retry fails, and the breaker has no cause to open")
	case l.Bound > time.Hour/2 || l.Length > time.Hour/2:
		return errors.New("half an hour is the longest outage, and the longest pause: the breaker's window is twice that")
	case l.Tasks > 6000:
		return errors.New("6000 tasks are the most that a breaker counts together with their retries")
	}
	return nil
}

// Queue is the queue for a load. No limit of it spreads the starts. Its breaker opens when the gateway has failed every task once and
// every second one again: earlier, and there were no retries to look at.
func (l Load) Queue() *v1alpha1.TaskQueue {
	queue := &v1alpha1.TaskQueue{Spec: v1alpha1.TaskQueueSpec{Breaker: v1alpha1.BreakerSpec{
		SameFailures: int32(l.Tasks + l.Tasks/2), WindowSeconds: seconds(2 * l.Length), OpenSeconds: seconds(l.Open), Probes: probes,
	}}}
	queue.Namespace, queue.Name = l.Namespace, QueueName
	return queue
}

func (l Load) task(i int, gateway string) *v1alpha1.LeasedTask {
	task := cluster.Task(l.Namespace, fmt.Sprintf("caller-%d", i), script)
	task.Spec.QueueName = QueueName
	task.Spec.Lease.DurationSeconds = 60 // the machine may be busy, and a lost lease is another story
	task.Spec.Retry = v1alpha1.RetrySpec{MaxAttempts: 50, Backoff: v1alpha1.BackoffSpec{
		InitialSeconds: seconds(l.Bound), MaxSeconds: seconds(l.Bound), Jitter: l.Jitter,
	}}
	task.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: GatewayVariable, Value: gateway}}
	return task
}

func seconds(d time.Duration) int32 { return int32(d / time.Second) }

// mean is how many attempts start in a second if the jitter is full.
func (l Load) mean() float64 { return float64(l.Tasks) / l.Bound.Seconds() }
