package conformance

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLine: what goes through the line is what was sent, also encrypted and in large pieces, until the cut.
func TestLine(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	defer server.Close()
	l := newLine(t, strings.TrimPrefix(server.URL, "https://"))
	sent := bytes.Repeat([]byte("0123456789"), 100_000)
	post := func() ([]byte, error) {
		answer, err := server.Client().Post("https://"+l.address(), "text/plain", bytes.NewReader(sent))
		if err != nil {
			return nil, err
		}
		defer func() { _ = answer.Body.Close() }()
		return io.ReadAll(answer.Body)
	}
	if got, err := post(); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back, %v", len(got), err)
	}
	if n := l.count(); n < len(sent) {
		t.Errorf("%d bytes counted", n)
	}
	l.cutAfter(1000)
	if _, err := post(); err == nil {
		t.Error("an answer came through a line that was cut")
	}
	if n := l.count(); n != 1000 {
		t.Errorf("%d bytes passed until the cut", n)
	}
	if got, err := post(); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("on a new connection %d bytes came back, %v", len(got), err)
	}
}
