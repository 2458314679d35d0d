package httpguard_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/leasehold-io/leasehold/worker/guard"
	guardhttp "github.com/leasehold-io/leasehold/worker/guard/http"
)

// sent sends a PUT with a header as given, and returns status and outcome.
func sent(t *testing.T, url, header string) (status int, outcome string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader("forged"))
	if err != nil {
		t.Fatal(err)
	}
	if header != "" {
		request.Header.Set(guardhttp.TokenHeader, header)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode, answer.Header.Get(guardhttp.OutcomeHeader)
}

func TestOnlySignedTokensRaiseAMark(t *testing.T) {
	ledger := openLedger(t, filepath.Join(t.TempDir(), "ledger"))
	limited := guardhttp.Key{ID: "limited", Secret: []byte("another one, also thirty-two bytes"), Prefix: "/reports/"}
	proxy := start(t, guardhttp.Config{Ledger: ledger, Keys: []guardhttp.Key{limited}}, startUpstream(t))
	soon := time.Now().Add(time.Minute)
	sign := func(k guardhttp.Key, resource string, token guard.Token, expires time.Time) string {
		t.Helper()
		header, err := guardhttp.Sign(k, resource, token, expires)
		if err != nil {
			t.Fatal(err)
		}
		return header
	}
	claimed := func(method jwt.SigningMethod, secret any, claims jwt.MapClaims) string {
		t.Helper()
		token := jwt.NewWithClaims(method, claims)
		token.Header["kid"] = key.ID
		text, err := token.SignedString(secret)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	good := sign(key, "/account/42", 7, soon)
	stranger := guardhttp.Key{ID: key.ID, Secret: []byte("somebody else's secret, long enough")}
	for name, c := range map[string]struct {
		header string
		want   int
	}{
		"none":               {"", http.StatusPreconditionRequired},
		"a bare number":      {"9223372036854775807", http.StatusUnauthorized},
		"changed":            {good[:len(good)-4] + "AAAA", http.StatusUnauthorized},
		"by a stranger":      {sign(stranger, "/account/42", 1<<62, soon), http.StatusUnauthorized},
		"expired":            {sign(key, "/account/42", 1<<62, time.Now().Add(-time.Minute)), http.StatusUnauthorized},
		"good for too long":  {sign(key, "/account/42", 1<<62, time.Now().Add(25*time.Hour)), http.StatusUnauthorized},
		"another resource":   {sign(key, "/account/43", 1<<62, soon), http.StatusUnauthorized},
		"beyond its prefix":  {sign(limited, "/account/42", 1<<62, soon), http.StatusUnauthorized},
		"not signed":         {claimed(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, jwt.MapClaims{"tok": "9", "res": "/account/42", "exp": soon.Unix()}), http.StatusUnauthorized},
		"another algorithm":  {claimed(jwt.SigningMethodHS512, key.Secret, jwt.MapClaims{"tok": "9", "res": "/account/42", "exp": soon.Unix()}), http.StatusUnauthorized},
		"no expiry":          {claimed(jwt.SigningMethodHS256, key.Secret, jwt.MapClaims{"tok": "9", "res": "/account/42"}), http.StatusUnauthorized},
		"a negative number":  {claimed(jwt.SigningMethodHS256, key.Secret, jwt.MapClaims{"tok": "-9", "res": "/account/42", "exp": soon.Unix()}), http.StatusUnauthorized},
		"a number too large": {claimed(jwt.SigningMethodHS256, key.Secret, jwt.MapClaims{"tok": "9223372036854775808", "res": "/account/42", "exp": soon.Unix()}), http.StatusUnauthorized},
	} {
		status, outcome := sent(t, proxy+"/account/42", c.header)
		if status != c.want || outcome != "refused" {
			t.Errorf("%s: status %d, outcome %q; want %d", name, status, outcome, c.want)
		}
	}
	if entry := ledger.Look("/account/42"); entry != (guardhttp.Entry{}) {
		t.Errorf("something raised the mark: %+v", entry)
	}
	if status, _ := sent(t, proxy+"/account/42", good); status != http.StatusNoContent {
		t.Errorf("a good token: %d", status)
	}
	if status, _ := sent(t, proxy+"/reports/1", sign(limited, "/reports/1", 7, soon)); status != http.StatusNoContent {
		t.Errorf("a good token of the limited key: %d", status)
	}
}

func TestOtherFormsOfAPathAreRefused(t *testing.T) {
	proxy := start(t, guardhttp.Config{Ledger: openLedger(t, filepath.Join(t.TempDir(), "ledger"))}, startUpstream(t))
	for _, form := range []string{"/account//42", "/account/./42", "/a/../account/42", "/account/%2e%2e/42", "/account%2F42"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(proxy, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, "PUT "+form+" HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %v, %v", form, answer, err)
		}
		_ = conn.Close()
	}
}

