package cloudevents_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/cloudevents"
)

func sinkTo(t *testing.T, handler http.HandlerFunc, header http.Header) *cloudevents.Sink {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	sink, err := cloudevents.New(cloudevents.Config{URL: server.URL + "/ingest?a=b", Header: header})
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

func TestAnEventInBinaryMode(t *testing.T) {
	var got http.Header
	var body, target string
	sink := sinkTo(t, func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		got, body, target = r.Header, string(data), r.Method+" "+r.URL.String()
		w.WriteHeader(http.StatusAccepted)
	}, http.Header{"Authorization": {"Bearer x"}})
	err := sink.Deliver(t.Context(), outbox.Event{ID: "17", Key: "Zoë \"100%\"", Source: "/shop", Type: "com.example.sold", Sequence: 42,
		Time: time.Date(2026, 1, 2, 3, 4, 5, 600, time.FixedZone("", 3600)), DataContentType: "text/plain; charset=utf-8", Data: []byte("hello"),
		Extensions: map[string]string{"traceparent": "00-ab-cd-01", "id": "forged", "subject": "forged"}})
	if err != nil || body != "hello" || target != "POST /ingest?a=b" {
		t.Errorf("%v, %q, %s", err, body, target)
	}
	want := map[string]string{"ce-specversion": "1.0", "ce-id": "17", "ce-source": "/shop", "ce-type": "com.example.sold",
		"ce-time": "2026-01-02T02:04:05.0000006Z", "ce-partitionkey": "Zo%C3%AB%20%22100%25%22", "ce-sequence": "00000000000000000042",
		"ce-traceparent": "00-ab-cd-01", "content-type": "text/plain; charset=utf-8", "authorization": "Bearer x", "ce-subject": ""}
	for name, value := range want {
		if got.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, got.Get(name), value)
		}
	}
}

// TestAHeaderHoldsNothingButPrintableASCII, whatever the row in the table holds, and can be read back.
func TestAHeaderHoldsNothingButPrintableASCII(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value")
		encoded := cloudevents.Encode(value)
		for _, r := range encoded {
			if r <= ' ' || r >= 0x7f || r == '"' {
				t.Fatalf("%q", encoded)
			}
		}
		if back, err := url.PathUnescape(encoded); err != nil || back != value {
			t.Fatalf("%q, %v", back, err)
		}
	})
}

func TestWhatAnAnswerMeans(t *testing.T) {
	const taken = outbox.Class(-1)
	tests := map[int]outbox.Class{200: taken, 202: taken, 204: taken, 301: outbox.ClassUnavailable, 400: outbox.ClassRejected,
		401: outbox.ClassUnavailable, 403: outbox.ClassUnavailable, 404: outbox.ClassUnavailable, 409: outbox.ClassFailed, 410: outbox.ClassUnavailable,
		413: outbox.ClassRejected, 415: outbox.ClassRejected, 422: outbox.ClassRejected, 429: outbox.ClassUnavailable, 500: outbox.ClassFailed,
		502: outbox.ClassUnavailable, 503: outbox.ClassUnavailable, 504: outbox.ClassUnavailable}
	for status, want := range tests {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			sink := sinkTo(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
				_, _ = w.Write([]byte("secret"))
			}, nil)
			err := sink.Deliver(t.Context(), outbox.Event{ID: "1"})
			got := taken
			if err != nil {
				got = outbox.Classify(err)
				if strings.Contains(err.Error(), "secret") {
					t.Error("the answer's body is quoted")
				}
			}
			if got != want {
				t.Errorf("got %v, want %v (%v)", got, want, err)
			}
		})
	}
}

func TestNoAnswerIsUnavailable(t *testing.T) {
	hangs := sinkTo(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := hangs.Deliver(ctx, outbox.Event{ID: "1"}); outbox.Classify(err) != outbox.ClassUnavailable {
		t.Errorf("a timeout: %v", err)
	}
	resets := sinkTo(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil)
	if err := resets.Deliver(t.Context(), outbox.Event{ID: "1"}); outbox.Classify(err) != outbox.ClassUnavailable || strings.Contains(err.Error(), "ingest") {
		t.Errorf("a reset: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []cloudevents.Config{{}, {URL: "ftp://x"}, {URL: "/relative"}, {URL: "http://%zz"},
		{URL: "http://x", Header: http.Header{"Ce-Id": {"1"}}}, {URL: "http://x", Header: http.Header{"Content-Type": {"a/b"}}}} {
		if _, err := cloudevents.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
