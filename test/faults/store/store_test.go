package store

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/test/faults/postgres"
)

func server(t *testing.T) func() *pgx.Conn {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can install PostgreSQL and start it as another user")
	}
	s, err := postgres.Start(t.Context(), os.Stderr, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), s.URL("127.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
}

func TestCase15ALowerTokenIsRefusedAndNoted(t *testing.T) {
	conn := server(t)()
	if err := Setup(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	var want [2][]Row
	for _, w := range []struct {
		Row
		accepted bool
	}{
		{Row{"a", 1, 10}, true}, {Row{"a", 1, 10}, true}, {Row{"b", 1, 5}, true}, {Row{"a", 2, 12}, true}, {Row{"a", 1, 10}, false},
		{Row{"a", 2, 12}, true}, {Row{"b", 2, 6}, true}, {Row{"b", 1, 5}, false},
	} {
		accepted, err := Write(t.Context(), conn, w.Row)
		if err != nil || accepted != w.accepted {
			t.Errorf("%+v: accepted %v, %v", w, accepted, err)
		}
		i := 0
		if !w.accepted {
			i = 1
		}
		want[i] = append(want[i], w.Row)
	}
	accepted, refused, err := Rows(t.Context(), conn)
	if diff := cmp.Diff(want, [2][]Row{accepted, refused}); err != nil || diff != "" {
		t.Errorf("%v; -want +got:\n%s", err, diff)
	}
}

func TestConcurrentWritersLeaveRisingTokens(t *testing.T) {
	connect := server(t)
	first := connect()
	if err := Setup(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	const writers, each = 8, 100
	var all sync.WaitGroup
	for w := range writers {
		conn := connect()
		all.Go(func() {
			for i := range each {
				if _, err := Write(t.Context(), conn, Row{Task: "t", Attempt: w, Token: int64(i*writers + w)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	accepted, refused, err := Rows(t.Context(), first)
	if err != nil || len(accepted)+len(refused) != writers*each {
		t.Fatalf("%d accepted, %d refused, %v", len(accepted), len(refused), err)
	}
	for i := 1; i < len(accepted); i++ {
		if accepted[i].Token < accepted[i-1].Token {
			t.Fatalf("token %d after %d", accepted[i].Token, accepted[i-1].Token)
		}
	}
	t.Logf("%d accepted, %d refused", len(accepted), len(refused))
}
