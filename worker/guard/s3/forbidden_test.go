package s3_test

import (
	"crypto/md5"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/leasehold-io/leasehold/worker/guard"
	guards3 "github.com/leasehold-io/leasehold/worker/guard/s3"
)

// secretive answers as S3 does a role without s3:ListBucket: what is not there is forbidden. mayRead is false for one without s3:GetObject.
type secretive struct {
	mu      sync.Mutex
	objects map[string][]byte
	mayRead bool
	calls   int
}

func (s *secretive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	object, found := s.objects[r.URL.Path]
	etag := fmt.Sprintf(`"%x"`, md5.Sum(object))
	switch {
	case r.Method == http.MethodGet && (!found || !s.mayRead):
		refuseS3(w, http.StatusForbidden, "AccessDenied")
	case r.Method == http.MethodGet:
		w.Header().Set("ETag", etag)
		_, _ = w.Write(object)
	case r.Header.Get("If-None-Match") == "*" && found, r.Header.Get("If-Match") != "" && r.Header.Get("If-Match") != etag:
		refuseS3(w, http.StatusPreconditionFailed, "PreconditionFailed")
	default:
		body, _ := io.ReadAll(r.Body)
		s.objects[r.URL.Path] = body
	}
}

func refuseS3(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", code)
}

func startSecretive(t *testing.T, mayRead bool) (*guards3.Guard, *secretive) {
	t.Helper()
	store := &secretive{objects: map[string][]byte{}, mayRead: mayRead}
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	return guards3.New(connect(server.URL), bucket), store
}

// TestARoleThatMayNotListWrites: a missing object is forbidden to it.
func TestARoleThatMayNotListWrites(t *testing.T) {
	g, _ := startSecretive(t, true)
	ctx := t.Context()
	for _, token := range []guard.Token{2, 2, 3} {
		if err := g.Put(ctx, "a", token, fmt.Append(nil, token)); err != nil {
			t.Fatalf("token %d: %v", token, err)
		}
	}
	if err := g.Put(ctx, "a", 2, []byte("stale")); !guard.IsStale(err) {
		t.Errorf("a lower token: %v", err)
	}
	if object, err := g.Get(ctx, "a"); err != nil || object.Mark != 3 || string(object.Body) != "3" {
		t.Errorf("object %+v, %v", object, err)
	}
	if _, err := g.Get(ctx, "none"); err == nil || !strings.Contains(err.Error(), "s3:ListBucket") {
		t.Errorf("what is not there: %v", err)
	}
}

// TestAWriterThatIsOvertakenReadsAgain: who made the object in between has a mark.
func TestAWriterThatIsOvertakenReadsAgain(t *testing.T) {
	g, _ := startSecretive(t, true)
	ctx, calls := t.Context(), 0
	err := g.Update(ctx, "a", 1, func([]byte) ([]byte, error) {
		if calls++; calls == 1 {
			return []byte("stale"), g.Put(ctx, "a", 2, []byte("new"))
		}
		return []byte("stale"), nil
	})
	if !guard.IsStale(err) || calls != 1 {
		t.Errorf("the stale write: %v, after %d calls", err, calls)
	}
}

// TestWhatMayNotBeReadIsNotReplaced: nobody knows its mark.
func TestWhatMayNotBeReadIsNotReplaced(t *testing.T) {
	g, store := startSecretive(t, false)
	ctx := t.Context()
	if err := g.Put(ctx, "a", 1, []byte("first")); err != nil {
		t.Fatal(err)
	}
	store.calls = 0
	err := g.Put(ctx, "a", 2, []byte("second"))
	if err == nil || guard.IsUncertain(err) || guard.IsStale(err) || !strings.Contains(err.Error(), "s3:GetObject") {
		t.Errorf("an object that may not be read: %v", err)
	}
	if object := store.objects["/"+bucket+"/a"]; !strings.HasSuffix(string(object), "first") || store.calls > 3 {
		t.Errorf("after %d calls it holds %q", store.calls, object)
	}
}
