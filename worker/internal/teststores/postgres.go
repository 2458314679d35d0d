package teststores

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// postgresBinary is where Debian has the server, one directory a version.
const postgresBinary = "/usr/lib/postgresql/*/bin/postgres"

// PostgresOptions are what differs between the uses.
type PostgresOptions struct {
	Durable  bool     // wait for the disk, as in production: for measurements
	Settings []string // more settings, "name=value"
}

// PostgresServer is a running PostgreSQL.
type PostgresServer struct {
	server
	address, password string
}

// StartPostgres starts a server of its own for a test that needs more than [Main] gives.
func StartPostgres(ctx context.Context, progress io.Writer, options PostgresOptions) (*PostgresServer, error) {
	binary, err := program(ctx, progress, postgresBinary, "postgresql")
	if err != nil {
		return nil, err
	}
	s := &PostgresServer{password: rand.Text()}
	if s.dir, err = os.MkdirTemp("", "leasehold-postgres-"); err != nil {
		return nil, err
	}
	if err := s.run(ctx, progress, filepath.Dir(binary), options); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *PostgresServer) run(ctx context.Context, progress io.Writer, bin string, options PostgresOptions) error {
	secret, data := filepath.Join(s.dir, "password"), filepath.Join(s.dir, "data")
	if err := os.WriteFile(secret, []byte(s.password), 0o600); err != nil {
		return err
	}
	identity, err := identityOf("postgres", s.dir, secret) // PostgreSQL refuses to run as root
	if err != nil {
		return err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata="+data, "--username=leasehold", "--pwfile="+secret,
		"--auth=scram-sha-256", "--locale=C", "--encoding=UTF8", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = s.dir, identity
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	s.address = loopback(port)
	args := []string{"-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + s.dir,
		"-c", "max_connections=300", "-c", "log_min_messages=panic"}
	if !options.Durable {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	for _, setting := range options.Settings {
		args = append(args, "-c", setting)
	}
	if err := s.launch(progress, identity, filepath.Join(bin, "postgres"), args...); err != nil {
		return err
	}
	return s.await(ctx, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, s.URL())
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}

// URL is how clients connect, as a superuser to the database postgres.
func (s *PostgresServer) URL() string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("leasehold", s.password), Host: s.address, Path: "postgres",
		RawQuery: "sslmode=disable&connect_timeout=5"}
	return u.String()
}

// Stop ends the server and removes its directory.
func (s *PostgresServer) Stop() error { return s.stop() }
