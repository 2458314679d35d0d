package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold-io/leasehold/worker/internal/pgtest"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

// recipe is the SQL of the guide's section about change data capture.
func recipe(t *testing.T) string {
	t.Helper()
	guide, err := os.ReadFile("../../../docs/guides/outbox.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "## Without a relay: change data capture")
	_, sql, _ := strings.Cut(section, "```sql\n")
	sql, _, isWhole := strings.Cut(sql, "```")
	if !isWhole {
		t.Fatal("the guide has no such SQL")
	}
	return sql
}

var decodedInsert = regexp.MustCompile(`^table public\.leasehold_outbox: INSERT: key\[text\]:'(key\d)' seq\[bigint\]:(\d+) id\[text\]:'(\w+)'`)

// TestChangeDataCaptureSeesEachKeyInOrder: the write-ahead log, read as Debezium reads it, has every committed event although its row
// is deleted in the same transaction, those of a key in the order of their numbers, and none that was rolled back.
func TestChangeDataCaptureSeesEachKeyInOrder(t *testing.T) {
	pgtest.Database(t) // skips
	server, err := pgtest.Start(t.Context(), "wal_level=logical")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	b := &box{t: t}
	if b.url, err = server.Create(t.Context(), postgres.Schema, business, recipe(t)); err != nil {
		t.Fatal(err)
	}
	b.pool = openPool(t, b.url)
	b.exec("SELECT pg_create_logical_replication_slot('capture', 'test_decoding')")
	var writers errgroup.Group
	for range 8 {
		writers.Go(func() error {
			for i := range 30 {
				err := pgx.BeginFunc(context.Background(), b.pool, func(tx pgx.Tx) error {
					id := "good"
					if i%5 == 0 {
						id = "bad"
					}
					if err := postgres.Enqueue(context.Background(), tx, event(fmt.Sprintf("key%d", rand.IntN(4)), id)); err != nil {
						return err
					}
					time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond) // so that the commits of different keys overlap
					if id == "bad" {
						return errRollback
					}
					return nil
				})
				if err != nil && !errors.Is(err, errRollback) {
					return err
				}
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := b.count("leasehold_outbox"); n != 0 {
		t.Errorf("%d rows are left in the table", n)
	}
	rows, err := b.pool.Query(t.Context(), "SELECT data FROM pg_logical_slot_get_changes('capture', NULL, NULL)")
	if err != nil {
		t.Fatal(err)
	}
	changes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	last, events := map[string]int{}, 0
	for _, change := range changes {
		found := decodedInsert.FindStringSubmatch(change)
		if found == nil {
			continue
		}
		events++
		key, id := found[1], found[3]
		number, err := strconv.Atoi(found[2])
		if err != nil || number <= last[key] || id != "good" {
			t.Errorf("%s %s: %d after %d", key, id, number, last[key])
		}
		last[key] = number
	}
	if want := 8 * 24; events != want {
		t.Errorf("%d events, want %d", events, want)
	}
}
