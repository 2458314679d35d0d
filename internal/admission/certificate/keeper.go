package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingwebhookconfigurations,resourceNames=leasehold-admission,verbs=get;patch

const (
	// Lifetime of a certificate. It is renewed when a third of it is left.
	Lifetime = 365 * 24 * time.Hour
	// Pause between two looks at the Secret. A renewed certificate is served at the second look that finds it: a pause after the API
	// server was told to trust it.
	Pause = time.Minute
	// retry is the pause after a look that failed.
	retry = time.Second
)

// Keeper keeps the certificate of one replica. All replicas do the same, and the Secret's resourceVersion decides who renews it.
type Keeper struct {
	Live   client.Reader
	Client client.Writer
	Clock  clock.Clock

	Secret types.NamespacedName
	Names  []string // DNS names that the certificate is for; the first may be an IP address
	// Webhook is the ValidatingWebhookConfiguration that is told whom to trust. Empty: somebody else makes the certificate and tells it,
	// and the keeper only serves what the Secret holds.
	Webhook         string
	Lifetime, Pause time.Duration

	found  *pair // at the last look
	served atomic.Pointer[pair]
}

// NeedLeaderElection is false: every replica serves.
func (k *Keeper) NeedLeaderElection() bool { return false }

// Start looks at the Secret until the context ends. What it cannot do it tries again: the certificate that is served is good for months.
func (k *Keeper) Start(ctx context.Context) error {
	for {
		pause := k.Pause
		switch err := k.look(ctx); {
		case err == nil || ctx.Err() != nil:
		case apierrors.IsConflict(err): // another replica does the same
			pause = retry
		default:
			log.FromContext(ctx).Error(err, "Could not keep the webhook's certificate, will try again", "secret", k.Secret)
			pause = retry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.Clock.After(pause):
		}
	}
}

// Ready reports why nothing is served, if so.
func (k *Keeper) Ready() error {
	if k.served.Load() == nil {
		return fmt.Errorf("there is no certificate in the Secret %s yet", k.Secret)
	}
	return nil
}

// Get is for tls.Config.
func (k *Keeper) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p := k.served.Load()
	if p == nil {
		return nil, errors.New("there is no certificate yet")
	}
	return p.serving, nil
}

func (k *Keeper) look(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := k.Live.Get(ctx, k.Secret, secret); err != nil {
		return fmt.Errorf("get Secret: %w", err)
	}
	found, err := parse(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	switch {
	case k.Webhook == "" && err != nil:
		return fmt.Errorf("read Secret: %w", err)
	case k.Webhook == "":
	default:
		if err != nil || found.isDue(k.Names, k.Lifetime/3, k.Clock.Now()) {
			if found, err = k.renew(ctx, secret); err != nil {
				return err
			}
		}
		if err = k.tell(ctx, found.authority); err != nil {
			return err
		}
	}
	// The API server needs a moment to learn whom to trust; meanwhile it trusts the old certificate, too.
	if found.is(k.found) || !k.served.Load().isValid(k.Clock.Now()) {
		k.served.Store(found)
	}
	k.found = found
	return nil
}

// renew writes a new certificate into the Secret. Of two replicas one is refused, and finds the other's at its next look.
func (k *Keeper) renew(ctx context.Context, secret *corev1.Secret) (*pair, error) {
	chain, key, err := generate(k.Names, k.Lifetime)
	if err != nil {
		return nil, fmt.Errorf("generate certificate: %w", err)
	}
	secret.Data = map[string][]byte{corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: key}
	if err := k.Client.Update(ctx, secret); err != nil {
		return nil, fmt.Errorf("update Secret: %w", err)
	}
	log.FromContext(ctx).Info("Renewed the webhook's certificate", "secret", k.Secret)
	return parse(chain, key)
}

// tell lets the API server trust the authority. Where there is no webhook nobody needs to be told.
func (k *Keeper) tell(ctx context.Context, authority []byte) error {
	webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := k.Live.Get(ctx, types.NamespacedName{Name: k.Webhook}, webhook); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("get ValidatingWebhookConfiguration: %w", err)
	}
	before := webhook.DeepCopy()
	for i := range webhook.Webhooks {
		trusted := &webhook.Webhooks[i].ClientConfig.CABundle
		if !bytes.Contains(*trusted, authority) {
			*trusted = bundle(authority, *trusted, k.Clock.Now())
		}
	}
	if equality.Semantic.DeepEqual(before, webhook) {
		return nil
	}
	if err := k.Client.Patch(ctx, webhook, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("patch ValidatingWebhookConfiguration: %w", err)
	}
	return nil
}
