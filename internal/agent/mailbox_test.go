package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// mailboxAt is a mailbox at a server, reached at an address.
func mailboxAt(t *testing.T, srv *agenttest.Server, address, dir string) *LeaseMailbox {
	t.Helper()
	cfg := testConfig(t, srv, dir, patient)
	cfg.Server = address
	m, err := NewLeaseMailbox(cfg, cfg.Claim("nonce-1"))
	must(t, err)
	return m
}

func wantAnswer(t *testing.T, when string, got Reply, want fencing.Answer) {
	t.Helper()
	if got.Answer != want {
		t.Fatalf("%s: %s (%s), want %s", when, got.Answer, got.Detail, want)
	}
}

// TestARotatedAuthorityIsReadAgain: the server gets a certificate of another authority, and then the mounted file names that one.
func TestARotatedAuthorityIsReadAgain(t *testing.T) {
	t.Parallel()
	srv := agenttest.New(agenttest.GrantedLease("lh-1", testPod, 30, 1), nil)
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	m := mailboxAt(t, srv, srv.HostPort(), dir)
	renewed := 0
	renew := func() Reply {
		renewed++
		return m.Renew(t.Context(), wallEpoch.Add(time.Duration(renewed)*time.Second), fencing.Note{})
	}
	wantAnswer(t, "before the rotation", m.Claim(t.Context(), wallEpoch), fencing.Accepted)
	must(t, srv.Rotate())
	m.transport.CloseIdleConnections()
	wantAnswer(t, "the file names the old authority", renew(), fencing.Unavailable)
	ca := filepath.Join(dir, "ca.crt")
	must(t, os.WriteFile(ca, []byte("no certificate"), 0o600))
	reply := renew()
	wantAnswer(t, "the file names none", reply, fencing.Unavailable)
	if !strings.Contains(reply.Detail, "certificate signed by unknown authority") {
		t.Errorf("the log would say %q", reply.Detail)
	}
	if n := srv.Count(agenttest.Renew); n != 0 {
		t.Fatalf("%d requests, and the token with them, went to a server that nobody vouches for", n)
	}
	_, _, err := srv.WriteCredentials(dir, "secret-token")
	must(t, err)
	wantAnswer(t, "the first try since the file was replaced", renew(), fencing.Accepted)

	must(t, os.Remove(ca)) // nothing fails: nobody misses it
	wantAnswer(t, "over the standing connection", renew(), fencing.Accepted)
	m.transport.CloseIdleConnections()
	wantAnswer(t, "over a new connection", renew(), fencing.Accepted)
}
