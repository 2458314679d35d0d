package postgres_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-io/leasehold/worker/internal/pgtest"
	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", "15") // a second each; -rapid.checks on the command line wins
	_ = flag.Set("rapid.nofailfile", "true")
	pgtest.Main(m)
}

// box is a database with an outbox and a business table.
type box struct {
	t    *testing.T
	url  string
	pool *pgxpool.Pool
}

const business = `CREATE TABLE business (key text PRIMARY KEY, n int NOT NULL)`

func newBox(t *testing.T) *box {
	t.Helper()
	b := &box{t: t, url: pgtest.Database(t, postgres.Schema, business)}
	b.pool = openPool(t, b.url)
	return b
}

func openPool(t *testing.T, url string) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func event(key, id string) outbox.Event {
	return outbox.Event{ID: id, Key: key, Source: "/test", Type: "com.example.tested", Data: []byte(`{}`)}
}

// commit enqueues the events in one transaction.
func (b *box) commit(events ...outbox.Event) {
	b.t.Helper()
	err := pgx.BeginFunc(b.t.Context(), b.pool, func(tx pgx.Tx) error { return postgres.Enqueue(b.t.Context(), tx, events...) })
	if err != nil {
		b.t.Fatal(err)
	}
}

// begin opens a transaction, which ends with the test at the latest.
func (b *box) begin() pgx.Tx {
	b.t.Helper()
	tx, err := b.pool.Begin(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// config has short times, for tests.
func (b *box) config(sink outbox.Sink) postgres.Config {
	b.t.Helper()
	database, err := pgx.ParseConfig(b.url)
	if err != nil {
		b.t.Fatal(err)
	}
	return postgres.Config{Database: database, Sink: sink, Poll: 100 * time.Millisecond, MaxAttempts: 4,
		Backoff:       outbox.Backoff{Base: 5 * time.Millisecond, Cap: 20 * time.Millisecond},
		OutageBackoff: outbox.Backoff{Base: 5 * time.Millisecond, Cap: 50 * time.Millisecond},
		Log:           slog.New(slog.DiscardHandler)}
}

// start runs a relay until the test ends or stop is called, which waits for it.
func start(t *testing.T, config postgres.Config) (stop func()) {
	t.Helper()
	relay, err := postgres.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// count is the rows of a table.
func (b *box) count(table string) int {
	b.t.Helper()
	var n int
	if err := b.pool.QueryRow(b.t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *box) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}

// drained waits until the outbox is empty.
func (b *box) drained() {
	b.t.Helper()
	eventually(b.t, "drained", func() bool { return b.count("leasehold_outbox") == 0 })
}

// inbox is a sink that remembers, and refuses what it is told to.
type inbox struct {
	refuse func(outbox.Event) error

	mu   sync.Mutex
	got  []outbox.Event // in the order of arrival, repeats included
	seen map[string]int // deliveries by id
}

func (s *inbox) Deliver(_ context.Context, e outbox.Event) error {
	if s.refuse != nil {
		if err := s.refuse(e); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string]int{}
	}
	s.got = append(s.got, e)
	s.seen[e.ID]++
	return nil
}

// firsts are the ids of a key in the order of their first deliveries.
func (s *inbox) firsts(key string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	known := map[string]bool{}
	for _, e := range s.got {
		if e.Key == key && !known[e.ID] {
			known[e.ID] = true
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func (s *inbox) deliveries() (total, distinct int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got), len(s.seen)
}

func (s *inbox) all() []outbox.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func numbered(key string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", key, i+1)
	}
	return ids
}

// listen takes an address again that was just given up.
func listen(address string) (listener net.Listener, err error) {
	for range 100 {
		if listener, err = net.Listen("tcp", address); err == nil {
			return listener, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, err
}