func TestASlashAtTheEndIsNoOtherResource(t *testing.T) {
	ledger := openLedger(t, filepath.Join(t.TempDir(), "ledger"))
	proxy := start(t, guardhttp.Config{Ledger: ledger}, startUpstream(t))
	header, err := guardhttp.Sign(key, "/account/42", 7, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := sent(t, proxy+"/account/42/", header); status != http.StatusNoContent {
		t.Errorf("status %d", status)
	}
	if mark := ledger.Look("/account/42").Mark; mark != 7 {
		t.Errorf("mark %d", mark)
	}
}

// call is a request at an upstream that waits to be told to answer.
type call struct {
	body   string
	answer func()
}

func slow(t *testing.T) (address string, arrived <-chan call) {
	calls := make(chan call, 8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told, answer := context.WithCancel(t.Context())
		calls <- call{string(body), answer}
		<-told.Done()
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), calls
}

// TestResourceIsHeldUntilTheUpstreamAnswers: also when the worker that asked is gone.
func TestResourceIsHeldUntilTheUpstreamAnswers(t *testing.T) {
	ledger := openLedger(t, filepath.Join(t.TempDir(), "ledger"))
	address, arrived := slow(t)
	proxy := start(t, guardhttp.Config{Ledger: ledger}, address)
	ctx, giveUp := context.WithCancel(t.Context())
	first, second, other := make(chan error, 1), make(chan error, 1), make(chan error, 1)
	go func() { first <- put(ctx, proxy, "held", 1, "first") }()
	atFirst := <-arrived
	giveUp()
	if err := <-first; !guard.IsUncertain(err) {
		t.Errorf("a worker that gave up was told %v", err)
	}
	go func() { second <- put(t.Context(), proxy, "held", 2, "second") }()
	time.Sleep(50 * time.Millisecond)
	go func() { other <- put(t.Context(), proxy, "other", 1, "other") }()
	if next := <-arrived; next.body != "other" {
		t.Errorf("%q reached the upstream while the first request for the resource was there", next.body)
	} else {
		next.answer()
	}
	if err := <-other; err != nil {
		t.Errorf("another resource: %v", err)
	}
	atFirst.answer()
	next := <-arrived
	next.answer()
	if err := <-second; err != nil || next.body != "second" {
		t.Errorf("once the first was answered: %q, %v", next.body, err)
	}
}

// TestBusyResourceIsRefusedInTime: a request that waits in vain was not forwarded.
func TestBusyResourceIsRefusedInTime(t *testing.T) {
	ledger := openLedger(t, filepath.Join(t.TempDir(), "ledger"))
	address, arrived := slow(t)
	proxy := start(t, guardhttp.Config{Ledger: ledger, Wait: 20 * time.Millisecond}, address)
	first := make(chan error, 1)
	go func() { first <- put(t.Context(), proxy, "busy", 1, "first") }()
	held := <-arrived
	if err := put(t.Context(), proxy, "busy", 2, "second"); err == nil || guard.IsUncertain(err) || guard.IsStale(err) {
		t.Errorf("a request that waited in vain: %v", err)
	}
	if mark := ledger.Look("/busy").Mark; mark != 1 {
		t.Errorf("it raised the mark to %d", mark)
	}
	held.answer()
	if err := <-first; err != nil {
		t.Error(err)
	}
}

func TestTimeoutIsUncertainAndShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	ledger := openLedger(t, path)
	address, arrived := slow(t)
	proxy := start(t, guardhttp.Config{Ledger: ledger, Timeout: 50 * time.Millisecond}, address)
	if err := put(t.Context(), proxy, "late", 1, "first"); !guard.IsUncertain(err) {
		t.Errorf("a request that got no answer: %v", err)
	}
	(<-arrived).answer()
	if entry := ledger.Look("/late"); entry != (guardhttp.Entry{Mark: 1, Uncertain: true}) {
		t.Errorf("the ledger says %+v", entry)
	}
	// A newer worker is let in, and told. Here the guarantee ends: the first write may still be on its way inside the upstream.
	patient := start(t, guardhttp.Config{Ledger: ledger}, address)
	signed, err := guardhttp.Sign(key, "/late", 2, time.Now().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, patient+"/late", strings.NewReader("second"))
	request.Header.Set(guardhttp.TokenHeader, signed)
	go func() { (<-arrived).answer() }()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if got := response.Header.Get(guardhttp.PreviousHeader); got != "uncertain" || response.StatusCode != http.StatusNoContent {
		t.Errorf("the newer worker was told %q, status %d", got, response.StatusCode)
	}
	if entry := ledger.Look("/late"); entry != (guardhttp.Entry{Mark: 2}) {
		t.Errorf("after an answer the ledger says %+v", entry)
	}
}

func TestUnreachableUpstreamIsCertain(t *testing.T) {
	ledger := openLedger(t, filepath.Join(t.TempDir(), "ledger"))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	proxy := start(t, guardhttp.Config{Ledger: ledger}, address)
	if err := put(t.Context(), proxy, "closed", 1, ""); err == nil || guard.IsUncertain(err) || guard.IsStale(err) {
		t.Errorf("nobody listens: %v", err)
	}
	if entry := ledger.Look("/closed"); entry.Uncertain {
		t.Errorf("nothing was sent, but the ledger says %+v", entry)
	}
}

