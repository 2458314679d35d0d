package e2e

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
)

// hostAddress is where Pods reach this process: the local cluster's bridge.
const hostAddress = "10.89.0.1"

// carrier is an external API as they are: it ships what it is asked to, once for each idempotency key, answers the same key with the
// first answer, and keeps out whoever has a lower fencing token than one that it has seen.
//
//	POST /shipments        Idempotency-Key, Fencing-Token: ships, 201; 412 for a token that is too low
//	GET  /shipments/KEY    Fencing-Token: what was shipped, 200; 404 if nothing was
type carrier struct {
	url string
	// first is what becomes of the first call.
	first fault
	// called is closed with the first call; it goes on once resume is closed.
	called, resume chan struct{}

	mu     sync.Mutex
	marks  map[string]int64  // highest token for each key
	ships  map[string]string // shipment for each key
	posts  []post
	lookUp int
}

// fault is what becomes of a call.
type fault int

const (
	// answerLost: it has its effect, and the connection is reset before the answer.
	answerLost fault = iota
	// requestLost: the connection is reset before it has any effect.
	requestLost
)

// post is a call that asked to ship.
type post struct {
	key   string
	token int64
}

func (s *story) startCarrier(first fault) *carrier {
	s.Helper()
	c := &carrier{first: first, called: make(chan struct{}), resume: make(chan struct{}), marks: map[string]int64{}, ships: map[string]string{}}
	listener, err := net.Listen("tcp", net.JoinHostPort(hostAddress, "0"))
	s.ok(err)
	c.url = "http://" + listener.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /shipments", c.ship)
	mux.HandleFunc("GET /shipments/{key}", c.find)
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }()
	s.Cleanup(func() { _ = server.Close() })
	return c
}

// admit raises the mark of a key, and keeps out whoever is below it.
func (c *carrier) admit(key string, r *http.Request) (int64, bool) {
	token, err := strconv.ParseInt(r.Header.Get("Fencing-Token"), 10, 64)
	if err != nil || token < c.marks[key] {
		return token, false
	}
	c.marks[key] = token
	return token, true
}

func (c *carrier) ship(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	answer, isFirst, admitted := c.book(key, r)
	if isFirst {
		close(c.called)
		<-c.resume
		reset(w)
		return
	}
	if !admitted {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprint(w, answer)
}

// book is the effect of a call, if it has one.
func (c *carrier) book(key string, r *http.Request) (answer string, isFirst, admitted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isFirst = len(c.posts) == 0
	token, admitted := c.admit(key, r)
	c.posts = append(c.posts, post{key, token})
	if _, isKnown := c.ships[key]; !isKnown && admitted && (!isFirst || c.first == answerLost) {
		c.ships[key] = fmt.Sprintf("shipment %d for %s", len(c.ships)+1, r.PostFormValue("to"))
	}
	return c.ships[key], isFirst, admitted
}

func (c *carrier) find(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lookUp++
	key := r.PathValue("key")
	if _, admitted := c.admit(key, r); !admitted {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	answer, isKnown := c.ships[key]
	if !isKnown {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = fmt.Fprint(w, answer)
}

// seen are the calls so far: those that asked to ship, how many looked up, and how many shipments there are.
func (c *carrier) seen() (posts []post, lookUps, shipments int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(posts, c.posts...), c.lookUp, len(c.ships)
}

// reset ends a connection without an answer, with a RST.
func reset(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err) // the test's own server
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}
