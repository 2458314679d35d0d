package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// checkedTx is a transaction whose first statement takes the check along, in one round trip and before it. What reaches the connection
// in another way (Conn, LargeObjects, Prepare) is checked at the commit at the latest, which is as safe: the order of check and
// write inside a transaction does not count.
type checkedTx struct {
	pgx.Tx
	resource  string
	token     guard.Token
	isChecked bool // the database has said yes
	isUndone  bool // by the caller
	refused   error
}

var (
	errOwnCommit = errors.New("guard/postgres: Do commits the transaction: return nil instead of calling Commit")
	errVanished  = errors.New("guard/postgres: a statement has ended the transaction")
)

// hasVanished: a statement has ended it, and nothing says how.
func (tx *checkedTx) hasVanished() bool {
	return !tx.isUndone && tx.Tx.Conn().PgConn().TxStatus() == 'I'
}

// note keeps the answer to the check, in case that the caller does not. Without one the next statement takes the check along again: one
// whose context had ended, say, was not sent, and the transaction goes on.
func (tx *checkedTx) note(err error) error {
	tx.isChecked = err == nil
	if err = refusal(err, tx.resource, tx.token); guard.IsStale(err) && tx.refused == nil {
		tx.refused = err
	}
	return err
}

// check is the check alone, if it has not passed.
func (tx *checkedTx) check(ctx context.Context) error {
	if tx.isChecked {
		return nil
	}
	return tx.note(Check(ctx, tx.Tx, tx.resource, tx.token))
}

// SendBatch answers every statement of the batch with the refusal if there is one.
func (tx *checkedTx) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	if tx.isChecked {
		return tx.Tx.SendBatch(ctx, batch)
	}
	results := tx.Tx.SendBatch(ctx, guarded(batch, tx.resource, tx.token))
	_, err := results.Exec()
	_ = tx.note(err) // it is the error of all that follow, too
	return results
}

// asBatch is a statement as a batch. Statements with pgx's options are not for batches.
func asBatch(sql string, args []any) (batch *pgx.Batch, fits bool) {
	if len(args) > 0 {
		switch args[0].(type) {
		case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
			return nil, false
		}
	}
	batch = &pgx.Batch{}
	batch.Queue(sql, args...)
	return batch, true
}

func (tx *checkedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if tx.isChecked {
		return tx.Tx.Exec(ctx, sql, args...)
	}
	if len(args) == 0 { // it may be several statements, which a batch does not take as one
		tag, err := tx.Tx.Exec(ctx, checkAsText(tx.resource, tx.token)+";"+sql)
		return tag, tx.note(err)
	}
	batch, fits := asBatch(sql, args)
	if !fits {
		if err := tx.check(ctx); err != nil {
			return pgconn.CommandTag{}, err
		}
		return tx.Tx.Exec(ctx, sql, args...)
	}
	results := tx.SendBatch(ctx, batch)
	tag, err := results.Exec()
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	return tag, refusal(err, tx.resource, tx.token)
}

func (tx *checkedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if batch, fits := asBatch(sql, args); fits && !tx.isChecked {
		results := tx.SendBatch(ctx, batch)
		rows, err := results.Query()
		if err != nil {
			_ = results.Close() // the same error
			return rows, refusal(err, tx.resource, tx.token)
		}
		return &lastRows{rows, results}, nil
	}
	if err := tx.check(ctx); err != nil {
		rows, _ := tx.Tx.Query(ctx, sql, args...) // they fail as well; but many look at the rows alone
		rows.Close()
		return rows, err
	}
	return tx.Tx.Query(ctx, sql, args...)
}

func (tx *checkedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	rows, err := tx.Query(ctx, sql, args...)
	return row{rows, err}
}

func (tx *checkedTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, source pgx.CopyFromSource) (int64, error) {
	if err := tx.check(ctx); err != nil {
		return 0, err
	}
	return tx.Tx.CopyFrom(ctx, table, columns, source)
}

func (tx *checkedTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := tx.check(ctx); err != nil {
		return nil, err
	}
	return tx.Tx.Begin(ctx)
}

// Commit is refused: its answer might get lost, or an error of the caller's come after it, and Do could not tell.
func (tx *checkedTx) Commit(context.Context) error { return errOwnCommit }

func (tx *checkedTx) Rollback(ctx context.Context) error {
	tx.isUndone = true
	return tx.Tx.Rollback(ctx)
}

// lastRows end their batch when they end.
type lastRows struct {
	pgx.Rows
	results pgx.BatchResults
}

func (r *lastRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *lastRows) Close() {
	r.Rows.Close()
	_ = r.results.Close() // an error of the rows, or one that the next statement meets again
}

// row is the first of some rows.
type row struct {
	rows pgx.Rows
	err  error
}

func (r row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
