package kubernetes_test

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/leasehold-io/leasehold/worker/guard"
	"github.com/leasehold-io/leasehold/worker/guard/conformance"
	"github.com/leasehold-io/leasehold/worker/guard/kubernetes"
)

// cluster is the API server of this test binary.
var cluster *rest.Config

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "SKIP: KUBEBUILDER_ASSETS does not name a directory with kube-apiserver and etcd")
		_ = flag.Set("test.skip", "^Example")
		os.Exit(m.Run())
	}
	environment := &envtest.Environment{}
	config, err := environment.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	config.QPS = -1
	cluster = config
	code := m.Run()
	if err := environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// configMaps connects to the API server at an address of its own.
func configMaps(tb testing.TB, address string) typedv1.ConfigMapInterface {
	tb.Helper()
	if cluster == nil {
		tb.Skip("SKIP: there is no API server")
	}
	config := rest.CopyConfig(cluster)
	if address != "" {
		config.Host = "https://" + address
	}
	// A transport of its own: client-go would share connections between all with the same credentials.
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		tb.Fatal(err)
	}
	security.ServerName, security.NextProtos = "localhost", []string{"http/1.1"}
	security.MinVersion = tls.VersionTLS12
	transport := &http.Transport{TLSClientConfig: security, MaxIdleConnsPerHost: 1}
	tb.Cleanup(transport.CloseIdleConnections)
	config.TLSClientConfig = rest.TLSClientConfig{}
	config.Transport = transport
	client, err := typedv1.NewForConfig(config)
	if err != nil {
		tb.Fatal(err)
	}
	return client.ConfigMaps("default")
}

type register struct {
	typedv1.ConfigMapInterface
	write func(ctx context.Context, r register, name string, token guard.Token, value string) error
}

func (r register) Write(ctx context.Context, name string, token guard.Token, value string) error {
	return r.write(ctx, r, name, token, value)
}

func (r register) Read(ctx context.Context, name string) (conformance.State, error) {
	object, err := r.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return conformance.State{}, nil
	}
	if err != nil {
		return conformance.State{}, err
	}
	mark, err := kubernetes.Mark(object)
	return conformance.State{Value: object.Data["value"], Mark: mark}, err
}

func empty() *corev1.ConfigMap { return &corev1.ConfigMap{} }

func set(value string) func(*corev1.ConfigMap) error {
	return func(object *corev1.ConfigMap) error {
		object.Data = map[string]string{"value": value}
		return nil
	}
}

func guarded(ctx context.Context, r register, name string, token guard.Token, value string) error {
	_, err := kubernetes.CreateOrUpdate(ctx, r, name, token, empty, set(value))
	return err
}

// checkThenWrite is what a guard must not be: the mark is raised, and then the value follows whatever came between.
func checkThenWrite(ctx context.Context, r register, name string, token guard.Token, value string) error {
	object, err := kubernetes.CreateOrUpdate(ctx, r, name, token, empty, func(*corev1.ConfigMap) error { return nil })
	if err != nil {
		return err
	}
	object.Data, object.ResourceVersion = map[string]string{"value": value}, ""
	_, err = r.Update(ctx, object, metav1.UpdateOptions{})
	return err
}

func store(t *testing.T, write func(context.Context, register, string, guard.Token, string) error) conformance.Store {
	configMaps(t, "")
	return conformance.Store{
		Address: strings.Trim(strings.TrimPrefix(cluster.Host, "https:"), "/"),
		Open: func(tb testing.TB, address string) conformance.Register {
			return register{configMaps(tb, address), write}
		},
	}
}

func TestConformance(t *testing.T) { conformance.Run(t, store(t, guarded)) }

func TestConformanceFindsCheckThenWrite(t *testing.T) {
	if conformance.Inside() {
		conformance.Run(t, store(t, checkThenWrite))
		return
	}
	configMaps(t, "")
	conformance.MustFail(t, "Crash", "Concurrent", "Linearizable", "Property")
}

