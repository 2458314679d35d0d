package pgtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

var (
	shared    *Server
	whyNot    error
	databases atomic.Int64
)

// Main runs the tests of a package beside one server, for use in TestMain.
func Main(m *testing.M) {
	shared, whyNot = Start(context.Background())
	if shared == nil { // an example has nothing to skip itself with
		fmt.Fprintln(os.Stderr, "SKIP: examples:", whyNot)
		_ = flag.Set("test.skip", "^Example")
	}
	code := m.Run()
	if shared != nil {
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Database makes an empty database, runs the scripts in it, and returns its URL. Without a server the test is skipped.
func Database(t testing.TB, scripts ...string) string {
	t.Helper()
	if errors.Is(whyNot, ErrMissing) {
		t.Skip(whyNot)
	}
	if whyNot != nil {
		t.Fatal(whyNot)
	}
	if shared == nil {
		t.Fatal("TestMain does not call pgtest.Main")
	}
	u, err := shared.Create(t.Context(), scripts...)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Example is [Database] for examples. [Main] skips them where there is no server.
func Example(scripts ...string) string {
	u, err := shared.Create(context.Background(), scripts...)
	if err != nil {
		panic(err)
	}
	return u
}

// Create makes a database, runs the scripts in it, and returns its URL.
func (s *Server) Create(ctx context.Context, scripts ...string) (string, error) {
	name := fmt.Sprintf("test%d", databases.Add(1))
	if err := execute(ctx, s.URL("postgres"), "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	return s.URL(name), execute(ctx, s.URL(name), scripts...)
}

func execute(ctx context.Context, url string, scripts ...string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, script := range scripts {
		if _, err := conn.Exec(ctx, script); err != nil {
			return err
		}
	}
	return nil
}
