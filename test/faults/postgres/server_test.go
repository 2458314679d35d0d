package postgres

import (
	"context"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestServerLivesAndLeavesNothing(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can install PostgreSQL and start it as another user")
	}
	s, err := Start(t.Context(), os.Stderr, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), s.URL("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	var version string
	if err := conn.QueryRow(t.Context(), "SHOW server_version").Scan(&version); err != nil || version == "" {
		t.Errorf("version %q, %v", version, err)
	}
	foreign, err := pgx.ParseConfig(s.URL("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	foreign.Password = "guessed"
	if _, err := pgx.ConnectConfig(t.Context(), foreign); err == nil {
		t.Error("a wrong password opens it")
	}
	if err := s.Stop(); err != nil { // with a client connected
		t.Fatal(err)
	}
	_ = conn.Close(context.Background())
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("%s: %v", s.dir, err)
	}
	if conn, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), time.Second); err == nil {
		_ = conn.Close()
		t.Error("somebody still listens")
	}
}
