package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-io/leasehold/worker/guard"
	"github.com/leasehold-io/leasehold/worker/guard/conformance"
	"github.com/leasehold-io/leasehold/worker/guard/postgres"
	"github.com/leasehold-io/leasehold/worker/internal/teststores"
)

// writer is one way to write through the guard.
type writer func(ctx context.Context, db *pgxpool.Pool, resource string, token guard.Token, value string) error

const upsert = "INSERT INTO account (id, value) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET value = excluded.value"

func inTransaction(ctx context.Context, db *pgxpool.Pool, resource string, token guard.Token, value string) error {
	return postgres.Do(ctx, db, resource, token, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, upsert, resource, value)
		return err
	})
}

func inBatch(ctx context.Context, db *pgxpool.Pool, resource string, token guard.Token, value string) error {
	batch := &pgx.Batch{}
	batch.Queue(upsert, resource, value)
	return postgres.SendBatch(ctx, db, resource, token, batch)
}

// inSerializable is a transaction of the caller's own. It repeats what the database asks to be repeated, as every program at that level must.
func inSerializable(ctx context.Context, db *pgxpool.Pool, resource string, token guard.Token, value string) error {
	for {
		err := pgx.BeginTxFunc(ctx, db, pgx.TxOptions{IsoLevel: pgx.Serializable}, func(tx pgx.Tx) error {
			if err := postgres.Check(ctx, tx, resource, token); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, upsert, resource, value)
			return err
		})
		var state interface{ SQLState() string }
		switch answered := errors.As(err, &state); {
		case answered && state.SQLState() == "40001":
			continue
		case err == nil || answered || guard.IsStale(err) || guard.Validate(resource, token) != nil:
			return err
		default: // it may have been the commit
			return &guard.UncertainError{Resource: resource, Token: token, Err: err}
		}
	}
}

// checkThenWrite is what a guard must not be: the check has a transaction of its own, and the write follows.
func checkThenWrite(ctx context.Context, db *pgxpool.Pool, resource string, token guard.Token, value string) error {
	if err := postgres.Do(ctx, db, resource, token, func(pgx.Tx) error { return nil }); err != nil {
		return err
	}
	_, err := db.Exec(ctx, upsert, resource, value)
	return err
}

type register struct {
	db    *pgxpool.Pool
	write writer
}

func (r register) Write(ctx context.Context, resource string, token guard.Token, value string) error {
	return r.write(ctx, r.db, resource, token, value)
}

func (r register) Read(ctx context.Context, resource string) (conformance.State, error) {
	var state conformance.State
	err := r.db.QueryRow(ctx, `SELECT coalesce((SELECT value FROM account WHERE id = $1), ''),
		coalesce((SELECT token FROM leasehold.fence_mark WHERE resource = $1), 0)`, resource).Scan(&state.Value, &state.Mark)
	return state, err
}

func store(t *testing.T, write writer) conformance.Store {
	connect(t)
	config, err := pgxpool.ParseConfig(teststores.Postgres.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 1
	return conformance.Store{
		Address: fmt.Sprintf("%s:%d", config.ConnConfig.Host, config.ConnConfig.Port),
		Open: func(tb testing.TB, address string) conformance.Register {
			mine := config.Copy()
			if _, err := fmt.Sscanf(address, "127.0.0.1:%d", &mine.ConnConfig.Port); err != nil {
				tb.Fatal(err)
			}
			db, err := pgxpool.NewWithConfig(t.Context(), mine)
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(db.Close)
			return register{db, write}
		},
	}
}

func TestConformanceInTransaction(t *testing.T) { conformance.Run(t, store(t, inTransaction)) }

func TestConformanceInBatch(t *testing.T) { conformance.Run(t, store(t, inBatch)) }

func TestConformanceSerializable(t *testing.T) { conformance.Run(t, store(t, inSerializable)) }

func TestConformanceFindsCheckThenWrite(t *testing.T) {
	if conformance.Inside() {
		conformance.Run(t, store(t, checkThenWrite))
		return
	}
	teststores.Postgres.Address(t)
	conformance.MustFail(t, "Crash", "Concurrent", "Linearizable", "Property")
}
