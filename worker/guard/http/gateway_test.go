package httpguard_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/worker/guard"
	guardhttp "github.com/leasehold-io/leasehold/worker/guard/http"
)

// TestAGatewaysAnswerIsNone: it may have sent the request on before it gave up, and the write may still land after a newer one.
func TestAGatewaysAnswerIsNone(t *testing.T) {
	for status, isUncertain := range map[int]bool{
		http.StatusBadGateway: true, http.StatusServiceUnavailable: true, http.StatusGatewayTimeout: true, 520: true, 524: true, 599: true,
		http.StatusNoContent: false, http.StatusConflict: false, http.StatusTooManyRequests: false, http.StatusInternalServerError: false,
		http.StatusNotImplemented: false, http.StatusInsufficientStorage: false,
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			var answer atomic.Int32
			answer.Store(int32(status))
			gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(int(answer.Load()))
				if status != http.StatusNoContent {
					_, _ = w.Write([]byte("upstream connect error or disconnect"))
				}
			}))
			defer gateway.Close()
			ledger := openLedger(t, filepath.Join(t.TempDir(), "ledger"))
			proxy := start(t, guardhttp.Config{Ledger: ledger}, strings.TrimPrefix(gateway.URL, "http://"))
			err := put(t.Context(), proxy, "a", 1, "first")
			if guard.IsUncertain(err) != isUncertain {
				t.Errorf("after %d the worker was told: %v", status, err)
			}
			if isUncertain && !strings.Contains(err.Error(), "upstream connect error") {
				t.Errorf("the worker does not hear what was said: %v", err)
			}
			if entry := ledger.Look("/a"); entry != (guardhttp.Entry{Mark: 1, Uncertain: isUncertain}) {
				t.Errorf("after %d the ledger says %+v", status, entry)
			}
			answer.Store(http.StatusNoContent)
			request, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, proxy+"/a", strings.NewReader("newer"))
			newer, err := guardhttp.Do(http.DefaultClient, request, key, "/a", 2, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			_ = newer.Body.Close()
			if got := newer.Header.Get(guardhttp.PreviousHeader); (got == "uncertain") != isUncertain {
				t.Errorf("after %d the newer worker was told %q", status, got)
			}
		})
	}
}
