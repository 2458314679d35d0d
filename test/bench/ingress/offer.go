package ingress

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// QueueName is the queue that Queue makes and tasks are for.
const QueueName = "ingress"

// Load is what is offered.
type Load struct {
	Namespace string
	Rate      int           // tasks a second that the queue takes
	Factor    int           // how many times that is offered
	Length    time.Duration // for how long
}

// Queue is the queue for a load. It runs few tasks at once: the load is for its entrance.
func (l Load) Queue() *v1alpha1.TaskQueue {
	queue := &v1alpha1.TaskQueue{Spec: v1alpha1.TaskQueueSpec{Concurrency: 8, Admission: v1alpha1.AdmissionSpec{Rate: int32(l.Rate)}}}
	queue.Namespace, queue.Name = l.Namespace, QueueName
	return queue
}

func (l Load) task(i int) *v1alpha1.LeasedTask {
	task := cluster.Task(l.Namespace, fmt.Sprintf("offered-%d", i), "true")
	task.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LeasedTask"))
	task.Spec.QueueName = QueueName
	return task
}

// Offer offers the load and returns what became of it.
func (l Load) Offer(ctx context.Context, config *rest.Config) (*Record, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	p := producer{url: fmt.Sprintf("%s/apis/%s/namespaces/%s/leasedtasks", strings.TrimSuffix(config.Host, "/"), v1alpha1.GroupVersion, l.Namespace)}
	var err error
	if p.client, err = rest.HTTPClientFor(config); err != nil {
		return nil, err
	}
	count := l.Rate * l.Factor * int(l.Length.Seconds())
	record := &Record{Load: l, Answers: make([]Answer, count)}
	problems := make([]error, count)
	var all sync.WaitGroup
	begun := time.Now()
	for i := range count {
		at := time.Duration(i) * l.Length / time.Duration(count)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Until(begun.Add(at))):
		}
		all.Go(func() {
			record.Answers[i], problems[i] = p.offer(ctx, l.task(i))
			record.Answers[i].At = at
		})
	}
	all.Wait()
	return record, errors.Join(problems...)
}

// producer makes tasks over plain HTTP: client-go's clients would wait out a refusal.
type producer struct {
	client *http.Client
	url    string
}

func (p *producer) offer(ctx context.Context, task *v1alpha1.LeasedTask) (a Answer, err error) {
	body, err := json.Marshal(task)
	if err != nil {
		return a, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	request.Header.Set("Content-Type", "application/json")
	begun := time.Now()
	response, err := p.client.Do(request)
	if err != nil {
		return a, err
	}
	raw, err := io.ReadAll(response.Body)
	a.Took = time.Since(begun)
	a.Name, a.Code, a.RetryAfter = task.Name, response.StatusCode, response.Header.Get("Retry-After")
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return a, err
	}
	if !a.IsAccepted() && !a.IsRefused() {
		status := metav1.Status{}
		_ = json.Unmarshal(raw, &status)
		return a, fmt.Errorf("task %s: %d %s", task.Name, a.Code, status.Message)
	}
	return a, nil
}
