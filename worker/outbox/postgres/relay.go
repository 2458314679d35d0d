package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold-io/leasehold/worker/outbox"
)

// Relay takes events from the outbox to a sink. Any number of relays, in any number of processes, may work on one outbox.
type Relay struct {
	config   Config
	name     string    // of this relay in its notes
	conn     *pgx.Conn // nil: none, or it is broken
	notes    *pgx.Conn // the same, for what is committed while conn is in a transaction
	behind   string    // the key where the last claim ended, so that all keys get their turn
	unswept  int       // delivered since the last vacuum
	refused  bool      // the sink takes nothing, and the log says so
	failures int       // rounds in a row that came to nothing because the sink or the database was away
}

// New checks the configuration.
func New(config Config) (*Relay, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("outbox relay: %w", err)
	}
	return &Relay{config: config, name: outbox.NewID()}, nil
}

// Run relays until the context is done. Then it claims no more, lets the running deliveries end, settles and returns nil: within
// DeliveryTimeout and ten seconds. It must not be called twice at once.
func (r *Relay) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1)
	var group errgroup.Group
	group.Go(func() error {
		r.listen(ctx, wake)
		return nil
	})
	for ctx.Err() == nil {
		round := r.round(ctx)
		r.config.Hooks.Round(round)
		r.rest(ctx, round, wake)
	}
	r.disconnect()
	return group.Wait()
}

// rest waits as long as the round suggests.
func (r *Relay) rest(ctx context.Context, round Round, wake <-chan struct{}) {
	switch {
	case round.Err != nil || round.Outage:
		pause(ctx, r.config.OutageBackoff.Delay(r.failures, r.config.Random()), nil) // not woken: a storm of events is no news
		r.failures++
	case round.Claimed > 0:
		r.failures = 0 // there may be more
	default:
		r.failures = 0
		pause(ctx, time.Duration((0.5+r.config.Random()/2)*float64(r.config.Poll)), wake)
	}
}

func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-wake:
	}
}

// round claims a batch, delivers and settles it. What fails in the database leaves all of the batch to a later claim.
func (r *Relay) round(ctx context.Context) Round {
	round, err := r.attempt(ctx)
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return round
	}
	r.config.Log.Warn("Database failed", "error", err)
	r.disconnect()
	return Round{Err: err}
}

func (r *Relay) attempt(ctx context.Context) (Round, error) {
	if err := r.connect(ctx); err != nil {
		return Round{}, err
	}
	// From here on the context does not end with ctx: pgx would close the connection, and a batch that was delivered must be settled.
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	defer cancel()
	tx, err := r.conn.BeginTx(patient, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return Round{}, err
	}
	claimed, err := r.claim(patient, tx)
	if err != nil {
		return Round{}, err
	}
	if len(claimed) == 0 {
		return Round{}, tx.Rollback(patient)
	}
	left, err := r.readRemains(patient, tx, claimed)
	if err != nil {
		return Round{}, err
	}
	lanes := choose(claimed, left, rand.IntN)
	if err := r.note(patient, lanes); err != nil {
		return Round{}, err
	}
	limited, stop := context.WithTimeout(ctx, r.config.BatchTimeout)
	d := r.deliver(limited, lanes)
	stop()
	settling, done := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	defer done()
	round, err := r.settle(settling, tx, d)
	if err != nil {
		return round, err
	}
	r.tell(round, d.lanes)
	if ctx.Err() == nil { // a vacuum can wait for the next relay
		r.sweep(context.WithoutCancel(ctx), round.Delivered)
	}
	return round, nil
}

// claim goes on behind the last key, and begins anew when the last batch was not full: it has seen all keys. Otherwise keys that are
// ever higher, such as numbers of orders, would keep it away from an old one.
func (r *Relay) claim(ctx context.Context, tx pgx.Tx) ([][]item, error) {
	lanes, err := claim(ctx, tx, r.behind, r.config.Batch)
	if err == nil && len(lanes) == 0 && r.behind != "" {
		r.behind = ""
		lanes, err = claim(ctx, tx, r.behind, r.config.Batch)
	}
	r.behind = ""
	if len(lanes) == r.config.Batch {
		r.behind = lanes[len(lanes)-1][0].Key
	}
	return lanes, err
}

// sweep removes dead rows from table and index at once, instead of at the server's next round of autovacuum, a minute later. A
// vacuum that is at work already is enough; without the right to vacuum, the server warns and goes on. Its failure is no
// failure of the batch.
func (r *Relay) sweep(ctx context.Context, delivered int) {
	r.unswept += delivered
	if r.config.VacuumEvery < 0 || r.unswept < r.config.VacuumEvery {
		return
	}
	r.unswept = 0
	ctx, cancel := context.WithTimeout(ctx, 3*settleLimit) // longer than the server's statement_timeout, which leaves the connection alive
	defer cancel()
	if _, err := r.conn.Exec(ctx, "VACUUM (SKIP_LOCKED, TRUNCATE FALSE) leasehold_outbox, leasehold_outbox_offered"); err != nil {
		r.config.Log.Warn("Vacuum failed, which leaves it to autovacuum", "error", err)
	}
}
