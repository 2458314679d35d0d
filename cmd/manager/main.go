// Command manager is the Leasehold operator.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/admission"
	"github.com/leasehold-io/leasehold/internal/controller"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// Leader election, in the ratios of Kubernetes' own components: a dead leader is replaced within 17 s.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

type options struct {
	metricsAddress  string
	metricsInsecure bool
	probeAddress    string
	leaderElect     bool
	namespace       string
	epochConfigMap  string
	agentImage      string
	agentPullPolicy string
	agentSecrets    string
	concurrency     int
	keepPods        int
	retention       time.Duration
	webhookPort     int
	webhookRotate   bool
	logging         *textlogger.Config
}

func main() {
	if err := run(parse()); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

func parse() *options {
	o := &options{logging: textlogger.NewConfig(textlogger.Verbosity(2))}
	flag.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", "Address of the metrics endpoint; 0 turns it off.")
	flag.BoolVar(&o.metricsInsecure, "metrics-insecure", false, "Serve metrics over HTTP and to anybody.")
	flag.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "Address of /healthz and /readyz.")
	flag.BoolVar(&o.leaderElect, "leader-elect", false, "Act only while holding the leader Lease; needed with more than one replica.")
	flag.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "Namespace of the operator: leader Lease and epoch. Default: $POD_NAMESPACE.")
	flag.StringVar(&o.epochConfigMap, "epoch-configmap", "leasehold-epoch", "ConfigMap that holds the epoch of fencing tokens.")
	flag.StringVar(&o.agentImage, "agent-image", "", "Image of the agent that is injected into worker Pods; by digest in releases. Required.")
	flag.StringVar(&o.agentPullPolicy, "agent-image-pull-policy", string(corev1.PullIfNotPresent), "Pull policy of the agent's image.")
	flag.StringVar(&o.agentSecrets, "agent-image-pull-secrets", "", "Comma-separated names of pull secrets, looked up in the task's namespace.")
	flag.IntVar(&o.concurrency, "concurrency", 16, "Tasks worked on at the same time. With a dozen for all else, it bounds requests in flight, which nothing else throttles.")
	flag.IntVar(&o.keepPods, "keep-finished-pods", 100, "Finished Pods of finished tasks that stay in each namespace, with their logs; the oldest beyond them are deleted.")
	flag.DurationVar(&o.retention, "dead-letter-retention", 0, "How long a dead letter stays that was replayed or discarded, unless it says so itself; 0: until somebody deletes it.")
	flag.IntVar(&o.webhookPort, "webhook-port", 9443, "Port of the webhook that limits how many tasks are made; 0 turns it off.")
	flag.BoolVar(&o.webhookRotate, "webhook-rotate-certificate", true, "Make and renew the webhook's certificate, in the Secret "+admission.ServiceName+"; false: somebody else does, and tells the API server whom to trust.")
	o.logging.AddFlags(flag.CommandLine)
	flag.Parse()
	return o
}

func run(o *options) error {
	if o.agentImage == "" || o.namespace == "" {
		return errors.New("--agent-image and --namespace are required")
	}
	if o.keepPods < 0 || o.retention < 0 {
		return errors.New("--keep-finished-pods and --dead-letter-retention cannot be negative")
	}
	logger := textlogger.NewLogger(o.logging)
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	hook := o.webhook()
	mgr, err := newManager(o, hook)
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	sight, err := controller.Add(ctx, mgr, controller.Options{
		Epoch:       types.NamespacedName{Namespace: o.namespace, Name: o.epochConfigMap},
		Agent:       o.agent(),
		Concurrency: o.concurrency,

		DeadLetterRetention: o.retention,
		KeepPods:            o.keepPods,
	})
	if err != nil {
		return err
	}
	if err := addProbes(mgr, sight); err != nil {
		return err
	}
	if err := addWebhook(ctx, mgr, hook); err != nil {
		return err
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run manager: %w", err)
	}
	return nil
}

func newManager(o *options, hook *admission.Webhook) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("build scheme: %w", err)
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("find the API server: %w", err)
	}
	// No client-side throttle: it would delay verdicts and starve renewals of our own leader Lease. Requests in flight are
	// bounded by --concurrency and a dozen for all else; the API server's priority and fairness does the rest (see the FlowSchemas we ship).
	config.QPS, config.Burst = -1, -1
	metrics := metricsserver.Options{BindAddress: o.metricsAddress}
	if !o.metricsInsecure {
		metrics.SecureServing, metrics.FilterProvider = true, filters.WithAuthenticationAndAuthorization
	}
	options := ctrl.Options{
		Scheme:                        scheme,
		Cache:                         controller.CacheOptions(),
		Metrics:                       metrics,
		HealthProbeBindAddress:        o.probeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "leasehold-manager",
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 new(leaseDuration),
		RenewDeadline:                 new(renewDeadline),
		RetryPeriod:                   new(retryPeriod),
	}
	if hook != nil {
		options.WebhookServer = hook.Server()
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("create manager: %w", err)
	}
	return mgr, nil
}

// webhook is what limits how many tasks are made; nil: nothing does.
func (o *options) webhook() *admission.Webhook {
	if o.webhookPort == 0 {
		return nil
	}
	w := admission.Options{
		Port:   o.webhookPort,
		Secret: types.NamespacedName{Namespace: o.namespace, Name: admission.ServiceName},
		Names:  admission.Names(o.namespace),
	}
	if o.webhookRotate {
		w.Configuration = admission.ConfigurationName
	}
	return admission.New(w)
}

// addWebhook runs it on every replica: the API server asks any.
func addWebhook(ctx context.Context, mgr ctrl.Manager, hook *admission.Webhook) error {
	if hook == nil {
		return nil
	}
	if err := errors.Join(hook.Add(ctx, mgr), mgr.AddReadyzCheck("webhook", hook.Ready())); err != nil {
		return fmt.Errorf("add webhook: %w", err)
	}
	return nil
}

func (o *options) agent() plan.AgentImage {
	agent := plan.AgentImage{Name: o.agentImage, PullPolicy: corev1.PullPolicy(o.agentPullPolicy)}
	for _, name := range strings.FieldsFunc(o.agentSecrets, func(r rune) bool { return r == ',' }) {
		agent.PullSecrets = append(agent.PullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return agent
}

func addProbes(mgr ctrl.Manager, sight *controller.Sight) error {
	ready := func(*http.Request) error {
		if !sight.IsOpen(time.Now()) {
			return errors.New("the API server does not answer")
		}
		return nil
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("sight", ready)); err != nil {
		return fmt.Errorf("add probes: %w", err)
	}
	return nil
}
