package fencing_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// message is one write on its way. It may arrive late, twice, or never.
type message struct {
	attempt int32 // the term it was made for
	kind    string
	by      string
	patch   []byte
}

// world is one Lease, every message ever sent, and what has been accepted in the current term.
type world struct {
	doc      []byte
	attempt  int32
	messages []message
	claims   []string // claims that took effect in the current term
	ends     []string // submissions and revokes that took effect in it
	stops    int      // stops that took effect in it
	clock    time.Time
}

func (w *world) now() time.Time {
	w.clock = w.clock.Add(time.Second)
	return w.clock
}

// send makes a message of an agent process: two of them share each holder's name, as a container restarted in place does.
func (w *world) send(t *rapid.T) {
	holder := fmt.Sprintf("pod-%d", w.attempt)
	process := rapid.SampledFrom([]string{"first", "first", "second"}).Draw(t, "process")
	claim := fencing.Claim{Nonce: process, Node: "node", PodUID: holder}
	m := message{attempt: w.attempt, by: process, kind: rapid.SampledFrom([]string{"claim", "renew", "submit", "submit"}).Draw(t, "kind")}
	switch m.kind {
	case "claim":
		m.patch = fencing.ClaimPatch(holder, claim, w.now())
	case "renew":
		m.patch = fencing.RenewPatch(holder, claim, w.now())
	case "submit":
		result := rapid.SampledFrom([]string{"one", "two"}).Draw(t, "result")
		encoded, err := fencing.Submission{Token: fencing.Token(w.attempt), Outcome: fencing.Succeeded, Result: &result}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		m.patch = fencing.SubmitPatch(holder, claim, encoded)
	}
	w.post(t, m)
}

// post sends a message, which may arrive at once and may arrive later as well.
func (w *world) post(t *rapid.T, m message) {
	w.messages = append(w.messages, m)
	if rapid.Bool().Draw(t, "arrives at once") {
		w.deliver(t, m)
	}
}

// look makes the controller's revoke, or its stop, from what it sees now; it may arrive much later.
func (w *world) look(t *rapid.T) {
	term := read(w.doc)
	if !term.IsOpen() {
		return
	}
	m := message{attempt: w.attempt, kind: rapid.SampledFrom([]string{"revoke", "stop"}).Draw(t, "controller"), by: "controller"}
	if m.kind == "stop" {
		m.patch = fencing.StopPatch(term, fencing.Stop{Reason: "Why", GraceSeconds: rapid.Int32Range(1, 3).Draw(t, "grace"), Time: w.now()})
	} else {
		m.patch = fencing.RevokePatch(term, rapid.Bool().Draw(t, "expired"))
	}
	w.post(t, m)
}

// arrive lets one of the latest messages arrive, the first or the tenth time.
func (w *world) arrive(t *rapid.T) {
	if len(w.messages) == 0 {
		t.Skip("nothing is on its way")
	}
	latest := w.messages[max(0, len(w.messages)-8):]
	w.deliver(t, rapid.SampledFrom(latest).Draw(t, "message"))
}

func (w *world) deliver(t *rapid.T, m message) {
	apply := agenttest.Apply
	if m.by == "controller" {
		apply = agenttest.ApplyOperator
	}
	next, code, _ := apply(w.doc, m.patch)
	if code != 200 || bytes.Equal(next, w.doc) {
		return
	}
	over := len(w.ends) > 0
	w.doc = next
	switch {
	case m.attempt != w.attempt:
		t.Fatalf("a %s of term %d changed term %d", m.kind, m.attempt, w.attempt)
	case over:
		t.Fatalf("a %s changed a term that was over by %v", m.kind, w.ends)
	case m.kind == "claim":
		w.claims = append(w.claims, m.by)
	case m.kind == "submit", m.kind == "revoke":
		w.ends = append(w.ends, m.kind+" by "+m.by)
	case m.kind == "stop":
		w.stops++
	}
	if m.kind != "claim" && m.by != "controller" && (len(w.claims) == 0 || w.claims[0] != m.by) {
		t.Fatalf("a %s by %s took effect, the claims are %v", m.kind, m.by, w.claims)
	}
}

// grantNext is the controller's grant over a term that has ended, by compare-and-swap: it sees the newest Lease.
func (w *world) grantNext(t *rapid.T) {
	if read(w.doc).IsOpen() || rapid.IntRange(0, 2).Draw(t, "wait") > 0 {
		t.Skip("the term is open, or the controller takes its time")
	}
	w.attempt++
	w.doc = grant(fmt.Sprintf("pod-%d", w.attempt), w.attempt)
	w.claims, w.ends, w.stops = nil, nil, 0
}

// check is what must hold whatever the order was.
func (w *world) check(t *rapid.T) {
	term := read(w.doc)
	if len(w.claims) > 1 {
		t.Fatalf("claimed by %v", w.claims)
	}
	if len(w.ends) > 1 {
		t.Fatalf("ended by %v", w.ends)
	}
	if term.IsOpen() != (len(w.ends) == 0) {
		t.Fatalf("state %s, ended by %v", term.State(), w.ends)
	}
	if (term.Claim != nil) != (len(w.claims) == 1) || (term.Claim != nil && term.Claim.Nonce != w.claims[0]) {
		t.Fatalf("claim %v, accepted %v", term.Claim, w.claims)
	}
	if (term.Stop != nil) != (w.stops > 0) {
		t.Fatalf("term %d bears %+v, %d stops were accepted", w.attempt, term.Stop, w.stops)
	}
	if term.Submission != nil && term.Submission.Token != fencing.Token(w.attempt) {
		t.Fatalf("term %d carries the submission of term %d", w.attempt, term.Submission.Token)
	}
}

// TestAnyInterleaving: in whatever order claims, renewals, submissions, stops and revokes of two processes a term arrive, late
// and repeated, over several terms, each term has at most one claim and one end, and no message reaches another term.
func TestAnyInterleaving(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{doc: grant("pod-1", 1), attempt: 1, clock: start}
		t.Repeat(map[string]func(*rapid.T){
			"":       w.check,
			"send":   w.send,
			"look":   w.look,
			"arrive": w.arrive,
			"again":  w.arrive, // messages arrive more often than they are made
			"grant":  w.grantNext,
		})
	})
}
