package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

func (r *Relay) connect(ctx context.Context) error {
	if r.conn != nil && !r.conn.IsClosed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, r.config.session())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	r.conn = conn
	return nil
}

func (r *Relay) disconnect() {
	if r.conn != nil {
		hangUp(r.conn)
	}
	r.conn = nil
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
