package certificate

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	certutil "k8s.io/client-go/util/cert"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const webhookName = "admission"

var (
	names     = []string{"webhook.system.svc", "webhook.system.svc.cluster.local"}
	secretKey = types.NamespacedName{Namespace: "system", Name: "webhook"}
)

// cluster is a Secret and a webhook, and the clock. client-go makes certificates by the real time, so the clock begins there.
type cluster struct {
	*testing.T
	client.WithWatch
	clock *testclock.FakeClock
}

func newCluster(t *testing.T) *cluster {
	hook := admissionregistrationv1.ValidatingWebhook{Name: "admission.example.com"}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhookName}, Webhooks: []admissionregistrationv1.ValidatingWebhook{hook}},
	).Build()
	return &cluster{T: t, WithWatch: c, clock: testclock.NewFakeClock(time.Now())}
}

func (c *cluster) keeper() *Keeper {
	return &Keeper{Live: c, Client: c, Clock: c.clock, Secret: secretKey, Names: names, Webhook: webhookName, Lifetime: 90 * time.Hour, Pause: time.Minute}
}

func (c *cluster) look(keepers ...*Keeper) {
	c.Helper()
	for _, k := range keepers {
		if err := k.look(c.Context()); err != nil {
			c.Fatal(err)
		}
	}
}

func (c *cluster) trusted() []byte {
	c.Helper()
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{}
	if err := c.Get(c.Context(), types.NamespacedName{Name: webhookName}, hook); err != nil {
		c.Fatal(err)
	}
	return hook.Webhooks[0].ClientConfig.CABundle
}

// mustTrust checks what the API server checks when it connects.
func (c *cluster) mustTrust(k *Keeper) *x509.Certificate {
	c.Helper()
	served, err := k.Get(&tls.ClientHelloInfo{})
	if err != nil {
		c.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.trusted())
	for _, name := range names {
		if _, err := served.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: c.clock.Now()}); err != nil {
			c.Fatalf("what is served is not trusted: %v", err)
		}
	}
	return served.Leaf
}

func TestTheFirstLookMakesACertificateThatIsServedAndTrusted(t *testing.T) {
	c := newCluster(t)
	k := c.keeper()
	if k.Ready() == nil {
		t.Error("ready without a certificate")
	}
	if _, err := k.Get(nil); err == nil {
		t.Error("served what is not there")
	}
	c.look(k)
	first := c.mustTrust(k)
	if err := k.Ready(); err != nil {
		t.Error(err)
	}
	c.look(k, k)
	if !c.mustTrust(k).Equal(first) {
		t.Error("a look at a good certificate has changed it")
	}
}

func TestARenewedCertificateIsTrustedBeforeItIsServed(t *testing.T) {
	c := newCluster(t)
	a, b := c.keeper(), c.keeper()
	c.look(a, b)
	old := c.mustTrust(a)
	if !c.mustTrust(b).Equal(old) {
		t.Fatal("two replicas serve different certificates")
	}
	makeDue(a, b)
	c.look(a, b)
	if !c.mustTrust(a).Equal(old) || !c.mustTrust(b).Equal(old) {
		t.Error("what the API server has just been told to trust is served at once")
	}
	c.look(a, b)
	renewed := c.mustTrust(a)
	if renewed.Equal(old) || !c.mustTrust(b).Equal(renewed) {
		t.Error("the replicas do not serve the renewed certificate")
	}
	for range 3 {
		makeDue(a, b)
		c.look(a, b, a, b)
		c.mustTrust(a)
		c.mustTrust(b)
	}
	if n := bytes.Count(c.trusted(), []byte("BEGIN")); n != 2 {
		t.Errorf("%d authorities are trusted, want that of the certificate and the one before", n)
	}
}

// makeDue lets what was made so far look short-lived. The clock cannot: client-go makes certificates by the real time.
func makeDue(keepers ...*Keeper) {
	for _, k := range keepers {
		k.Lifetime *= 4
	}
}

func TestACertificateIsDueBeforeItIsValidAndWhenAThirdIsLeft(t *testing.T) {
	c := newCluster(t)
	k := c.keeper()
	c.look(k)
	for after, want := range map[time.Duration]bool{0: false, 59 * time.Hour: false, 61 * time.Hour: true, 1000 * time.Hour: true,
		-50 * time.Minute: false, -61 * time.Minute: true} { // made by a clock that is ahead
		if got := k.served.Load().isDue(names, k.Lifetime/3, c.clock.Now().Add(after)); got != want {
			t.Errorf("due after %s of 90 h: %v, want %v", after, got, want)
		}
	}
}

