package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/worker/outbox"
)

const (
	deleteDelivered = `DELETE FROM leasehold_outbox o USING unnest($1::text[], $2::bigint[]) AS done (key, seq) WHERE o.key = done.key AND o.seq = done.seq`

	postpone = `UPDATE leasehold_outbox SET attempts = attempts + 1, due_at = clock_timestamp() + $3 * interval '1 second', last_error = $4 WHERE key = $1 AND seq = $2`

	park = `
WITH gone AS (DELETE FROM leasehold_outbox WHERE key = $1 AND seq = $2 RETURNING *)
INSERT INTO leasehold_outbox_parked (key, seq, id, source, type, subject, time, datacontenttype, data, extensions, enqueued_at, attempts, due_at, last_error)
SELECT key, seq, id, source, type, subject, time, datacontenttype, data, extensions, enqueued_at, attempts + 1, due_at, $3 FROM gone`

	// maxError bounds what is kept of an error, in bytes.
	maxError = 500
)

// settle writes down what became of the batch. The hooks that report failures are called before it is committed, because what they
// report has happened.
func (r *Relay) settle(ctx context.Context, tx pgx.Tx, d *delivery) (Round, error) {
	round := Round{Delivered: d.delivered}
	var keys []string
	var seqs []int64
	var statements pgx.Batch
	r.settleNotes(&statements, d.lanes)
	for _, l := range d.lanes {
		round.Claimed += len(l.items)
		for _, it := range l.items[:l.delivered] {
			keys, seqs = append(keys, it.Key), append(seqs, it.Sequence)
		}
		if l.err != nil {
			r.settleFailure(&statements, &round, l.items[l.delivered].Event, l.err)
		}
	}
	if len(keys) > 0 {
		statements.Queue(deleteDelivered, keys, seqs)
	}
	if err := tx.SendBatch(ctx, &statements).Close(); err != nil {
		return round, fmt.Errorf("settle: %w", err)
	}
	if err := tx.Commit(ctx); err != nil {
		return round, fmt.Errorf("settle: %w", err)
	}
	return round, nil
}

func (r *Relay) settleFailure(statements *pgx.Batch, round *Round, event outbox.Event, err error) {
	verdict := outbox.Judge(outbox.Classify(err), event.Attempts, r.config.MaxAttempts, round.Delivered > 0)
	r.config.Hooks.Failed(event, verdict, err)
	switch verdict {
	case outbox.Wait:
		round.Outage = true
	case outbox.Retry:
		round.Retried++
		delay := r.config.Backoff.Delay(event.Attempts, r.config.Random())
		statements.Queue(postpone, event.Key, event.Sequence, delay.Seconds(), storable(err))
		if errors.Is(err, errRelayEnded) {
			r.config.Log.Warn("A relay ended in the middle of a delivery", "id", event.ID, "type", event.Type, "attempts", event.Attempts+1)
			statements.Queue(markCounted, event.Sequence)
		}
	case outbox.Park:
		round.Parked++
		r.config.Log.Error("Event is parked", "id", event.ID, "type", event.Type, "attempts", event.Attempts+1, "error", storable(err))
		statements.Queue(park, event.Key, event.Sequence, storable(err))
		if errors.Is(err, errRelayEnded) {
			statements.Queue(acquit, event.Sequence)
			statements.Queue(deleteEmpty)
		}
	}
}

// storable is the error in a form that PostgreSQL takes.
func storable(err error) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(err.Error(), "?"), "\x00", "?")
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "")
	}
	return text
}
