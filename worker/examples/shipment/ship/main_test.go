package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/leasehold-io/leasehold/worker"
)

// TestWhatAnAnswerMeans, for the worker and for its probe. What is not certain must be neither a yes nor a no.
func TestWhatAnAnswerMeans(t *testing.T) {
	const (
		result, permanent, noEffect, unknown = "the result", "a permanent failure", "no effect", "an error"
	)
	tests := map[int]struct{ ship, find string }{
		200: {unknown, result},
		201: {result, unknown},
		400: {permanent, unknown},
		404: {unknown, noEffect},
		412: {unknown, unknown},
		422: {permanent, unknown},
		503: {unknown, unknown},
		0:   {unknown, unknown}, // none: the connection is closed
	}
	for status, tc := range tests {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Idempotency-Key") != "key-1" || r.Header.Get("Fencing-Token") != "7" {
				t.Errorf("header %v", r.Header)
			}
			if status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(status)
			_, _ = fmt.Fprint(w, "answer\n")
		}))
		api := carrier{url: server.URL, http: server.Client()}
		task := &worker.Task{IdempotencyKey: "key-1", FencingToken: 7, Payload: []byte(`{"to": "Ghent"}`)}
		for want, work := range map[string]worker.Work{"ship " + tc.ship: worker.JSON(api.ship), "find " + tc.find: api.find} {
			got := unknown
			answer, err := work(context.Background(), task)
			failure, isFailure := errors.AsType[*worker.Failure](err)
			switch {
			case err == nil && string(answer.([]byte)) == "answer":
				got = result
			case errors.Is(err, worker.ErrNoEffect):
				got = noEffect
			case isFailure && failure.Permanent && !failure.NoEffect:
				got = permanent
			}
			if want[5:] != got {
				t.Errorf("%d: %s, got %s: %v", status, want, got, err)
			}
		}
		server.Close()
	}
}
