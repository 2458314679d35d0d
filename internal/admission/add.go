package admission

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/leasehold-io/leasehold/internal/admission/certificate"
)

// +kubebuilder:rbac:groups=leasehold.io,resources=leasedtasks;taskqueues,verbs=get;list;watch

// Names of what belongs to the webhook: its Service and its Secret, and its configuration.
const (
	ServiceName       = "leasehold-webhook"
	ConfigurationName = "leasehold-admission"
)

// Options is what a webhook is told.
type Options struct {
	Host string // to listen at; empty: all addresses
	Port int
	// Secret holds the certificate; Names are whom it is for. Configuration is the webhook's, which is told whom to trust; empty:
	// somebody else, cert-manager for example, makes the certificate and does that.
	Secret        types.NamespacedName
	Names         []string
	Configuration string
	// Lifetime of a certificate, and Pause between two looks at it; 0: the usual.
	Lifetime, Pause time.Duration
}

// Names are the DNS names of the webhook's Service in a namespace.
func Names(namespace string) []string {
	short := ServiceName + "." + namespace + ".svc"
	return []string{short, short + ".cluster.local"}
}

// Webhook is the webhook of one replica.
type Webhook struct {
	ledger *Ledger
	keeper *certificate.Keeper
	server webhook.Server
}

// New prepares a webhook, whose server the manager is made with.
func New(o Options) *Webhook {
	w := &Webhook{ledger: NewLedger(), keeper: &certificate.Keeper{
		Clock: clock.RealClock{}, Secret: o.Secret, Names: o.Names, Webhook: o.Configuration, Lifetime: o.Lifetime, Pause: o.Pause,
	}}
	if o.Lifetime == 0 {
		w.keeper.Lifetime = certificate.Lifetime
	}
	if o.Pause == 0 {
		w.keeper.Pause = certificate.Pause
	}
	w.server = webhook.NewServer(webhook.Options{Host: o.Host, Port: o.Port, TLSOpts: []func(*tls.Config){
		func(c *tls.Config) { c.GetCertificate = w.keeper.Get },
	}})
	return w
}

// Server is the server that the manager runs, on every replica.
func (w *Webhook) Server() webhook.Server { return w.server }

// Add lets the manager run the webhook.
func (w *Webhook) Add(ctx context.Context, mgr ctrl.Manager) error {
	c := clock.RealClock{}
	w.keeper.Live, w.keeper.Client = mgr.GetAPIReader(), mgr.GetClient()
	f := &feed{ledger: w.ledger, clock: c}
	if err := f.follow(ctx, mgr.GetCache()); err != nil {
		return err
	}
	mgr.GetWebhookServer().Register(Path, newHandler(w.ledger, c))
	if err := errors.Join(mgr.Add(f), mgr.Add(w.keeper)); err != nil {
		return fmt.Errorf("add webhook: %w", err)
	}
	return nil
}

// Ready is a probe: a replica is ready when it can answer.
func (w *Webhook) Ready() healthz.Checker {
	return func(r *http.Request) error {
		if !w.ledger.IsOpen() {
			return errors.New("not all tasks and queues have been seen yet")
		}
		if err := w.keeper.Ready(); err != nil {
			return err
		}
		return w.server.StartedChecker()(r)
	}
}
