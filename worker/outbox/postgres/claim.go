package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/worker/outbox"
)

// claimBatch locks the first events of up to $2 keys behind the key $1, and reads what follows them, $2 rows in all. The keys are
// found by jumping from one to the next in the primary key, so a long backlog of one key costs no more than a short one. A
// first event that is locked belongs to another relay, one that is not due stops its key. After it has got a lock, PostgreSQL
// looks at the condition of due_at again, on the row as it is then; and a row that was deleted meanwhile is left out.
const claimBatch = `
WITH RECURSIVE first AS (
  (SELECT key, seq FROM leasehold_outbox WHERE key > $1 ORDER BY key, seq LIMIT 1)
  UNION ALL
  SELECT following.* FROM first CROSS JOIN LATERAL
    (SELECT key, seq FROM leasehold_outbox o WHERE o.key > first.key ORDER BY key, seq LIMIT 1) following
), mine AS (
  SELECT o.key, o.seq FROM first JOIN leasehold_outbox o USING (key, seq)
  WHERE o.due_at <= now() LIMIT $2 FOR UPDATE OF o SKIP LOCKED
)
SELECT event.* FROM mine CROSS JOIN LATERAL (
  SELECT key, seq, id, source, type, subject, time, datacontenttype, data, extensions, attempts,
    extract(epoch FROM clock_timestamp() - enqueued_at)::float8
  FROM leasehold_outbox o WHERE o.key = mine.key AND o.seq >= mine.seq
  ORDER BY o.seq LIMIT greatest(1, $2 / (SELECT count(*) FROM mine))) event
ORDER BY event.key, event.seq`

// item is a claimed event.
type item struct {
	outbox.Event
	age time.Duration
}

// claim returns the claimed events of each key, in order.
func claim(ctx context.Context, tx pgx.Tx, behind string, limit int) ([][]item, error) {
	rows, err := tx.Query(ctx, claimBatch, behind, limit)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	items, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	var lanes [][]item
	for i, it := range items {
		if i == 0 || it.Key != items[i-1].Key {
			lanes = append(lanes, nil)
		}
		last := len(lanes) - 1
		lanes[last] = append(lanes[last], it)
	}
	return lanes, nil
}

func scan(row pgx.CollectableRow) (item, error) {
	var it item
	var age float64
	e := &it.Event
	err := row.Scan(&e.Key, &e.Sequence, &e.ID, &e.Source, &e.Type, &e.Subject, &e.Time, &e.DataContentType, &e.Data, &e.Extensions, &e.Attempts, &age)
	it.age = time.Duration(max(0, age) * float64(time.Second))
	return it, err
}
