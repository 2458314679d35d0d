package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// Database is what cleaning up needs: a pool or a connection.
type Database interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

const deleteExpired = `
DELETE FROM leasehold_idempotency WHERE (scope, key) IN (
  SELECT scope, key FROM leasehold_idempotency WHERE expires_at <= now() ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)`

// CleanUp deletes answers whose retention time is over, batch rows a statement, and at most rows in all (less when several clean up
// side by side). Call it from a timer, with numbers that keep up with the calls. It returns how many it deleted.
func CleanUp(ctx context.Context, db Database, batch, most int) (deleted int, err error) {
	if batch < 1 || most < 1 {
		return 0, fmt.Errorf("idempotency: clean up by %d up to %d", batch, most)
	}
	for deleted < most {
		size := min(batch, most-deleted)
		tag, err := db.Exec(ctx, deleteExpired, size)
		if err != nil {
			return deleted, fmt.Errorf("idempotency: clean up: %w", err)
		}
		deleted += int(tag.RowsAffected())
		if int(tag.RowsAffected()) < size {
			break
		}
	}
	return deleted, nil
}
