// Command benchmark measures what a guard costs: the same write with and without it, by turns, on the same server, which it starts itself
// with the settings of production (PostgreSQL waits for the disk), in several rounds. It prints the table that is in docs/benchmarks.md.
//
//	go run ./guard/cmd/benchmark
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/leasehold-io/leasehold/worker/guard"
	"github.com/leasehold-io/leasehold/worker/guard/postgres"
	guardredis "github.com/leasehold-io/leasehold/worker/guard/redis"
	"github.com/leasehold-io/leasehold/worker/internal/pgtest"
	"github.com/leasehold-io/leasehold/worker/internal/teststores"
)

// comparison is one write in two forms.
type comparison struct {
	name               string
	goal               float64
	unguarded, guarded func(ctx context.Context, i int) error
}

func main() {
	writes := flag.Int("writes", 1000, "writes of each form in a round, ten times that on Redis")
	rounds := flag.Int("rounds", 5, "rounds; the one with the median ratio is shown, and the ratios of all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *writes, *rounds)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, writes, rounds int) error {
	server, err := pgtest.Start(ctx, "fsync=on", "full_page_writes=on") // as in production
	if err != nil {
		return err
	}
	defer func() { _ = server.Stop() }()
	conn, err := pgx.Connect(ctx, server.URL("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	slow, err := onPostgres(ctx, conn)
	if err != nil {
		return err
	}
	address, stopRedis, err := teststores.StartRedis(ctx, os.Stderr)
	if err != nil {
		return err
	}
	defer func() { _ = stopRedis() }()
	client := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	fenced, err := guardredis.New(ctx, client)
	if err != nil {
		return err
	}
	fmt.Println("| Write | Unguarded | Guarded | Ratio, median | All rounds | Goal |")
	fmt.Println("|---|---|---|---|---|---|")
	return errors.Join(report(ctx, slow, writes, rounds), report(ctx, onRedis(client, fenced), writes*perRedis, rounds))
}

// perRedis is how many writes to Redis take the time of one to PostgreSQL, or less.
const perRedis = 10

// round is the median times of one round.
type round struct{ unguarded, guarded time.Duration }

func (r round) ratio() float64 { return float64(r.guarded) / float64(r.unguarded) }

func report(ctx context.Context, comparisons []comparison, writes, rounds int) error {
	for _, c := range comparisons {
		var all []round
		for n := range rounds {
			r, err := c.measure(ctx, n, writes)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			all = append(all, r)
		}
		slices.SortFunc(all, func(a, b round) int { return cmp.Compare(a.ratio(), b.ratio()) })
		var ratios []string
		for _, r := range all {
			ratios = append(ratios, fmt.Sprintf("%.2f", r.ratio()))
		}
		mid := all[len(all)/2]
		fmt.Printf("| %s | %v | %v | %.2f | %s | <= %.1f |\n", c.name, mid.unguarded.Round(time.Microsecond), mid.guarded.Round(time.Microsecond),
			mid.ratio(), strings.Join(ratios, ", "), c.goal)
	}
	return nil
}

// measure takes turns, so that whatever else the machine does hits both forms alike.
func (c comparison) measure(ctx context.Context, n, writes int) (round, error) {
	const warmUp = 50
	var times [2][]time.Duration
	for i := range warmUp + writes {
		for form, write := range []func(context.Context, int) error{c.unguarded, c.guarded} {
			start := time.Now()
			if err := write(ctx, n*(warmUp+writes)+i); err != nil {
				return round{}, err
			}
			if took := time.Since(start); i >= warmUp {
				times[form] = append(times[form], took)
			}
		}
	}
	return round{median(times[0]), median(times[1])}, nil
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

const update = "UPDATE account SET balance = balance + 1 WHERE id = $1"

func onPostgres(ctx context.Context, conn *pgx.Conn) ([]comparison, error) {
	if err := postgres.Migrate(ctx, conn); err != nil {
		return nil, err
	}
	_, err := conn.Exec(ctx, `CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL) WITH (fillfactor = 70);
		INSERT INTO account SELECT i, 0 FROM generate_series(0, 999) AS i`)
	if err != nil {
		return nil, err
	}
	work := func(ctx context.Context, i int) func(pgx.Tx) error {
		return func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, update, i%1000)
			return err
		}
	}
	guarded := func(resource string, token func(i int) guard.Token) func(context.Context, int) error {
		return func(ctx context.Context, i int) error {
			return postgres.Do(ctx, conn, resource, token(i), work(ctx, i))
		}
	}
	unguarded := func(ctx context.Context, i int) error { return pgx.BeginFunc(ctx, conn, work(ctx, i)) }
	return []comparison{
		{"PostgreSQL, transaction, one token for many writes", 1.3, unguarded, guarded("same", func(int) guard.Token { return 7 })},
		{"PostgreSQL, transaction, a new token for each write", 1.3, unguarded, guarded("rising", func(i int) guard.Token { return guard.Token(i + 1) })},
		{"PostgreSQL, one statement against a batch", 1.3, func(ctx context.Context, i int) error {
			_, err := conn.Exec(ctx, update, i%1000)
			return err
		}, func(ctx context.Context, i int) error {
			batch := &pgx.Batch{}
			batch.Queue(update, i%1000)
			return postgres.SendBatch(ctx, conn, "batch", 7, batch)
		}},
	}, nil
}

func onRedis(client *redis.Client, fenced *guardredis.Guard) []comparison {
	key := func(i int) string { return fmt.Sprintf("account:%d", i%1000) }
	set := func(ctx context.Context, i int) error { return client.Set(ctx, key(i), i, 0).Err() }
	guarded := func(resource string, token func(i int) guard.Token) func(context.Context, int) error {
		return func(ctx context.Context, i int) error {
			_, err := fenced.Do(ctx, resource, token(i), guardredis.Command{Name: "SET", Key: key(i), Args: []any{i}})
			return err
		}
	}
	return []comparison{
		{"Redis, SET, one token for many writes", 1.2, set, guarded("same", func(int) guard.Token { return 7 })},
		{"Redis, SET, a new token for each write", 1.2, set, guarded("rising", func(i int) guard.Token { return guard.Token(i + 1) })},
	}
}
