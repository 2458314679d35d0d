package httpguard_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
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

// TestAFrozenWorkerDoesNotHoldItsResource: neither one that does not send the rest of its request, nor one that does not read its answer.
func TestAFrozenWorkerDoesNotHoldItsResource(t *testing.T) {
	large := strings.Repeat("x", 16<<20)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "0123456789" {
			_, _ = io.WriteString(w, large)
		}
	}))
	defer server.Close()
	for where, sent := range map[string]string{"in its request": "01234", "in its answer": "0123456789"} {
		t.Run(where, func(t *testing.T) {
			config := guardhttp.Config{Ledger: openLedger(t, filepath.Join(t.TempDir(), "ledger")), Timeout: 200 * time.Millisecond, Wait: 5 * time.Second}
			proxy := start(t, config, strings.TrimPrefix(server.URL, "http://"))
			signed, err := guardhttp.Sign(key, "/a", 1, time.Now().Add(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			frozen, err := net.Dial("tcp", strings.TrimPrefix(proxy, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = frozen.Close() }()
			_, _ = fmt.Fprintf(frozen, "PUT /a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nFencing-Token: %s\r\n\r\n%s", signed, sent)
			if where == "in its answer" {
				_, _ = bufio.NewReaderSize(frozen, 16).ReadByte()
			}
			for config.Ledger.Look("/a").Mark != 1 {
				time.Sleep(time.Millisecond)
			}
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, proxy+"/a", strings.NewReader("newer"))
			answer, err := guardhttp.Do(http.DefaultClient, request, key, "/a", 2, time.Now())
			if err != nil {
				t.Fatalf("the newer worker: %v", err)
			}
			_ = answer.Body.Close()
		})
	}
}
