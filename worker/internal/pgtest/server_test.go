package pgtest

import (
	"context"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) { Main(m) }

func TestTheServerComesBackAfterACrashAndLeavesNothing(t *testing.T) {
	Database(t) // skips
	s, err := Start(t.Context(), "fsync=on")
	if err != nil {
		t.Fatal(err)
	}
	u, err := s.Create(t.Context(), "CREATE TABLE kept (n int)")
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := pgx.ParseConfig(u)
	if err != nil {
		t.Fatal(err)
	}
	foreign.Password = "guessed"
	if _, err := pgx.ConnectConfig(t.Context(), foreign); err == nil {
		t.Error("a wrong password opens it")
	}
	s.Halt()
	if err := s.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := execute(t.Context(), u, "INSERT INTO kept VALUES (1)"); err != nil {
		t.Error(err)
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("%s: %v", s.dir, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))); err == nil {
		_ = conn.Close()
		t.Error("somebody still listens")
	}
}
