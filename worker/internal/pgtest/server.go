package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	account    = "postgres" // runs the server, which refuses to run as root
	role       = "leasehold"
	startLimit = time.Minute
	stopLimit  = 15 * time.Second
)

// Server is a running server.
type Server struct {
	dir, bin string
	port     int
	password string
	identity *syscall.SysProcAttr
	settings []string
	process  *exec.Cmd
	ended    chan struct{}
}

// Start makes a data directory and starts a server on it. settings are further name=value pairs.
func Start(ctx context.Context, settings ...string) (*Server, error) {
	bin, err := binaries(ctx)
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, password: rand.Text(), settings: settings}
	if s.port, err = freePort(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "leasehold-pgtest-"); err != nil {
		return nil, err
	}
	if err := s.initialise(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	if err := s.Resume(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) initialise(ctx context.Context) error {
	secret := filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte(s.password), 0o600); err != nil {
		return err
	}
	s.identity = &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT} // the server ends with the tests, however they end
	if os.Geteuid() == 0 {
		owner, err := user.Lookup(account)
		if err != nil {
			return err
		}
		uid, uidErr := strconv.Atoi(owner.Uid)
		gid, gidErr := strconv.Atoi(owner.Gid)
		if err := errors.Join(uidErr, gidErr, os.Chown(s.dir, uid, gid), os.Chown(secret, uid, gid)); err != nil {
			return err
		}
		s.identity.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	initdb := exec.CommandContext(ctx, filepath.Join(s.bin, "initdb"), "--pgdata="+s.data(), "--username="+role, "--pwfile="+secret,
		"--auth=scram-sha-256", "--locale=C", "--encoding=UTF8", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = s.dir, s.identity
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Resume starts the server again after [Server.Halt].
func (s *Server) Resume(ctx context.Context) error {
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + s.dir,
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=300", "-c", "log_min_messages=panic"}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	s.process = exec.Command(filepath.Join(s.bin, "postgres"), args...)
	s.process.Dir, s.process.Stderr, s.process.SysProcAttr = s.dir, os.Stderr, s.identity
	if err := s.process.Start(); err != nil {
		s.process = nil
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	process, ended := s.process, make(chan struct{})
	s.ended = ended
	go func() {
		_ = process.Wait()
		close(ended)
	}()
	return s.awaitAnswer(ctx)
}

func (s *Server) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.ended:
			s.process = nil
			return fmt.Errorf("PostgreSQL ended before it answered: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// URL is how clients on this machine connect to a database of the server.
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, s.password), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)),
		Path: database, RawQuery: "sslmode=disable&connect_timeout=5"}
	return u.String()
}

// Halt ends the server at once, in the middle of its clients' work: SIGQUIT, after which it recovers as from a crash.
func (s *Server) Halt() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Signal(syscall.SIGQUIT)
	select {
	case <-s.ended:
	case <-time.After(stopLimit):
		_ = s.process.Process.Kill()
		<-s.ended
	}
	s.process = nil
}

// Stop ends the server and removes its directory.
func (s *Server) Stop() error {
	s.Halt()
	return os.RemoveAll(s.dir)
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}