func TestChangeCannotTakeTheConditionOff(t *testing.T) {
	client, ctx := configMaps(t, ""), t.Context()
	if _, err := kubernetes.CreateOrUpdate(ctx, client, "condition", 1, empty, set("old")); err != nil {
		t.Fatal(err)
	}
	calls := 0
	_, err := kubernetes.Update(ctx, client, "condition", 1, func(object *corev1.ConfigMap) error {
		if calls++; calls == 1 { // between the stale writer's read and its write
			if _, err := kubernetes.Update(ctx, client, "condition", 2, set("new")); err != nil {
				return err
			}
		}
		object.ResourceVersion, object.Annotations = "", nil
		return set("stale")(object)
	})
	if !guard.IsStale(err) {
		t.Errorf("the stale write: %v", err)
	}
	object, err := client.Get(ctx, "condition", metav1.GetOptions{})
	if err != nil || object.Data["value"] != "new" {
		t.Errorf("the object: %v, %v", object.Data, err)
	}
}

func TestAnswersOfTheServerAreCertain(t *testing.T) {
	client, ctx := configMaps(t, ""), t.Context()
	if _, err := kubernetes.Update(ctx, client, "no-such-object", 1, set("x")); !apierrors.IsNotFound(err) {
		t.Errorf("no object: %v", err)
	}
	_, err := kubernetes.CreateOrUpdate(ctx, client, "invalid", 1, empty, func(object *corev1.ConfigMap) error {
		object.Data = map[string]string{"not a key!": ""}
		return nil
	})
	if !apierrors.IsInvalid(err) || guard.IsUncertain(err) {
		t.Errorf("an invalid object: %v", err)
	}
	failure := errors.New("no money")
	_, err = kubernetes.CreateOrUpdate(ctx, client, "unchanged", 1, empty, func(*corev1.ConfigMap) error { return failure })
	if !errors.Is(err, failure) {
		t.Errorf("an error of change: %v", err)
	}
	if _, err := client.Get(ctx, "unchanged", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it was made all the same: %v", err)
	}
	_, err = client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "forged", Annotations: map[string]string{kubernetes.TokenAnnotation: "much"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.Update(ctx, client, "forged", 1, set("x")); err == nil || guard.IsStale(err) {
		t.Errorf("a mark that is no number: %v", err)
	}
}

// TestInternalErrorIsUncertain: a server that fails after it has written says 500.
func TestInternalErrorIsUncertain(t *testing.T) {
	for code, want := range map[int]bool{http.StatusInternalServerError: true, http.StatusGatewayTimeout: true, http.StatusForbidden: false} {
		client := failing{&apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code)}}}
		if _, err := kubernetes.Update(t.Context(), client, "x", 1, set("x")); guard.IsUncertain(err) != want {
			t.Errorf("%d: %v", code, err)
		}
	}
	if _, err := kubernetes.Update(t.Context(), failing{io.ErrUnexpectedEOF}, "x", 1, set("x")); !guard.IsUncertain(err) {
		t.Errorf("a lost answer: %v", err)
	}
}

type failing struct{ err error }

func (failing) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	return empty(), nil
}

func (f failing) Create(context.Context, *corev1.ConfigMap, metav1.CreateOptions) (*corev1.ConfigMap, error) {
	return nil, f.err
}

func (f failing) Update(context.Context, *corev1.ConfigMap, metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	return nil, f.err
}

func ExampleCreateOrUpdate() {
	client, err := typedv1.NewForConfig(cluster) // in a Pod: rest.InClusterConfig()
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	publish := func(token guard.Token, release string) error {
		_, err := kubernetes.CreateOrUpdate(ctx, client.ConfigMaps("default"), "current-release", token, empty,
			func(object *corev1.ConfigMap) error {
				object.Data = map[string]string{"release": release}
				return nil
			})
		return err
	}
	fmt.Println(publish(7, "v2"))
	fmt.Println(publish(5, "v1")) // an attempt that was frozen, and wakes late
	// Output:
	// <nil>
	// stale: token 5 may not write to "current-release", which has seen token 7
}