// TestLedgerAfterACrash: what was begun and has no end is uncertain, a torn last line is nothing, a torn earlier line is an error.
func TestLedgerAfterACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	journal := `{"op":"mark","resource":"/a","token":5}
{"op":"begin","resource":"/a","token":9223372036854775807}
{"op":"begin","resource":"/b","token":3}
{"op":"end","resource":"/b","token":3}
{"op":"begin","resource":"/c","token":`
	if err := os.WriteFile(path, []byte(journal), 0o600); err != nil {
		t.Fatal(err)
	}
	ledger := openLedger(t, path)
	for range 2 { // as found, and as written again
		for name, want := range map[string]guardhttp.Entry{"/a": {Mark: 1<<63 - 1, Uncertain: true}, "/b": {Mark: 3}, "/c": {}} {
			if got := ledger.Look(name); got != want {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
		if _, err := guardhttp.OpenLedger(path); err == nil {
			t.Error("two proxies may use one ledger")
		}
		if err := ledger.Close(); err != nil {
			t.Fatal(err)
		}
		ledger = openLedger(t, path)
	}
	_ = ledger.Close()
	if err := os.WriteFile(path, []byte("{\"op\":\"be\n"+journal), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := guardhttp.OpenLedger(path); err == nil {
		t.Error("a ledger with a lost line was opened")
	}
}

func TestMarkSurvivesTheProxy(t *testing.T) {
	path, address := filepath.Join(t.TempDir(), "ledger"), startUpstream(t)
	ledger := openLedger(t, path)
	if err := put(t.Context(), start(t, guardhttp.Config{Ledger: ledger}, address), "kept", 9, "new"); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Close(); err != nil {
		t.Fatal(err)
	}
	again := start(t, guardhttp.Config{Ledger: openLedger(t, path)}, address)
	if err := put(t.Context(), again, "kept", 8, "stale"); !guard.IsStale(err) {
		t.Errorf("after a restart a lower token: %v", err)
	}
}

func TestLedgerThatCannotBeWrittenRefuses(t *testing.T) {
	ledger := openLedger(t, filepath.Join(t.TempDir(), "ledger"))
	proxy := start(t, guardhttp.Config{Ledger: ledger}, startUpstream(t))
	if err := ledger.Close(); err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), proxy, "unrecorded", 1, ""); err == nil || guard.IsUncertain(err) || guard.IsStale(err) {
		t.Errorf("a write that cannot be recorded: %v", err)
	}
}

func TestResetIsAudited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	ledger := openLedger(t, path)
	proxy := start(t, guardhttp.Config{Ledger: ledger}, startUpstream(t))
	if err := put(t.Context(), proxy, "bricked", 1<<62, "by mistake"); err != nil {
		t.Fatal(err)
	}
	operator := httptest.NewServer(guardhttp.ResetHandler(ledger, func() time.Time { return time.Unix(1e9, 0) }, func(r *http.Request) (string, error) {
		if r.Header.Get("Authorization") != "Bearer operator" {
			return "", errors.New("no")
		}
		return "ada", nil
	}))
	t.Cleanup(operator.Close)
	order := func(authorization, body string) int {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, operator.URL, strings.NewReader(body))
		request.Header.Set("Authorization", authorization)
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	for _, refused := range []struct {
		authorization, body string
		want                int
	}{
		{"", `{"resource":"/bricked","to":"7","reason":"typo"}`, http.StatusForbidden},
		{"Bearer operator", `{"resource":"/bricked","to":"7"}`, http.StatusConflict},
		{"Bearer operator", `{"resource":"/bricked","to":"4611686018427387905","reason":"higher"}`, http.StatusConflict},
		{"Bearer operator", `{"resource":"/bricked","to":"-1","reason":"lower than low"}`, http.StatusConflict},
		{"Bearer operator", `{"resource":"/unknown","to":"7","reason":"typo"}`, http.StatusConflict},
	} {
		if got := order(refused.authorization, refused.body); got != refused.want {
			t.Errorf("%+v: %d", refused, got)
		}
	}
	if _, err := os.Stat(path + ".audit"); !os.IsNotExist(err) {
		t.Errorf("a refused reset is in the audit: %v", err)
	}
	if got := order("Bearer operator", `{"resource":"/bricked","to":"7","reason":"typo in a script"}`); got != http.StatusOK {
		t.Fatalf("the reset: %d", got)
	}
	audit, err := os.ReadFile(path + ".audit")
	want := `{"at":"2001-09-09T01:46:40Z","by":"ada","reason":"typo in a script","resource":"/bricked","from":4611686018427387904,"to":7}` + "\n"
	if err != nil || string(audit) != want {
		t.Errorf("audit %s, %v", audit, err)
	}
	if err := put(t.Context(), proxy, "bricked", 6, ""); !guard.IsStale(err) {
		t.Errorf("below the new mark: %v", err)
	}
	if err := put(t.Context(), proxy, "bricked", 8, ""); err != nil {
		t.Errorf("above the new mark: %v", err)
	}
}
