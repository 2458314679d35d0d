package agenttest

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	certutil "k8s.io/client-go/util/cert"
)

// Kind is the write that a request makes, as its patch shows it.
type Kind string

// The kinds of writes.
const (
	Claim  Kind = "Claim"
	Renew  Kind = "Renew"
	Submit Kind = "Submit"
)

// Request is one request as a script sees it.
type Request struct {
	Kind   Kind
	N      int    // 1 for the first of its kind
	Token  string // bearer token
	Remote string // the client's address: another for every connection
	Header http.Header
	Path   string
}

// Action is what the server does with a request. The zero value serves it.
type Action struct {
	Skip   bool   // do not apply the patch
	Hold   bool   // wait until the client has gone
	HangUp bool   // close the connection without an answer
	Code   int    // answer this status instead
	Body   string // with this body
	Before func() // run this first
}

// What a script may want often.
var (
	Serve       = Action{}
	LoseAnswer  = Action{HangUp: true}
	LoseRequest = Action{Skip: true, HangUp: true}
	Timeout     = Action{Skip: true, Hold: true}
	LateAnswer  = Action{Hold: true} // applied, but the client gives up waiting
)

// Answer refuses, or accepts, without looking.
func Answer(code int, body string) Action { return Action{Skip: true, Code: code, Body: body} }

// Server is the scripted API server. Its Lease is changed by agents' patches and by [Server.Patch].
type Server struct {
	HTTP *httptest.Server

	mu     sync.Mutex
	doc    []byte // nil: the Lease is gone
	script func(Request) Action
	counts map[Kind]int
	seen   []Request

	certificate *tls.Certificate // nil: httptest's
}

// New starts a server that holds a Lease. The script may be nil.
func New(lease []byte, script func(Request) Action) *Server {
	s := &Server{doc: lease, script: script, counts: map[Kind]int{}}
	s.HTTP = httptest.NewUnstartedServer(s)
	s.HTTP.EnableHTTP2 = true // as the real one: it is the client that has to decline
	s.HTTP.TLS = &tls.Config{GetConfigForClient: s.config}
	s.HTTP.StartTLS()
	return s
}

// Close ends the server.
func (s *Server) Close() {
	s.HTTP.CloseClientConnections()
	s.HTTP.Close()
}

// Rotate gives the server a certificate of another authority, and ends all connections, as a restart does.
func (s *Server) Rotate() error {
	chain, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.certificate = &pair
	s.mu.Unlock()
	s.HTTP.CloseClientConnections()
	return nil
}

// config is what a connection is served with.
func (s *Server) config(*tls.ClientHelloInfo) (*tls.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	config := s.HTTP.TLS
	if s.certificate != nil {
		config = config.Clone()
		config.Certificates = []tls.Certificate{*s.certificate}
	}
	return config, nil
}

// authority is who vouches for the server's certificate.
func (s *Server) authority() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.certificate == nil {
		return s.HTTP.Certificate().Raw
	}
	return s.certificate.Certificate[len(s.certificate.Certificate)-1]
}

// HostPort is where the server listens.
func (s *Server) HostPort() string {
	u, err := url.Parse(s.HTTP.URL)
	if err != nil {
		panic(err)
	}
	return u.Host
}

// WriteCredentials writes ca.crt and token as the kubelet projects them.
func (s *Server) WriteCredentials(dir, token string) (caPath, tokenPath string, err error) {
	caPath, tokenPath = filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.authority()})
	if err := os.WriteFile(caPath, ca, 0o600); err != nil {
		return "", "", err
	}
	return caPath, tokenPath, os.WriteFile(tokenPath, []byte(token+"\n"), 0o600)
}

// Patch is a write by the operator, such as a revoke, or by another hand. It returns the status code.
func (s *Server) Patch(patch []byte) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.apply(patch, ApplyOperator).code
}

// Delete removes the Lease.
func (s *Server) Delete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doc = nil
}

// Seen lists the requests so far.
func (s *Server) Seen() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.seen...)
}

// Count is how many requests of a kind have come.
func (s *Server) Count(kind Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[kind]
}

// Annotation is the value of an annotation of the Lease, or "".
func (s *Server) Annotation(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doc == nil {
		return ""
	}
	return parse(s.doc).Metadata.Annotations[name]
}

type answer struct {
	code int
	body string
}

func (s *Server) apply(patch []byte, apply func(doc, patch []byte) ([]byte, int, string)) answer {
	if s.doc == nil {
		return answer{http.StatusNotFound, `{"kind":"Status","reason":"NotFound","details":{}}`}
	}
	next, code, body := apply(s.doc, patch)
	if next != nil {
		s.doc = next
	}
	return answer{code, body}
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	patch, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPatch {
		http.Error(w, "only PATCH is served", http.StatusMethodNotAllowed)
		return
	}
	action := s.decide(r, patch)
	if action.Before != nil {
		action.Before()
	}
	var result answer
	if !action.Skip {
		s.mu.Lock()
		result = s.apply(patch, Apply)
		s.mu.Unlock()
	}
	switch {
	case action.Hold:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case action.HangUp:
		panic(http.ErrAbortHandler)
	case action.Code != 0:
		result = answer{action.Code, action.Body}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(result.code)
	_, _ = fmt.Fprint(w, result.body)
}

// Script replaces what decides about each request. A test whose agent is a process of its own sets it before it starts
// that: nothing else orders the script's variables before the first request.
func (s *Server) Script(script func(Request) Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script = script
}

func (s *Server) decide(r *http.Request, patch []byte) Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	request := Request{Kind: KindOf(patch), Remote: r.RemoteAddr, Header: r.Header, Path: r.URL.Path,
		Token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
	s.counts[request.Kind]++
	request.N = s.counts[request.Kind]
	s.seen = append(s.seen, request)
	if s.script == nil {
		return Serve
	}
	return s.script(request)
}

// KindOf reads a patch: what it adds, and whether it expects a claim.
func KindOf(patch []byte) Kind {
	var ops []struct{ Op, Path string }
	if err := json.Unmarshal(patch, &ops); err != nil {
		return ""
	}
	kind := Renew
	for _, op := range ops {
		switch {
		case op.Op == "add" && strings.HasSuffix(op.Path, "~1submission"):
			return Submit
		case op.Op == "add" && strings.HasSuffix(op.Path, "~1claim"):
			kind = Claim
		}
	}
	return kind
}
