package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/hack/debian"
)

// binaries is where Debian has the server, one directory a version.
const binaries = "/usr/lib/postgresql/*/bin/postgres"

const (
	// account runs the server, which refuses to run as root.
	account = "postgres"
	// role is the one database role, a superuser.
	role       = "leasehold"
	startLimit = time.Minute
	stopLimit  = 15 * time.Second
)

// Server is a running server.
type Server struct {
	dir      string
	port     int
	password string
	process  *exec.Cmd
	ended    chan struct{} // closed once it has ended, with err
	err      error
}

// Start starts a server on the given addresses of this machine, the first of which is used to wait until it answers.
func Start(ctx context.Context, progress io.Writer, addresses ...string) (*Server, error) {
	if err := debian.Ensure(ctx, progress, []debian.Requirement{{Package: "postgresql", Files: []string{binaries}}}); err != nil {
		return nil, err
	}
	found, err := filepath.Glob(binaries)
	if err != nil || len(found) == 0 {
		return nil, errors.Join(errors.New("no PostgreSQL server at "+binaries), err)
	}
	s := &Server{password: rand.Text(), ended: make(chan struct{})}
	if s.port, err = freePort(addresses[0]); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "leasehold-postgres-"); err != nil {
		return nil, err
	}
	if err := s.run(ctx, progress, filepath.Dir(found[len(found)-1]), addresses); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) run(ctx context.Context, progress io.Writer, bin string, addresses []string) error {
	identity, err := s.giveAway()
	if err != nil {
		return err
	}
	data, secret := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "password")
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata="+data, "--username="+role, "--pwfile="+secret,
		"--auth=scram-sha-256", "--locale=C", "--encoding=UTF8", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = s.dir, identity
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	access := []byte("host all all all scram-sha-256\n") // who can reach one of the addresses and knows the password
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), access, 0o600); err != nil {
		return err
	}
	s.process = exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses="+strings.Join(addresses, ","), "-c", "unix_socket_directories="+s.dir,
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=200", "-c", "log_min_messages=fatal")
	s.process.Dir, s.process.Stdout, s.process.Stderr = s.dir, progress, progress
	s.process.SysProcAttr = identity
	if err := s.process.Start(); err != nil {
		s.process = nil
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	go func() {
		s.err = s.process.Wait()
		close(s.ended)
	}()
	return s.awaitAnswer(ctx, addresses[0])
}

// giveAway writes the password and makes the directory the server's own. The server ends with this process, however that ends.
func (s *Server) giveAway() (*syscall.SysProcAttr, error) {
	secret := filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte(s.password), 0o600); err != nil {
		return nil, err
	}
	identity := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() != 0 {
		return identity, nil
	}
	owner, err := user.Lookup(account)
	if err != nil {
		return nil, err
	}
	uid, uidErr := strconv.Atoi(owner.Uid)
	gid, gidErr := strconv.Atoi(owner.Gid)
	if err := errors.Join(uidErr, gidErr, os.Chown(s.dir, uid, gid), os.Chown(secret, uid, gid)); err != nil {
		return nil, err
	}
	identity.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return identity, nil
}

func (s *Server) awaitAnswer(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL(address))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.ended:
			s.process = nil
			return fmt.Errorf("PostgreSQL ended: %w", s.err)
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// URL is how clients that can reach the address connect, to the database postgres.
func (s *Server) URL(address string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(role, s.password), Host: net.JoinHostPort(address, strconv.Itoa(s.port)),
		Path: "postgres", RawQuery: "sslmode=disable&connect_timeout=2"}
	return u.String()
}

// Stop ends the server, also in the middle of its clients' work, and removes its directory.
func (s *Server) Stop() error {
	if s.process != nil {
		_ = s.process.Process.Signal(syscall.SIGINT)
		select {
		case <-s.ended:
		case <-time.After(stopLimit):
			_ = s.process.Process.Kill()
			<-s.ended
		}
		s.process = nil
	}
	return os.RemoveAll(s.dir)
}

func freePort(address string) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}
