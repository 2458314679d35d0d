package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/test/faults/postgres"
	"github.com/leasehold-io/leasehold/test/faults/store"
)

const schema = `CREATE TABLE sums (task text NOT NULL, unit int NOT NULL, token bigint NOT NULL, PRIMARY KEY (task, unit))`

// stopAfter makes the cancel file appear once a unit is done.
type stopAfter struct{ unit, file string }

func (s stopAfter) Write(line []byte) (int, error) {
	if strings.HasPrefix(string(line), "unit "+s.unit+" ") {
		return len(line), os.WriteFile(s.file, []byte("no longer needed\n"), 0o600)
	}
	return len(line), nil
}

func TestScenario5TheWorkerLeavesAllRowsOrNone(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can install PostgreSQL and start it as another user")
	}
	server, err := postgres.Start(t.Context(), os.Stderr, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop() })
	conn, err := pgx.Connect(t.Context(), server.URL("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cancel")
	t.Setenv(env.CancelFile, file)
	rows := func(task string) (n int) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM sums WHERE task = $1", task).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if sum, err := aggregate(t.Context(), conn, io.Discard, Order{Units: 4}, store.Row{Task: "whole", Token: 7}); err != nil || sum != 10 || rows("whole") != 4 {
		t.Errorf("sum %d, %v, %d rows", sum, err, rows("whole"))
	}
	_, err = aggregate(t.Context(), conn, stopAfter{"2", file}, Order{Units: 4}, store.Row{Task: "half", Token: 8})
	if stop := (stopped{}); !errors.As(err, &stop) || stop != (stopped{"no longer needed", 3}) || rows("half") != 0 {
		t.Errorf("%v, %d rows", err, rows("half"))
	}
}
