package httpguard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/leasehold-io/leasehold/worker/guard"
	guardhttp "github.com/leasehold-io/leasehold/worker/guard/http"
)

func Example() {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	legacy := httptest.NewServer(&upstream{values: map[string]string{}}) // knows nothing of tokens
	defer legacy.Close()
	target, _ := url.Parse(legacy.URL)

	ledger, err := guardhttp.OpenLedger(filepath.Join(dir, "ledger"))
	if err != nil {
		panic(err)
	}
	defer func() { _ = ledger.Close() }()
	handler, err := guardhttp.New(guardhttp.Config{Upstream: target, Ledger: ledger, Keys: []guardhttp.Key{key}})
	if err != nil {
		panic(err)
	}
	proxy := httptest.NewServer(handler)
	defer proxy.Close()

	pay := func(token guard.Token) error { // what a worker does
		request, err := http.NewRequest(http.MethodPut, proxy.URL+"/account/42", strings.NewReader("paid"))
		if err != nil {
			return err
		}
		answer, err := guardhttp.Do(http.DefaultClient, request, key, "/account/42", token, time.Now())
		if err != nil {
			return err
		}
		return answer.Body.Close()
	}
	fmt.Println(pay(7))
	fmt.Println(strings.SplitN(pay(5).Error(), "\n", 2)[0]) // an attempt that was frozen, and wakes late
	// Output:
	// <nil>
	// stale: token 5 may not write to "/account/42", which has seen token 7
}