func TestACertificateThatNobodyAcceptsIsReplacedAtOnce(t *testing.T) {
	for name, step := range map[string]time.Duration{
		"expired: the replica was frozen, say":               91 * time.Hour,
		"not valid yet: its maker's clock was ahead by more": -2 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			k := c.keeper()
			c.look(k)
			old := k.served.Load()
			c.clock.Step(step)
			c.look(k)
			served := k.served.Load()
			if served.is(old) || !bytes.Contains(c.trusted(), served.authority) {
				t.Error("the old certificate is still served, or the new one not trusted")
			}
			secret := &corev1.Secret{}
			if err := c.Get(t.Context(), secretKey, secret); err != nil {
				t.Fatal(err)
			}
			if stored, err := parse(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]); err != nil || !stored.is(served) {
				t.Errorf("the renewed certificate is not served: %v", err)
			}
		})
	}
}

// TestWhatIsServedStaysTrustedWhenClocksDiffer: one replica has renewed, and another renews at once because that is not valid yet.
// If the first one's clock is ahead, all serve the certificate before that for a pause yet; if the second one's is behind, the first one's.
func TestWhatIsServedStaysTrustedWhenClocksDiffer(t *testing.T) {
	now := time.Now()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	authority := func(begins time.Time) []byte {
		made, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "ca", NotBefore: begins}, key)
		if err != nil {
			t.Fatal(err)
		}
		return encode(made.Raw)
	}
	oldest, old, first, second := authority(now.Add(-2*time.Hour)), authority(now.Add(-time.Hour)), authority(now.Add(time.Hour)), authority(now)
	if got, want := bundle(second, slices.Concat(first, old, oldest), now), slices.Concat(second, first, old); !bytes.Equal(got, want) {
		t.Errorf("trusted:\n%s\nwant the new one, the first one's and the one before:\n%s", got, want)
	}
}

func TestACertificateForOtherNamesAndARuinedOneAreReplaced(t *testing.T) {
	c := newCluster(t)
	k := c.keeper()
	c.look(k)
	moved := c.keeper()
	moved.Names = []string{"webhook.elsewhere.svc"}
	c.look(moved)
	if err := moved.served.Load().serving.Leaf.VerifyHostname("webhook.elsewhere.svc"); err != nil {
		t.Error(err)
	}
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), secretKey, secret); err != nil {
		t.Fatal(err)
	}
	secret.Data[corev1.TLSPrivateKeyKey] = []byte("ruined")
	if err := c.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	c.look(k, k)
	c.mustTrust(k)
}

func TestOfTwoReplicasOneRenews(t *testing.T) {
	c := newCluster(t)
	other := c.keeper()
	isFirst := true
	racing := interceptor.NewClient(c.WithWatch, interceptor.Funcs{Update: func(ctx context.Context, live client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
		if isFirst {
			isFirst = false
			c.look(other)
		}
		return live.Update(ctx, o, opts...)
	}})
	k := c.keeper()
	k.Live, k.Client = racing, racing
	if err := k.look(t.Context()); err == nil {
		t.Fatal("a Secret that another replica has written meanwhile was overwritten")
	}
	c.look(k)
	if !c.mustTrust(k).Equal(c.mustTrust(other)) {
		t.Error("two replicas serve different certificates")
	}
}

func TestSomebodyElsesCertificateIsServedAndNotTouched(t *testing.T) {
	c := newCluster(t)
	maker, k := c.keeper(), c.keeper()
	k.Webhook = ""
	if err := k.look(t.Context()); err == nil || k.Ready() == nil {
		t.Error("an empty Secret is served")
	}
	c.look(maker)
	c.look(k)
	first := c.mustTrust(k)
	makeDue(maker, k)
	c.look(k)
	if !c.mustTrust(k).Equal(first) {
		t.Error("somebody else's certificate was renewed")
	}
	c.look(maker)
	c.look(k, k)
	if c.mustTrust(k).Equal(first) {
		t.Error("what somebody else has renewed is not served")
	}
}

func TestTheKeeperTriesAgainAndServesOn(t *testing.T) {
	c := newCluster(t)
	k := c.keeper()
	c.look(k)
	isDown := errors.New("the API server is down")
	k.Live = interceptor.NewClient(c.WithWatch, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return isDown
	}})
	if err := k.look(t.Context()); !errors.Is(err, isDown) {
		t.Errorf("%v", err)
	}
	c.mustTrust(k)
}
