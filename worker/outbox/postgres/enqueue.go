package postgres

import (
	"cmp"
	"context"
	_ "embed" // the schema
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/worker/outbox"
)

// Schema is the migration that makes the tables: migrations/0001_outbox.sql.
//
//go:embed migrations/0001_outbox.sql
var Schema string

const insertEvents = `
INSERT INTO leasehold_outbox (key, id, source, type, subject, time, datacontenttype, data, extensions)
SELECT nullif(key, ''), id, source, type, subject, coalesce(time, now()), datacontenttype, data, extensions::jsonb
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[], $8::bytea[], $9::text[])
  WITH ORDINALITY AS event (key, id, source, type, subject, time, datacontenttype, data, extensions, position)
ORDER BY position`

// Enqueue writes events in the caller's transaction, in one round trip: they will be delivered if it commits, and never
// existed if not. Events of one key are delivered in the order of the arguments.
//
// It waits for other open transactions that have enqueued on the same keys. Keys are locked in sorted order, so that two
// calls cannot deadlock; transactions that call it twice, or that lock rows in different orders, can, and one of them gets
// PostgreSQL's error 40P01. Each key takes one lock of the server's lock table until the transaction ends: enqueue hundreds
// of keys in one transaction, not tens of thousands.
func Enqueue(ctx context.Context, tx pgx.Tx, events ...outbox.Event) error {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b outbox.Event) int { return cmp.Compare(a.Key, b.Key) })
	var c columns
	for _, event := range events {
		if err := event.Check(); err != nil {
			return fmt.Errorf("enqueue %q: %w", event.Type, err)
		}
		if err := c.add(event); err != nil {
			return fmt.Errorf("enqueue %q: %w", event.Type, err)
		}
	}
	if len(events) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, insertEvents, c.keys, c.ids, c.sources, c.types, c.subjects, c.times, c.media, c.data, c.extensions); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	return nil
}

// columns are the arguments of insertEvents, an array each.
type columns struct {
	keys, ids, sources, types, subjects, media, extensions []string
	times                                                  []*time.Time
	data                                                   [][]byte
}

func (c *columns) add(e outbox.Event) error {
	extensions := []byte("{}")
	if len(e.Extensions) > 0 {
		var err error
		if extensions, err = json.Marshal(e.Extensions); err != nil {
			return err
		}
	}
	var at *time.Time
	if !e.Time.IsZero() {
		at = &e.Time
	}
	c.keys, c.ids = append(c.keys, e.Key), append(c.ids, cmp.Or(e.ID, outbox.NewID()))
	c.sources, c.types, c.subjects = append(c.sources, e.Source), append(c.types, e.Type), append(c.subjects, e.Subject)
	c.times, c.media = append(c.times, at), append(c.media, cmp.Or(e.DataContentType, "application/json"))
	c.data, c.extensions = append(c.data, append([]byte{}, e.Data...)), append(c.extensions, string(extensions))
	return nil
}
