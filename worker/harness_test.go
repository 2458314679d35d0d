package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// place is where a worker is started: the environment and files that the agent makes, and if wanted its socket.
type place struct {
	*testing.T
	dir     string
	env     map[string]string
	signals chan os.Signal
	agent   *fakeAgent // nil: there is no socket
	log     locked
}

func newPlace(t *testing.T, withSocket bool) *place {
	t.Helper()
	dir, err := os.MkdirTemp("", "lh") // the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p := &place{T: t, dir: dir, signals: make(chan os.Signal, 1), env: map[string]string{
		envTask: "ship", envNamespace: "shop", envAttempt: "2", envFencingToken: "17592186045001", envIdempotencyKey: "key-1",
		envPayloadFile: filepath.Join(dir, "payload"), envCancelFile: filepath.Join(dir, "cancel"), envResultFile: filepath.Join(dir, "result"),
		envCheckpointFile: filepath.Join(dir, "checkpoint"), envDeadline: "",
	}}
	p.write("payload", `{"to":"Ghent"}`)
	if withSocket {
		p.agent = serveFake(t, filepath.Join(dir, "s"))
		p.env[envSocket] = filepath.Join(dir, "s")
	}
	return p
}

// run runs a worker to its end.
func (p *place) run(work, probe Work) (exitCode int) {
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	outside := process{getenv: func(name string) string { return p.env[name] }, signals: p.signals, log: &p.log, terminationLog: filepath.Join(p.dir, "log")}
	code := outside.run(ctx, work, probe)
	if ctx.Err() != nil {
		p.Fatal("the worker does not end")
	}
	return code
}

func (p *place) wantCode(got, want int) {
	p.Helper()
	if got != want {
		p.Errorf("exit code %d, want %d; its log:\n%s", got, want, p.log.text())
	}
}

func (p *place) write(name, content string) {
	p.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o600); err != nil {
		p.Fatal(err)
	}
}

// read is the content of a file; "-": there is none.
func (p *place) read(name string) string {
	content, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		return "-"
	}
	return string(content)
}

// terminate does what the agent does: the cancel file is there before the signal.
func (p *place) terminate(why string) {
	if why != "" {
		p.write("cancel", why)
	}
	p.signals <- syscall.SIGTERM
}

type locked struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *locked) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// fakeAgent answers on a socket, and has docs/agent-socket.openapi.yaml judge each request and answer. That the real one does what the
// document says, and gets on with this client, is tested beside it: internal/agent.
type fakeAgent struct {
	t      *testing.T
	doc    *openapi3.T
	server *http.Server

	mu         sync.Mutex
	checkpoint string
	heartbeat  string
	silence    int
	refuse     map[string]int // status for each path
	isDeaf     bool           // who waits for a stop gets an error
	hangUps    int            // so many times who asks for the task gets no answer
	said       []string       // "path body"

	told chan struct{} // closed once the worker is told to stop
	stop string
}

func serveFake(t *testing.T, path string) *fakeAgent {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("../docs/agent-socket.openapi.yaml")
	if os.IsNotExist(err) {
		t.Skip("the document of the socket is in the repository only")
	}
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeAgent{t: t, doc: doc, told: make(chan struct{}), heartbeat: "Process", refuse: map[string]int{}}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	f.server = &http.Server{Handler: f}
	go func() { _ = f.server.Serve(listener) }()
	t.Cleanup(func() { _ = f.server.Close() })
	return f
}

// tell tells the worker to stop.
func (f *fakeAgent) tell(stop string) {
	f.stop = stop
	close(f.told)
}

func (f *fakeAgent) words() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.said)
}

// wantWords checks what was said, in order.
func (f *fakeAgent) wantWords(want ...string) {
	f.t.Helper()
	if got := f.words(); !slices.Equal(got, want) {
		f.t.Errorf("said\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (f *fakeAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	judged := r.Clone(r.Context())
	judged.Body, judged.URL.Host = io.NopCloser(bytes.NewReader(body)), "agent"
	item := f.doc.Paths.Value(r.URL.Path)
	if item == nil || item.GetOperation(r.Method) == nil {
		f.t.Errorf("%s %s is not in the document", r.Method, r.URL)
		return
	}
	if f.hangsUp(r.URL.Path) {
		panic(http.ErrAbortHandler)
	}
	input := &openapi3filter.RequestValidationInput{Request: judged, QueryParams: r.URL.Query(),
		Route: &routers.Route{Spec: f.doc, Path: r.URL.Path, PathItem: item, Method: r.Method, Operation: item.GetOperation(r.Method)}}
	if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
		f.t.Errorf("the document says of %s %s %s: %v", r.Method, r.URL, body, err)
	}
	answer := httptest.NewRecorder()
	f.answer(answer, r, string(body))
	if r.Context().Err() != nil {
		return
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{RequestValidationInput: input,
		Status: answer.Code, Header: answer.Header(), Body: io.NopCloser(bytes.NewReader(answer.Body.Bytes())), Options: &openapi3filter.Options{IncludeResponseStatus: true}})
	if err != nil {
		f.t.Errorf("the document says of the answer %d %s: %v", answer.Code, answer.Body, err)
	}
	w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func (f *fakeAgent) hangsUp(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if path != "/v1/task" || f.hangUps == 0 {
		return false
	}
	f.hangUps--
	return true
}

func (f *fakeAgent) answer(w http.ResponseWriter, r *http.Request, body string) {
	f.mu.Lock()
	status := f.refuse[r.URL.Path]
	if f.isDeaf && r.URL.Path == "/v1/cancel" && r.URL.Query().Get("waitSeconds") != "0" {
		status = 500
	}
	if r.Method == http.MethodPost && status == 0 {
		f.said = append(f.said, strings.TrimSpace(strings.TrimPrefix(r.URL.Path, "/v1/")+" "+body))
	}
	f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case status != 0:
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "detail": "for the test"})
	case r.URL.Path == "/v1/task":
		_ = json.NewEncoder(w).Encode(map[string]any{"task": "ship", "namespace": "shop", "attempt": 2, "fencingToken": 17592186045001,
			"idempotencyKey": "key-1", "checkpoint": f.checkpoint, "heartbeat": f.heartbeat, "heartbeatTimeoutSeconds": f.silence, "leaseDurationSeconds": 30})
	case r.URL.Path == "/v1/cancel":
		f.awaitStop(w, r)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (f *fakeAgent) awaitStop(w http.ResponseWriter, r *http.Request) {
	wait, _ := strconv.Atoi(r.URL.Query().Get("waitSeconds"))
	select {
	case <-f.told:
	case <-time.After(time.Duration(wait) * time.Second):
	case <-r.Context().Done():
	}
	select {
	case <-f.told:
		_, _ = io.WriteString(w, f.stop)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
