package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// connect makes both connections anew if one of them is missing.
func (r *Relay) connect(ctx context.Context) error {
	if r.conn != nil && !r.conn.IsClosed() && r.notes != nil && !r.notes.IsClosed() {
		return nil
	}
	r.disconnect()
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	var err error
	if r.conn, err = pgx.ConnectConfig(ctx, r.config.session()); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if r.notes, err = pgx.ConnectConfig(ctx, r.config.session()); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if _, err := r.notes.Exec(ctx, prepareNotes); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return nil
}

func (r *Relay) disconnect() {
	for _, conn := range []*pgx.Conn{r.conn, r.notes} {
		if conn != nil {
			hangUp(conn)
		}
	}
	r.conn, r.notes = nil, nil
}

func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), settleLimit)
	defer cancel()
	_ = conn.Close(ctx)
}

// listen wakes the relay when a transaction with events commits, on a connection of its own. It only saves time: what it misses,
// polling finds.
func (r *Relay) listen(ctx context.Context, wake chan<- struct{}) {
	for failures := 0; ctx.Err() == nil; failures++ {
		err := r.listenOnce(ctx, wake, &failures)
		if ctx.Err() != nil {
			return
		}
		r.config.Log.Warn("Not listening for a while, polling goes on", "error", err)
		pause(ctx, r.config.OutageBackoff.Delay(failures, r.config.Random()), nil)
	}
}

func (r *Relay) listenOnce(ctx context.Context, wake chan<- struct{}, failures *int) error {
	connecting, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	conn, err := pgx.ConnectConfig(connecting, r.config.session())
	if err != nil {
		return err
	}
	defer hangUp(conn)
	if _, err := conn.Exec(connecting, "LISTEN leasehold_outbox"); err != nil {
		return err
	}
	*failures = 0
	for { // once before the first notification: some may have been sent before
		select {
		case wake <- struct{}{}:
		default: // it is awake, or will be
		}
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}
