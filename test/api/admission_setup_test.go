package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/admission"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// webhook is the one that we ship, for the namespace of a scene, and served in this process.
type webhook struct {
	*scene
	config   *admissionregistrationv1.ValidatingWebhookConfiguration
	replicas []*replica
	lifetime time.Duration // of certificates; 0: the usual
}

// replica is one that serves it.
type replica struct {
	hook    *admission.Webhook
	address string
	end     context.CancelFunc
}

// webhookWith installs the webhook; its changes are made before. Tasks whose names end with "-0" go to replica 0, and so on.
func (s *scene) webhookWith(replicas int, change ...func(*webhook)) *webhook {
	s.Helper()
	w := &webhook{scene: s, config: &admissionregistrationv1.ValidatingWebhookConfiguration{}}
	raw, err := os.ReadFile(filepath.Join("..", "..", "config", "webhook", "webhook.yaml"))
	s.ok(err)
	s.ok(yaml.UnmarshalStrict(raw, w.config))
	shipped := w.config.Webhooks[0]
	shipped.FailurePolicy = new(admissionregistrationv1.Fail) // else what a loaded machine answers late would be let in
	shipped.TimeoutSeconds = new(int32(10))
	shipped.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}}
	w.config.Name = "admission-" + s.namespace
	w.config.Webhooks = nil
	for i := range replicas {
		address := freeAddress(s)
		hook := *shipped.DeepCopy()
		hook.Name = fmt.Sprintf("replica-%d.%s", i, shipped.Name)
		hook.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: new("https://" + address + admission.Path)}
		hook.MatchConditions = append(hook.MatchConditions, admissionregistrationv1.MatchCondition{
			Name: "asks-this-replica", Expression: fmt.Sprintf("object.metadata.name.endsWith('-%d')", i)})
		w.config.Webhooks = append(w.config.Webhooks, hook)
		w.replicas = append(w.replicas, &replica{address: address})
	}
	for _, c := range change {
		c(w)
	}
	s.ok(admin.Create(s.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: admission.ServiceName}}))
	s.ok(admin.Create(s.Context(), w.config))
	s.Cleanup(func() { _ = admin.Delete(context.Background(), w.config) })
	for i := range w.replicas {
		w.start(i)
	}
	w.untilAsked()
	return w
}

func freeAddress(s *scene) string {
	s.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.ok(err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// start runs a replica, as cmd/manager does, but for the controllers.
func (w *webhook) start(i int) {
	w.Helper()
	r := w.replicas[i]
	host, port, err := net.SplitHostPort(r.address)
	w.ok(err)
	number, err := strconv.Atoi(port)
	w.ok(err)
	r.hook = admission.New(admission.Options{
		Host: host, Port: number, Names: []string{host}, Configuration: w.config.Name,
		Secret:   types.NamespacedName{Namespace: w.namespace, Name: admission.ServiceName},
		Lifetime: w.lifetime, Pause: 300 * time.Millisecond,
	})
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: admin.Scheme(), WebhookServer: r.hook.Server(),
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}}, Metrics: metricsserver.Options{BindAddress: "0"}})
	w.ok(err)
	ctx, end := context.WithCancel(w.Context())
	ended := make(chan struct{})
	r.end = func() {
		end()
		<-ended
	}
	w.Cleanup(r.end)
	w.ok(r.hook.Add(ctx, mgr))
	go func() {
		defer close(ended)
		if err := mgr.Start(ctx); err != nil {
			w.Errorf("replica %d: %v", i, err)
		}
	}()
	w.ok(w.Poll(w.Context(), patience, func() error { return r.hook.Ready()(nil) }))
}

// untilAsked waits until the API server asks every replica. A queue that is full tells: a dry run is refused.
func (w *webhook) untilAsked() {
	w.Helper()
	w.limitedQueue("full", v1alpha1.AdmissionSpec{MaxPending: 1})
	w.ok(admin.Create(w.Context(), w.task("waits-for-ever", "full")))
	for i := range w.replicas {
		w.ok(w.Poll(w.Context(), patience, func() error {
			a := w.post(w.task(fmt.Sprintf("asked-%d", i), "full"), dryRun)
			if a.code != http.StatusTooManyRequests {
				return fmt.Errorf("replica %d is not asked yet: %s", i, a)
			}
			return nil
		}))
	}
}

// limitedQueue makes a queue, and waits until every replica that runs knows it.
func (s *scene) limitedQueue(name string, a v1alpha1.AdmissionSpec) {
	s.Helper()
	queue := &v1alpha1.TaskQueue{Spec: v1alpha1.TaskQueueSpec{Admission: a}}
	queue.Namespace, queue.Name = s.namespace, name
	s.ok(admin.Create(s.Context(), queue))
	time.Sleep(500 * time.Millisecond) // no answer tells that a limit is known without using it up
}

// task is one for a queue that nothing ever starts: the operator of this process leaves it alone.
func (s *scene) task(name, queue string) *v1alpha1.LeasedTask {
	task := cluster.Task(s.namespace, name, "true")
	task.Labels = map[string]string{handDriven: ""}
	task.Spec.QueueName = queue
	return task
}

// queueOf is a queue as somebody writes it; a typed one would leave zeros out.
func queueOf(namespace, name string, admission map[string]any) *unstructured.Unstructured {
	queue := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"admission": numbersOf(admission)}}}
	queue.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TaskQueue"))
	queue.SetNamespace(namespace)
	queue.SetName(name)
	return queue
}

// numbersOf turns numbers into those that JSON has.
func numbersOf(in map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range in {
		switch v := v.(type) {
		case int:
			out[k] = int64(v)
		case map[string]any:
			out[k] = numbersOf(v)
		default:
			out[k] = v
		}
	}
	return out
}

const dryRun = "?dryRun=All"

// reply is what the API server says to a client that repeats nothing.
type reply struct {
	code       int
	retryAfter string
	status     metav1.Status
}

func (a reply) String() string {
	return fmt.Sprintf("%d, Retry-After %q, %s: %s", a.code, a.retryAfter, a.status.Reason, a.status.Message)
}

// post makes a task over plain HTTP.
func (s *scene) post(task *v1alpha1.LeasedTask, query string) reply {
	s.Helper()
	a, err := s.tryPost(task, query)
	s.ok(err)
	return a
}

func (s *scene) tryPost(task *v1alpha1.LeasedTask, query string) (a reply, err error) {
	task.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LeasedTask"))
	body, err := json.Marshal(task)
	if err != nil {
		return a, err
	}
	plain, err := rest.HTTPClientFor(config)
	if err != nil {
		return a, err
	}
	url := fmt.Sprintf("%s/apis/%s/namespaces/%s/leasedtasks%s", strings.TrimSuffix(config.Host, "/"), v1alpha1.GroupVersion, task.Namespace, query)
	response, err := plain.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	a.code, a.retryAfter = response.StatusCode, response.Header.Get("Retry-After")
	raw, err := io.ReadAll(response.Body)
	if err == nil && a.code >= http.StatusBadRequest {
		err = json.Unmarshal(raw, &a.status)
	}
	return a, err
}
