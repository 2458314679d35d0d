// Bench measures the outbox on a PostgreSQL of its own, with the disk waited for (fsync on):
//
//	go run ./outbox/test/bench -events 100000 -runs 5
//
// Throughput: a backlog is relayed into a null sink. Bloat: the same number of events with writers and relay at work side by
// side; how large table and index become, and what is left of them.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold-io/leasehold/worker/internal/pgtest"
	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

func main() {
	var b bench
	flag.IntVar(&b.events, "events", 100_000, "events a run")
	flag.IntVar(&b.runs, "runs", 5, "runs; the median is reported")
	flag.IntVar(&b.keys, "keys", 1000, "different keys")
	flag.IntVar(&b.relays, "relays", 1, "relays side by side")
	flag.IntVar(&b.writers, "writers", 4, "writers of the bloat run")
	flag.IntVar(&b.blocked, "blocked", 0, "keys that are backing off meanwhile")
	flag.IntVar(&b.vacuumEvery, "vacuum", 20_000, "the relay vacuums after so many events; -1: never")
	flag.Parse()
	if err := b.run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type bench struct {
	events, runs, keys, relays, writers, blocked, vacuumEvery int
	server                                                    *pgtest.Server
}

func (b *bench) run(ctx context.Context) (err error) {
	if b.server, err = pgtest.Start(ctx, "fsync=on", "full_page_writes=on"); err != nil {
		return err
	}
	defer func() { _ = b.server.Stop() }()
	var rates []float64
	for range b.runs {
		rate, err := b.throughput(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("relayed %d events of %d keys: %.0f events/s\n", b.events, b.keys, rate)
		rates = append(rates, rate)
	}
	if len(rates) > 0 {
		slices.Sort(rates)
		fmt.Printf("median %.0f events/s, lowest %.0f, highest %.0f\n", rates[len(rates)/2], rates[0], rates[len(rates)-1])
	}
	return b.bloat(ctx)
}

func (b *bench) open(ctx context.Context) (*pgx.Conn, *pgx.ConnConfig, error) {
	url, err := b.server.Create(ctx, postgres.Schema)
	if err != nil {
		return nil, nil, err
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	return conn, config, err
}

const fill = `INSERT INTO leasehold_outbox (key, source, type, data)
SELECT 'order-' || n % $2, '/bench', 'com.example.measured', convert_to(repeat('x', 200), 'UTF8') FROM generate_series(1, $1::int) n`

const (
	block = `INSERT INTO leasehold_outbox (key, source, type) SELECT 'blocked-' || n, '/bench', 't' FROM generate_series($1::int, $2::int) n`
	stop  = `UPDATE leasehold_outbox SET due_at = 'infinity' WHERE key LIKE 'blocked-%'`
)

func (b *bench) throughput(ctx context.Context) (float64, error) {
	conn, config, err := b.open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(ctx) }()
	for n := b.events; n > 0; n -= 5000 { // a transaction holds a lock for each of its keys
		if _, err := conn.Exec(ctx, fill, min(n, 5000), b.keys); err != nil {
			return 0, err
		}
	}
	for n := 0; n < b.blocked; n += 5000 {
		if _, err := conn.Exec(ctx, block, n+1, min(n+5000, b.blocked)); err != nil {
			return 0, err
		}
	}
	if _, err := conn.Exec(ctx, stop); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := b.relay(ctx, config, func(context.Context) error { return nil }); err != nil {
		return 0, err
	}
	return float64(b.events) / time.Since(began).Seconds(), nil
}

// relay runs the relays beside work until all events are delivered.
func (b *bench) relay(ctx context.Context, config *pgx.ConnConfig, work func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var delivered atomic.Int64
	var group errgroup.Group
	for range b.relays {
		relay, err := postgres.New(postgres.Config{Database: config, Sink: outbox.Null, VacuumEvery: b.vacuumEvery, Log: slog.Default(),
			Hooks: postgres.Hooks{Round: func(r postgres.Round) { // settled, not only delivered
				if delivered.Add(int64(r.Delivered)) >= int64(b.events) {
					cancel()
				}
			}}})
		if err != nil {
			return err
		}
		group.Go(func() error { return relay.Run(ctx) })
	}
	group.Go(func() error { return work(ctx) })
	return group.Wait()
}

const sizes = `SELECT pg_table_size('leasehold_outbox') / 1024, pg_indexes_size('leasehold_outbox') / 1024`

func (b *bench) bloat(ctx context.Context) error {
	conn, config, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	began := time.Now()
	var highTable, highIndex int64
	err = b.relay(ctx, config, func(ctx context.Context) error {
		var writers errgroup.Group
		for w := range b.writers {
			writers.Go(func() error { return b.write(config, w) })
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				var table, index int64
				if err := conn.QueryRow(context.Background(), sizes).Scan(&table, &index); err == nil {
					highTable, highIndex = max(highTable, table), max(highIndex, index)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}()
		err := writers.Wait()
		<-done
		return err
	})
	if err != nil {
		return err
	}
	took := time.Since(began)
	if _, err := conn.Exec(ctx, "VACUUM leasehold_outbox"); err != nil {
		return err
	}
	var table, index int64
	if err := conn.QueryRow(ctx, sizes).Scan(&table, &index); err != nil {
		return err
	}
	fmt.Printf("bloat: %d events of about 300 bytes written by %d writers and relayed side by side in %.1f s (%.0f events/s): table at most %d KiB, index at most %d KiB; after a last vacuum %d and %d KiB\n",
		b.events, b.writers, took.Seconds(), float64(b.events)/took.Seconds(), highTable, highIndex, table, index)
	return nil
}

// write enqueues its share, ten events a transaction.
func (b *bench) write(config *pgx.ConnConfig, writer int) error {
	ctx := context.Background()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for n := writer * 10; n < b.events; n += b.writers * 10 {
		events := make([]outbox.Event, min(10, b.events-n))
		for i := range events {
			events[i] = outbox.Event{Key: fmt.Sprintf("order-%d", (n+i)%b.keys), Source: "/bench", Type: "com.example.measured", Data: make([]byte, 200)}
		}
		if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return postgres.Enqueue(ctx, tx, events...) }); err != nil {
			return err
		}
	}
	return nil
}
