package teststores

import (
	"bytes"
	"net"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestPostgresLivesAndLeavesNothing(t *testing.T) {
	var progress bytes.Buffer
	s, err := StartPostgres(t.Context(), &progress, PostgresOptions{Settings: []string{"deadlock_timeout=7s"}})
	if err != nil {
		t.Skipf("SKIP: no PostgreSQL: %v", err)
	}
	conn, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var setting string
	if err := conn.QueryRow(t.Context(), "SHOW deadlock_timeout").Scan(&setting); err != nil || setting != "7s" {
		t.Errorf("deadlock_timeout %q, %v", setting, err)
	}
	dir, address := s.dir, s.address
	if err := s.Stop(); err != nil { // with a client connected
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s: %v", dir, err)
	}
	if conn, err := net.DialTimeout("tcp", address, time.Second); err == nil {
		_ = conn.Close()
		t.Error("somebody still listens")
	}
}
