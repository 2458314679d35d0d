package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// Faults of the first call that asks to ship.
const (
	loseNothing = ""
	loseAnswer  = "answer"  // it has its effect, and the connection is reset before the answer
	loseRequest = "request" // the connection is reset before it has any effect
)

// event is a line of the log: a call, once it had its effect or had none, and before it is answered.
type event struct {
	Event string `json:"event"` // listening, ship, find
	URL   string `json:"url,omitempty"`
	Key   string `json:"key,omitempty"`
	Token int64  `json:"token,omitempty"`
}

// server is the carrier's front door.
//
//	POST /shipments        Idempotency-Key, Fencing-Token; {"to": "Ghent"}: 201 {"number": 1, "to": "Ghent"}, also for a repeat;
//	                       412 for a token that was overtaken, 422 for another order under the same key
//	GET  /shipments/KEY    Fencing-Token: 200 with the shipment; 404 if there is none, and none will come of what was sent before
//	GET  /shipments        200 {"count": 1}
type server struct {
	*carrier
	lose   string
	resume <-chan struct{} // the call that is lost waits for this before it is
	first  sync.Once

	mu  sync.Mutex
	log *json.Encoder
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /shipments", s.post)
	mux.HandleFunc("GET /shipments/{key}", s.get)
	mux.HandleFunc("GET /shipments", s.list)
	return mux
}

func (s *server) note(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.log.Encode(e) // whoever does not read it, does not miss it
}

func (s *server) post(w http.ResponseWriter, r *http.Request) {
	key, token, err := credentials(r.Header.Get("Idempotency-Key"), r)
	if err != nil {
		refuse(w, err)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		refuse(w, &problem{http.StatusRequestEntityTooLarge, "the body is too large"})
		return
	}
	lose := loseNothing
	s.first.Do(func() { lose = s.lose })
	var answer []byte
	if lose != loseRequest {
		// The client may hang up: what it asked for is done all the same, as anywhere.
		answer, _, err = s.ship(context.WithoutCancel(r.Context()), key, token, body)
	}
	s.note(event{Event: "ship", Key: key, Token: int64(token)})
	switch {
	case lose != loseNothing:
		<-s.resume
		reset(w)
	case err != nil:
		refuse(w, err)
	default:
		say(w, http.StatusCreated, answer)
	}
}

func (s *server) get(w http.ResponseWriter, r *http.Request) {
	key, token, err := credentials(r.PathValue("key"), r)
	var answer []byte
	if err == nil {
		answer, err = s.find(r.Context(), key, token)
		s.note(event{Event: "find", Key: key, Token: int64(token)})
	}
	if err != nil {
		refuse(w, err)
		return
	}
	say(w, http.StatusOK, answer)
}

func (s *server) list(w http.ResponseWriter, r *http.Request) {
	n, err := s.count(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	answer, _ := json.Marshal(map[string]int{"count": n})
	say(w, http.StatusOK, answer)
}

func say(w http.ResponseWriter, status int, answer []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(answer) // whoever has hung up is not told
}

func refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable // the database: ask again
	if p, is := errors.AsType[*problem](err); is {
		status = p.status
	}
	http.Error(w, err.Error(), status)
}

// reset ends a connection without an answer, with a RST.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// isThere is the error of making a table that exists.
func isThere(err error) bool {
	refusal, is := errors.AsType[*pgconn.PgError](err)
	return is && refusal.Code == "42P07"
}
