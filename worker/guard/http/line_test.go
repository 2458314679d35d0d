package httpguard_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/worker/guard"
	guardhttp "github.com/leasehold-io/leasehold/worker/guard/http"
)

// TestARequestIsSentOnce: http.Transport repeats a request without a body that has an idempotency key when a connection that it used before
// breaks. The first may have been done, and the repeat be refused, so it would be told as certain what is not.
func TestARequestIsSentOnce(t *testing.T) {
	for _, at := range []string{"between proxy and upstream", "between worker and proxy"} {
		t.Run(at, func(t *testing.T) {
			var deletions atomic.Int32
			dies := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodDelete {
					w.Header().Set(guardhttp.OutcomeHeader, "answered") // where it is the proxy
					return
				}
				if got := r.Header.Get("Idempotency-Key"); got != "k" {
					t.Errorf("idempotency key %q", got)
				}
				if deletions.Add(1) == 1 {
					panic(http.ErrAbortHandler)
				}
				w.Header().Set(guardhttp.OutcomeHeader, "refused")
				w.Header().Set(guardhttp.MarkHeader, "9")
			}))
			defer dies.Close()
			url := dies.URL
			ledger := openLedger(t, filepath.Join(t.TempDir(), "ledger"))
			if at == "between proxy and upstream" {
				url = start(t, guardhttp.Config{Ledger: ledger}, strings.TrimPrefix(dies.URL, "http://"))
			}
			do := func(method string) error {
				request, err := http.NewRequestWithContext(t.Context(), method, url+"/a", nil)
				if err != nil {
					t.Fatal(err)
				}
				request.Header.Set("Idempotency-Key", "k")
				answer, err := guardhttp.Do(dies.Client(), request, key, "/a", 7, time.Now())
				if err == nil {
					_ = answer.Body.Close()
				}
				return err
			}
			if err := do(http.MethodPost); err != nil { // leaves connections to be used again
				t.Fatal(err)
			}
			if err := do(http.MethodDelete); !guard.IsUncertain(err) || deletions.Load() != 1 {
				t.Errorf("sent %d times, and the worker was told %v", deletions.Load(), err)
			}
			if at == "between proxy and upstream" && !ledger.Look("/a").Uncertain {
				t.Error("the ledger does not know that it is uncertain")
			}
		})
	}
}

// TestAnEarlyHintDoesNotHideAnUncertainRequest.
func TestAnEarlyHintDoesNotHideAnUncertainRequest(t *testing.T) {
	var isSecond atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !isSecond.Swap(true) {
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(http.StatusEarlyHints)
	}))
	defer server.Close()
	proxy := start(t, guardhttp.Config{Ledger: openLedger(t, filepath.Join(t.TempDir(), "ledger"))}, strings.TrimPrefix(server.URL, "http://"))
	if err := put(t.Context(), proxy, "a", 1, "first"); !guard.IsUncertain(err) {
		t.Fatal(err)
	}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, proxy+"/a", strings.NewReader("second"))
	answer, err := guardhttp.Do(http.DefaultClient, request, key, "/a", 2, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if got := answer.Header.Get(guardhttp.PreviousHeader); got != "uncertain" {
		t.Errorf("the newer worker was told %q", got)
	}
}

// TestAnUnreachableUpstreamAnswersNothing: what was uncertain before stays so.
func TestAnUnreachableUpstreamAnswersNothing(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	ledger := openLedger(t, filepath.Join(t.TempDir(), "ledger"))
	proxy := start(t, guardhttp.Config{Ledger: ledger}, strings.TrimPrefix(server.URL, "http://"))
	if err := put(t.Context(), proxy, "a", 1, "first"); !guard.IsUncertain(err) {
		t.Fatal(err)
	}
	server.Close()
	if err := put(t.Context(), proxy, "a", 2, "second"); err == nil || guard.IsUncertain(err) {
		t.Errorf("nobody listens: %v", err)
	}
	if entry := ledger.Look("/a"); entry != (guardhttp.Entry{Mark: 2, Uncertain: true}) {
		t.Errorf("the ledger says %+v", entry)
	}
}
