package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/worker/outbox"
)

// Database is what looking needs: a pool, a connection or a transaction.
type Database interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// ParkedEvent is an event that was given up.
type ParkedEvent struct {
	outbox.Event
	ParkedAt  time.Time
	LastError string
}

// Parked returns up to limit parked events, the first parked first.
func Parked(ctx context.Context, db Database, limit int) ([]ParkedEvent, error) {
	rows, err := db.Query(ctx, `
SELECT key, seq, id, source, type, subject, time, datacontenttype, data, extensions, attempts, parked_at, last_error
FROM leasehold_outbox_parked ORDER BY parked_at, seq LIMIT $1`, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (ParkedEvent, error) {
		var p ParkedEvent
		e := &p.Event
		err := row.Scan(&e.Key, &e.Sequence, &e.ID, &e.Source, &e.Type, &e.Subject, &e.Time, &e.DataContentType, &e.Data, &e.Extensions, &e.Attempts,
			&p.ParkedAt, &p.LastError)
		return p, err
	})
}

// Retry puts parked events back, each at the end of its key with its id and a new sequence, as if it was enqueued now, and returns how many
// there were.
func Retry(ctx context.Context, db Database, ids ...string) (int, error) {
	var n int
	err := db.QueryRow(ctx, "SELECT leasehold_outbox_retry($1)", ids).Scan(&n)
	return n, err
}

// Statistics are the gauges of an outbox.
type Statistics struct {
	Pending  int           // not delivered yet
	Retrying int           // of these, with a counted failure
	Parked   int           // given up
	Oldest   time.Duration // age of the oldest that is pending
}

// ReadStatistics reads both tables from end to end: some times a minute, not a second.
func ReadStatistics(ctx context.Context, db Database) (Statistics, error) {
	var s Statistics
	var oldest float64
	err := db.QueryRow(ctx, `
SELECT count(*), count(*) FILTER (WHERE attempts > 0), coalesce(extract(epoch FROM clock_timestamp() - min(enqueued_at)), 0)::float8,
  (SELECT count(*) FROM leasehold_outbox_parked) FROM leasehold_outbox`).Scan(&s.Pending, &s.Retrying, &oldest, &s.Parked)
	s.Oldest = time.Duration(max(0, oldest) * float64(time.Second))
	return s, err
}
