package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
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

// TestADeadEndpointLeavesTimeForAnotherTry: a connection that does not come about does not take the whole of a long request timeout.
func TestADeadEndpointLeavesTimeForAnotherTry(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]bool{"says nothing": false, "does not accept": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := agenttest.New(agenttest.GrantedLease("lh-1", testPod, 30, 1), nil)
			t.Cleanup(srv.Close)
			dead := newDeadEndpoint(t)
			if fill {
				dead.fill(t)
			}
			m := mailboxAt(t, srv, dead.address, t.TempDir())
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // the request timeout of D = 180 s
			defer cancel()
			wantAnswer(t, "dead", m.Claim(ctx, wallEpoch), fencing.Unavailable)
			if ctx.Err() != nil {
				t.Fatal("the try took the whole request timeout")
			}
			dead.revive(t, srv.HostPort())
			eventually(t, "a claim", func() bool { return m.Claim(t.Context(), wallEpoch).Answer == fencing.Accepted })
		})
	}
}

// deadEndpoint is an address at which the kernel takes a connection or two, and nobody answers.
type deadEndpoint struct {
	listener net.Listener
	address  string
}

func newDeadEndpoint(t *testing.T) *deadEndpoint {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(t, err)
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close() //nolint:errcheck // the listener has a copy
	must(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must(t, syscall.Listen(fd, 0))
	listener, err := net.FileListener(file)
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return &deadEndpoint{listener: listener, address: listener.Addr().String()}
}

// fill makes connections until the kernel takes no more.
func (d *deadEndpoint) fill(t *testing.T) {
	t.Helper()
	for range 16 {
		conn, err := net.DialTimeout("tcp", d.address, 200*time.Millisecond)
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			return
		}
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("the kernel takes every connection")
}

// revive passes everything on to a server, from now on.
func (d *deadEndpoint) revive(t *testing.T, server string) {
	t.Helper()
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(func() { _ = d.listener.Close() })
	running.Go(func() {
		for {
			conn, err := d.listener.Accept()
			if err != nil {
				return
			}
			go pass(conn, server)
		}
	})
}

func pass(conn net.Conn, server string) {
	defer conn.Close() //nolint:errcheck // a test's
	behind, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer behind.Close() //nolint:errcheck // a test's
	go func() { _, _ = io.Copy(behind, conn); _ = behind.Close() }()
	_, _ = io.Copy(conn, behind)
}
