package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/worker/guard"
	"github.com/leasehold-io/leasehold/worker/guard/conformance"
	guardhttp "github.com/leasehold-io/leasehold/worker/guard/http"
)

// upstream is a service that knows nothing of tokens: it keeps what was last put at a path.
type upstream struct {
	mu     sync.Mutex
	values map[string]string
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // cut off
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if r.Method == http.MethodPut {
		u.values[r.URL.Path] = string(body)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	_, _ = io.WriteString(w, u.values[r.URL.Path])
}

func startUpstream(tb testing.TB) (address string) {
	server := httptest.NewServer(&upstream{values: map[string]string{}})
	tb.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func openLedger(tb testing.TB, path string) *guardhttp.Ledger {
	tb.Helper()
	ledger, err := guardhttp.OpenLedger(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = ledger.Close() })
	return ledger
}

var key = guardhttp.Key{ID: "2026-11", Secret: []byte("only for tests, thirty-two bytes")}

// start starts a proxy before the upstream and returns its URL.
func start(tb testing.TB, config guardhttp.Config, upstreamAddress string) string {
	tb.Helper()
	config.Upstream = &url.URL{Scheme: "http", Host: upstreamAddress}
	config.Keys = append(config.Keys, key)
	config.Logger = slog.New(slog.DiscardHandler)
	transport := &http.Transport{MaxIdleConnsPerHost: 1}
	config.Transport = transport
	handler, err := guardhttp.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	server := httptest.NewServer(handler)
	tb.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL
}

// checkOnly precedes a path whose mark is that of the path without it.
const checkOnly = "/check"

// register is a worker with a proxy of its own; all proxies share the ledger.
type register struct {
	proxy, upstream string
	ledger          *guardhttp.Ledger
	write           func(ctx context.Context, r register, resource string, token guard.Token, value string) error
}

func (r register) Write(ctx context.Context, resource string, token guard.Token, value string) error {
	return r.write(ctx, r, resource, token, value)
}

func (r register) Read(ctx context.Context, resource string) (conformance.State, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.proxy+"/"+resource, nil)
	if err != nil {
		return conformance.State{}, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return conformance.State{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	value, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, value)
	}
	return conformance.State{Value: string(value), Mark: r.ledger.Look("/" + resource).Mark}, err
}

func put(ctx context.Context, proxy, resource string, token guard.Token, value string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, proxy+"/"+resource, strings.NewReader(value))
	if err != nil {
		return err
	}
	answer, err := guardhttp.Do(http.DefaultClient, request, key, "/"+resource, token, time.Now())
	if err != nil {
		return rename(err, resource)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusNoContent {
		return fmt.Errorf("upstream: %s", answer.Status)
	}
	return nil
}

// rename gives a refusal the suite's name of the resource.
func rename(err error, resource string) error {
	if stale, is := errors.AsType[*guard.StaleError](err); is {
		stale.Resource = resource
	}
	return err
}

func throughTheProxy(ctx context.Context, r register, resource string, token guard.Token, value string) error {
	return put(ctx, r.proxy, resource, token, value)
}

func store(t *testing.T, write func(context.Context, register, string, guard.Token, string) error) conformance.Store {
	ledger := openLedger(t, filepath.Join(t.TempDir(), "ledger"))
	return conformance.Store{
		Address: startUpstream(t), SeparateMark: true, Uncertain: true,
		Open: func(tb testing.TB, address string) conformance.Register {
			config := guardhttp.Config{Ledger: ledger, Wait: time.Minute, Resource: func(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, checkOnly) }}
			return register{start(tb, config, address), address, ledger, write}
		},
	}
}

func TestConformance(t *testing.T) { conformance.Run(t, store(t, throughTheProxy)) }

// checkThenWrite is what a guard must not be: it lets the resource go after the check, and the write follows past the proxy.
func checkThenWrite(ctx context.Context, r register, resource string, token guard.Token, value string) error {
	if err := put(ctx, r.proxy+checkOnly, resource, token, ""); err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+r.upstream+"/"+resource, strings.NewReader(value))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return &guard.UncertainError{Resource: resource, Token: token, Err: err}
	}
	return answer.Body.Close()
}

func TestConformanceFindsCheckThenWrite(t *testing.T) {
	if conformance.Inside() {
		conformance.Run(t, store(t, checkThenWrite))
		return
	}
	conformance.MustFail(t, "Concurrent", "Linearizable", "Property")
}
