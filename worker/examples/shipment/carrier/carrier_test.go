package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/worker/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// client calls a carrier that runs as the command does.
type client struct {
	*testing.T
	url    string
	resume io.Writer
}

func start(t *testing.T, args ...string) *client {
	t.Helper()
	database := pgtest.Database(t)
	in, resume := io.Pipe()
	log, out := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, args, database, in, out)
		_ = out.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	var first event
	if err := json.NewDecoder(log).Decode(&first); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	return &client{T: t, url: first.URL, resume: resume}
}

// call makes one call, on a connection of its own, and returns "status answer"; "lost": there is no answer.
func (c *client) call(method, path, key, token, body string) string {
	c.Helper()
	request, err := http.NewRequest(method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	request.Close = true
	request.Header.Set("Idempotency-Key", key)
	request.Header.Set("Fencing-Token", token)
	done := make(chan string, 1)
	go func() {
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			done <- "lost"
			return
		}
		defer response.Body.Close() //nolint:errcheck // read
		answer, _ := io.ReadAll(response.Body)
		done <- response.Status[:3] + " " + strings.TrimSpace(string(answer))
	}()
	select {
	case answer := <-done:
		return answer
	case <-time.After(20 * time.Second):
		return "no end"
	}
}

func (c *client) want(want, got string) {
	c.Helper()
	if !strings.HasPrefix(got, want) {
		c.Errorf("got %s, want %s", got, want)
	}
}

func (c *client) wantCount(n string) {
	c.Helper()
	c.want(`200 {"count":`+n+`}`, c.call("GET", "/shipments", "", "", ""))
}

func TestARepeatGetsTheFirstShipment(t *testing.T) {
	c := start(t)
	c.want(`201 {"number":1,"to":"Ghent"}`, c.call("POST", "/shipments", "k", "5", `{"to":"Ghent"}`))
	c.want(`201 {"number":1,"to":"Ghent"}`, c.call("POST", "/shipments", "k", "6", `{ "to": "Ghent" }`))
	c.want(`422 `, c.call("POST", "/shipments", "k", "6", `{"to":"Bruges"}`))
	c.want(`412 stale`, c.call("POST", "/shipments", "k", "5", `{"to":"Ghent"}`))
	c.wantCount("1")
	c.want(`201 {"number":`, c.call("POST", "/shipments", "another", "1", `{"to":"Ghent"}`))
	c.wantCount("2")
}

func TestWhatIsNoOrderIsRefused(t *testing.T) {
	c := start(t)
	for _, body := range []string{"", "{}", `{"to":""}`, `{"number":7,"to":"Ghent"}`, "to=Ghent"} {
		c.want("400 ", c.call("POST", "/shipments", "k", "5", body))
	}
	c.wantCount("0")
}

// TestALookUpShutsTheDoorBehindIt: after a no, what an earlier attempt has sent is refused when it arrives.
func TestALookUpShutsTheDoorBehindIt(t *testing.T) {
	c := start(t)
	c.want("404 ", c.call("GET", "/shipments/k", "", "6", ""))
	c.want("412 ", c.call("POST", "/shipments", "k", "5", `{"to":"Ghent"}`))
	c.want(`201 {"number":1,"to":"Ghent"}`, c.call("POST", "/shipments", "k", "7", `{"to":"Ghent"}`))
	c.want("412 ", c.call("GET", "/shipments/k", "", "6", ""))
	c.want(`200 {"number":1,"to":"Ghent"}`, c.call("GET", "/shipments/k", "", "8", ""))
}

func TestTheFirstCallIsLost(t *testing.T) {
	for lose, shipments := range map[string]string{loseAnswer: "1", loseRequest: "0"} {
		c := start(t, "-lose", lose)
		c.want("lost", c.call("POST", "/shipments", "k", "5", `{"to":"Ghent"}`))
		c.wantCount(shipments)
		c.want(`201 {"number":1,"to":"Ghent"}`, c.call("POST", "/shipments", "k", "6", `{"to":"Ghent"}`))
		c.wantCount("1")
	}
}

// TestALostCallIsHeld until somebody says so; others are answered meanwhile.
func TestALostCallIsHeld(t *testing.T) {
	c := start(t, "-lose", loseAnswer, "-hold")
	lost := make(chan string, 1)
	go func() { lost <- c.call("POST", "/shipments", "k", "5", `{"to":"Ghent"}`) }()
	for c.call("GET", "/shipments", "", "", "") != `200 {"count":1}` {
		time.Sleep(10 * time.Millisecond)
	}
	c.want("200 ", c.call("GET", "/shipments/k", "", "6", ""))
	select {
	case got := <-lost:
		t.Fatal("it is not held: " + got)
	case <-time.After(300 * time.Millisecond):
	}
	if _, err := io.WriteString(c.resume, "go on\n"); err != nil {
		t.Fatal(err)
	}
	c.want("lost", <-lost)
}
