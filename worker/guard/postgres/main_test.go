package postgres_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-io/leasehold/worker/guard/postgres"
	"github.com/leasehold-io/leasehold/worker/internal/teststores"
)

func TestMain(m *testing.M) { os.Exit(teststores.Main(m, teststores.Postgres)) }

// connect opens a pool with the migration and a table of accounts.
func connect(t testing.TB) *pgxpool.Pool {
	t.Helper()
	db, err := pgxpool.New(t.Context(), teststores.Postgres.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if err := prepare(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return db
}

func prepare(ctx context.Context, db *pgxpool.Pool) error {
	if err := postgres.Migrate(ctx, db); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(1);
			CREATE TABLE IF NOT EXISTS account (id text PRIMARY KEY, value text NOT NULL)`, pgx.QueryExecModeSimpleProtocol)
		return err
	})
}
