package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

// TestDeadRowsDoNotPileUp: the relay's own vacuum keeps the table at a fraction of what went through it. The measurement with 100,000
// events is outbox/test/bench.
func TestDeadRowsDoNotPileUp(t *testing.T) {
	const rounds, events = 10, 1000 // 10,000 events, 3 MB
	b := newBox(t)
	b.exec("ALTER TABLE leasehold_outbox SET (autovacuum_enabled = off)")
	config := b.config(outbox.Null)
	config.VacuumEvery = events
	start(t, config)
	var largest int64
	for range rounds {
		var writers errgroup.Group
		for w := range 4 {
			writers.Go(func() error {
				return pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
					batch := make([]outbox.Event, events/4)
					for i := range batch {
						batch[i] = event(numbered("key", 100)[i%100], "")
						batch[i].Data = make([]byte, 200+w)
					}
					return postgres.Enqueue(t.Context(), tx, batch...)
				})
			})
		}
		if err := writers.Wait(); err != nil {
			t.Fatal(err)
		}
		b.drained()
		var size int64
		if err := b.pool.QueryRow(t.Context(), "SELECT pg_total_relation_size('leasehold_outbox')").Scan(&size); err != nil {
			t.Fatal(err)
		}
		largest = max(largest, size)
	}
	t.Logf("%d events, at most %d KiB of table and index", rounds*events, largest/1024)
	if largest > 3<<19 {
		t.Errorf("the table has grown to %d KiB", largest/1024)
	}
}
