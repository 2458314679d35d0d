package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"

	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// Bounds of what the command can make the agent hold. They protect the command from itself: nobody else reaches the socket.
const (
	maxConnections = 64
	maxHeaderBytes = 8 << 10
	readTimeout    = 10 * time.Second
	writeTimeout   = 10 * time.Second // from the request's arrival; who waits at /v1/cancel is not writing yet
	idleTimeout    = 2 * time.Minute
)

// socket serves the command on a Unix socket. Its methods do nothing on nil.
type socket struct {
	agent    *Agent
	listener net.Listener
	server   *http.Server
	writing  sync.Mutex // of the checkpoint file
}

// openSocket serves the socket, before the command is started. Without one the command works on, unless it has to be heard.
func (a *Agent) openSocket() {
	s, err := serve(a)
	if err == nil {
		a.socket = s
		return
	}
	a.Log.Error("The socket cannot be served", "error", err)
	if a.Config.Heartbeat == holder.Application {
		a.unheard = fmt.Errorf("lease.heartbeat is Application, and the agent's socket cannot be served: %w", err)
	}
}

// serve listens where only the container's user can connect.
func serve(a *Agent) (*socket, error) {
	path := a.Config.SocketPath
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	config := net.ListenConfig{Control: private}
	listener, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // a fence does not wait for a directory; nobody answers there any more
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	s := &socket{agent: a, listener: listener}
	s.server = &http.Server{
		Handler:        s,
		Protocols:      protocols,
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       stdlog.New(io.Discard, "", 0), // whatever the command sends is its own affair
	}
	go func() { _ = s.server.Serve(netutil.LimitListener(listener, maxConnections)) }() // it ends with the listener
	return s, nil
}

// private gives a socket its mode before it has a name: there is no moment in which others can connect.
func private(_, _ string, conn syscall.RawConn) error {
	var err error
	return errors.Join(conn.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }), err)
}

// withdraw takes the socket out of the command's way: the term is lost, and nothing that it says counts. Who waits for a stop is
// answered.
func (s *socket) withdraw() {
	if s == nil {
		return
	}
	s.agent.words.lose()
	_ = s.listener.Close()
}

// close ends every connection. Nothing is said after that.
func (s *socket) close() {
	if s == nil {
		return
	}
	_ = s.listener.Close()
	_ = s.server.Close() // nobody is left to be told
}
