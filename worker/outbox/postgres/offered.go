package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// A relay that is killed takes its open transaction along, and with it every trace of what it was doing. An event that kills its relay, by
// its size or by a fault of the sink, would be claimed by one relay after another, together with the same neighbours, and nothing of that
// batch would ever be settled. So a relay notes what it is about to offer, on a second connection, where the note is committed
// at once; the outcome deletes it. Whoever has got the lock on an event that somebody else has noted goes on with care:
//
//	noted among others   the event is a suspect, and is offered alone: no other event in that round
//	noted alone          its delivery has failed: counted, postponed or parked like any other failure, and not offered in that round
//
// A suspect whose delivery came to any end is none any more. What dies with the relay of every round is so found in the second
// one, and the others of its batch get through in that round and those that follow.

var errRelayEnded = errors.New("the relay ended in the middle of the delivery")

const (
	prepareNotes = `SET synchronous_commit = off; DELETE FROM leasehold_outbox_offered WHERE offered_at < clock_timestamp() - interval '1 day'`

	note = `
INSERT INTO leasehold_outbox_offered (relay, seqs, counts) VALUES ($1, $2, $3)
ON CONFLICT (relay) DO UPDATE SET seqs = excluded.seqs, counts = excluded.counts, offered_at = excluded.offered_at`

	findNotes  = `SELECT seqs, counts FROM leasehold_outbox_offered WHERE relay <> $1 AND seqs && $2`
	deleteNote = `DELETE FROM leasehold_outbox_offered WHERE relay = $1`

	// A failure is counted once. The event stays a suspect.
	markCounted = `UPDATE leasehold_outbox_offered SET counts = false WHERE seqs = ARRAY[$1::bigint]`

	acquit      = `UPDATE leasehold_outbox_offered SET seqs = array_remove(seqs, $1::bigint) WHERE seqs @> ARRAY[$1::bigint]`
	deleteEmpty = `DELETE FROM leasehold_outbox_offered WHERE seqs = '{}'`
)

// remains are what relays have left that ended without settling.
type remains struct {
	suspects map[int64]bool
	failed   map[int64]bool // noted alone, and not counted yet
}

// readRemains comes after the claim: what is noted about events whose lock is ours is nobody's work any more.
func (r *Relay) readRemains(ctx context.Context, tx pgx.Tx, claimed [][]item) (remains, error) {
	found := remains{suspects: map[int64]bool{}, failed: map[int64]bool{}}
	var all []int64
	for _, items := range claimed {
		all = append(all, sequences(items)...)
	}
	rows, err := tx.Query(ctx, findNotes, r.name, all)
	if err != nil {
		return found, fmt.Errorf("read notes: %w", err)
	}
	var seqs []int64
	var counts bool
	_, err = pgx.ForEachRow(rows, []any{&seqs, &counts}, func() error {
		for _, seq := range seqs {
			found.suspects[seq] = true
			found.failed[seq] = found.failed[seq] || counts
		}
		return nil
	})
	if err != nil {
		return found, fmt.Errorf("read notes: %w", err)
	}
	return found, nil
}

func sequences(items []item) []int64 {
	seqs := make([]int64, len(items))
	for i, it := range items {
		seqs[i] = it.Sequence
	}
	return seqs
}

// choose says how far each lane is offered. pick chooses one of n.
func choose(claimed [][]item, left remains, pick func(n int) int) []lane {
	lanes := make([]lane, len(claimed))
	var suspected []int
	for i, items := range claimed {
		lanes[i].items = items
		switch first := items[0].Sequence; {
		case left.failed[first]:
			lanes[i].err = errRelayEnded
		case left.suspects[first]:
			suspected = append(suspected, i)
		default:
			lanes[i].offered = innocent(items, left)
		}
	}
	if len(suspected) == 0 {
		return lanes
	}
	for i := range lanes {
		lanes[i].offered = 0
	}
	alone := &lanes[suspected[pick(len(suspected))]]
	alone.offered, alone.isSuspect = 1, true
	return lanes
}

// innocent is how many come before the first suspect.
func innocent(items []item, left remains) int {
	n := slices.IndexFunc(items, func(it item) bool { return left.suspects[it.Sequence] })
	if n < 0 {
		return len(items)
	}
	return n
}

// note writes down what will be offered, and has it committed before it returns.
func (r *Relay) note(ctx context.Context, lanes []lane) error {
	var seqs []int64
	for _, l := range lanes {
		seqs = append(seqs, sequences(l.items[:l.offered])...)
	}
	if len(seqs) == 0 {
		return nil
	}
	if _, err := r.notes.Exec(ctx, note, r.name, seqs, len(seqs) == 1); err != nil {
		return fmt.Errorf("note: %w", err)
	}
	return nil
}

// settleNotes withdraws what was noted about this batch, by this relay and by those that ended.
func (r *Relay) settleNotes(statements *pgx.Batch, lanes []lane) {
	statements.Queue(deleteNote, r.name)
	for _, l := range lanes {
		if l.isSuspect && (l.delivered > 0 || l.err != nil) {
			statements.Queue(acquit, l.items[0].Sequence)
			statements.Queue(deleteEmpty)
		}
	}
}
