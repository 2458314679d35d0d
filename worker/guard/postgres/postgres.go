package postgres

import (
	"cmp"
	"context"
	_ "embed" // the migration
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// StaleState is the SQLSTATE with which the database refuses a stale token.
const StaleState = "LHF01"

// Migration is migrations/0001_fencing.sql, for those who have their own tool to apply it.
//
//go:embed migrations/0001_fencing.sql
var Migration string

const check = "SELECT leasehold.fence($1, $2)"

// Beginner begins transactions: a pool or a connection.
type Beginner interface {
	BeginTx(ctx context.Context, options pgx.TxOptions) (pgx.Tx, error)
}

// Sender sends batches: a pool, a connection or a transaction.
type Sender interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// Querier reads: a pool, a connection or a transaction.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Migrate applies the migration, as a role that may create a schema. Repeating it does no harm.
func Migrate(ctx context.Context, db Beginner) error {
	return pgx.BeginTxFunc(ctx, db, pgx.TxOptions{}, func(tx pgx.Tx) error {
		// Two at once would both find the schema missing.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('leasehold.fence', 0))"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, Migration, pgx.QueryExecModeSimpleProtocol)
		return err
	})
}

// Check is for a transaction of the caller's: the transaction can commit only if the token is not stale. After a
// [guard.StaleError] it can only be rolled back. The commit is the caller's, and so is its error: unless it is the server's word that the
// transaction failed, the commit may have happened, which is the case that [Do] calls uncertain.
func Check(ctx context.Context, tx pgx.Tx, resource string, token guard.Token) error {
	if err := guard.Validate(resource, token); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, check, resource, int64(token))
	return refusal(err, resource, token)
}

// Do runs write in a transaction that can commit only if the token is not stale, and commits it. An error of write rolls back and is
// returned; a refusal is returned as such whatever write makes of it. A lost answer to the commit is a [guard.UncertainError].
//
// Write must not end the transaction. Its Commit is an error and does nothing; a COMMIT in SQL cannot be prevented, and what follows it
// would be written without a guard: Do sees that the transaction is gone, and returns a [guard.UncertainError].
//
// The check travels with the first statement of write, and locks the resource from there on. So it costs no round trip, unless that
// statement has pgx's options, or is a savepoint or a COPY. For other isolation levels, or inside a
// transaction, there is [Check].
func Do(ctx context.Context, db Beginner, resource string, token guard.Token, write func(pgx.Tx) error) error {
	if err := guard.Validate(resource, token); err != nil {
		return err
	}
	begun, err := db.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = begun.Rollback(ctx) }() // nothing, after a commit
	tx := &checkedTx{Tx: begun, resource: resource, token: token}
	err = write(tx)
	if tx.hasVanished() {
		return &guard.UncertainError{Resource: resource, Token: token, Err: errors.Join(errVanished, err)}
	}
	if err == nil {
		err = tx.check(ctx)
	}
	if tx.refused != nil {
		return tx.refused
	}
	if err != nil {
		return err
	}
	return lostAnswer(begun.Commit(ctx), resource, token)
}

// SendBatch runs the queued statements, which must not begin or end a transaction, and the check before them, as one transaction in one
// round trip. The callbacks of the batch see the results; if one of them may have been called, the answer of SendBatch still decides.
func SendBatch(ctx context.Context, db Sender, resource string, token guard.Token, batch *pgx.Batch) error {
	if err := guard.Validate(resource, token); err != nil {
		return err
	}
	err := refusal(db.SendBatch(ctx, guarded(batch, resource, token)).Close(), resource, token)
	if guard.IsStale(err) {
		return err
	}
	return lostAnswer(err, resource, token)
}

// guarded is the batch with the check before it.
func guarded(batch *pgx.Batch, resource string, token guard.Token) *pgx.Batch {
	whole := &pgx.Batch{}
	whole.Queue(check, resource, int64(token))
	whole.QueuedQueries = append(whole.QueuedQueries, batch.QueuedQueries...)
	return whole
}

// checkAsText is the check for several statements at once, which take no parameters. In hexadecimal there is nothing to quote.
func checkAsText(resource string, token guard.Token) string {
	return fmt.Sprintf("SELECT leasehold.fence(convert_from(decode('%x', 'hex'), 'UTF8'), %d)", resource, token)
}

// Mark is the highest token that has written to the resource, 0 if none has.
func Mark(ctx context.Context, db Querier, resource string) (guard.Token, error) {
	var mark int64
	err := db.QueryRow(ctx, "SELECT token FROM leasehold.fence_mark WHERE resource = $1", resource).Scan(&mark)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return guard.Token(mark), err
}

// refusal turns the database's refusal into a [guard.StaleError] and leaves other errors.
func refusal(err error, resource string, token guard.Token) error {
	answer, is := errors.AsType[*pgconn.PgError](err)
	if !is || answer.Code != StaleState {
		return err
	}
	mark, parseErr := guard.Parse(answer.Detail)
	if parseErr != nil {
		return errors.Join(err, parseErr)
	}
	return &guard.StaleError{Resource: resource, Token: token, Mark: mark}
}

// lostAnswer tells a transaction that was not committed from one that may have been. What the server said of the transaction is certain, and
// so is that it could not be reached. Of a connection that ends it says nothing: a pooler that lost the server in the middle of a
// commit says so with an error of its own, a server that panics may have written the commit before. pgconn.SafeToRetry is not asked: it was seen to call a commit that had happened safe to repeat.
func lostAnswer(err error, resource string, token guard.Token) error {
	if err == nil || errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pgx.ErrTxClosed) {
		return err
	}
	answer, told := errors.AsType[*pgconn.PgError](err)
	_, unreachable := errors.AsType[*pgconn.ConnectError](err)
	if told && isOfTransaction(answer) || unreachable {
		return err
	}
	return &guard.UncertainError{Resource: resource, Token: token, Err: err}
}

// isOfTransaction: the severity is not FATAL or PANIC (poolers send no untranslated one), nor the class that of the connection.
func isOfTransaction(e *pgconn.PgError) bool {
	return cmp.Or(e.SeverityUnlocalized, e.Severity) == "ERROR" && !strings.HasPrefix(e.Code, "08") && e.Code != "40003"
}
