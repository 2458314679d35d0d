package postgres

import (
	"context"
	"crypto/sha256"
	_ "embed" // the schema
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Schema is the migration that makes the table: migrations/0001_idempotency.sql.
//
//go:embed migrations/0001_idempotency.sql
var Schema string

// Limits of a call. The table has the same ones.
const (
	MaxScope    = 128     // bytes
	MaxKey      = 256     // bytes
	MaxResponse = 1 << 20 // bytes
	// DefaultRetention is for how long an answer is kept at least. It must be longer than the longest time between two attempts,
	// replays of dead letters included.
	DefaultRetention = 7 * 24 * time.Hour
	MaxRetention     = 10 * 365 * 24 * time.Hour
)

// ErrInProgress says that another transaction is executing this call (only with NoWait). Nothing was done; ask again.
var ErrInProgress = errors.New("the call is in progress")

// ErrSuperseded says that another transaction has executed this call, after the snapshot of this one. This one must be rolled back;
// a new one gets the answer.
var ErrSuperseded = errors.New("the call was executed by another transaction meanwhile")

// ErrEnded says that the work has ended the transaction. If it committed, its effect is there, the answer may be missing, and a repeat may do it
// again: a mistake in the program.
var ErrEnded = errors.New("the work has ended the transaction, so effect and answer are not one")

// ConflictError says that the key was used with another payload. Nothing was done. It is a mistake of the caller, and trying again is none
// of the ways out.
type ConflictError struct{ Scope, Key string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("idempotency key %q of %q was used with another payload", e.Key, e.Scope)
}

// Request names a call.
type Request struct {
	// Scope says whose keys these are, such as a tenant and an operation: nobody gets the answer of somebody else's key. 1 to 128 bytes.
	Scope string
	// Key is the same for each try of the call. 1 to 256 bytes.
	Key string
	// Payload is what is asked, in a form that is the same for each try. Only its SHA-256 is stored.
	Payload []byte
	// Retention is for how long the answer is kept at least. Zero: DefaultRetention. At least a second.
	Retention time.Duration
	// NoWait: return ErrInProgress where the call would wait for another transaction.
	NoWait bool
}

// Response is the answer of a call.
type Response struct {
	Body []byte
	// Replayed: the work was executed earlier, and this is what it answered then.
	Replayed bool
}

func (r Request) check() error {
	switch {
	case r.Scope == "" || len(r.Scope) > MaxScope || !isText(r.Scope):
		return fmt.Errorf("idempotency: the scope is not a text of 1 to %d bytes", MaxScope)
	case r.Key == "" || len(r.Key) > MaxKey || !isText(r.Key):
		return fmt.Errorf("idempotency: the key is not a text of 1 to %d bytes", MaxKey)
	case r.Retention < time.Second || r.Retention > MaxRetention:
		return fmt.Errorf("idempotency: retention %v is not in 1s to %v", r.Retention, MaxRetention)
	}
	return nil
}

// isText: PostgreSQL's text holds no zero byte.
func isText(s string) bool {
	for _, r := range s {
		if r == 0 {
			return false
		}
	}
	return utf8.ValidString(s)
}

// Do executes work in the caller's transaction and stores its answer with it, or returns the answer that is stored. After an error
// the transaction must be rolled back: nothing of the work counts, and the key is free. An outcome that a repeat should see,
// such as "card declined", is an answer and not an error. The work must not end the transaction: what it commits is there without an answer.
// Do sees it afterwards and returns [ErrEnded], when nothing can be undone any more.
func Do(ctx context.Context, tx pgx.Tx, r Request, work func(context.Context) ([]byte, error)) (Response, error) {
	if r.Retention == 0 {
		r.Retention = DefaultRetention
	}
	if err := r.check(); err != nil {
		return Response{}, err
	}
	hash := sha256.Sum256(r.Payload)
	stored, isStored, err := lookUp(ctx, tx, r, hash)
	if err != nil || isStored {
		return stored, err
	}
	body, err := work(ctx)
	if err != nil {
		return Response{}, err
	}
	if len(body) > MaxResponse {
		return Response{}, fmt.Errorf("idempotency: the answer has %d bytes, at most %d are allowed: store it elsewhere and answer its name", len(body), MaxResponse)
	}
	if err := store(ctx, tx, r, hash, body); err != nil {
		return Response{}, err
	}
	return Response{Body: body}, nil
}

const (
	lockKey    = `SELECT pg_advisory_xact_lock(hashtextextended($1 || chr(31) || $2, 7309402431874927))::text = ''`
	tryLockKey = `SELECT pg_try_advisory_xact_lock(hashtextextended($1 || chr(31) || $2, 7309402431874927))`
	find       = `SELECT payload_hash, response FROM leasehold_idempotency WHERE scope = $1 AND key = $2`
	insert     = `INSERT INTO leasehold_idempotency (scope, key, payload_hash, response, expires_at)
VALUES ($1, $2, $3, $4, clock_timestamp() + $5 * interval '1 second')`
)

// lookUp takes the key and then looks. In this order: what another transaction stored while this one waited is visible to the
// statement that comes after the wait.
func lookUp(ctx context.Context, tx pgx.Tx, r Request, hash [sha256.Size]byte) (stored Response, isStored bool, err error) {
	lock := lockKey
	if r.NoWait {
		lock = tryLockKey
	}
	var gotLock bool
	var storedHash []byte
	var both pgx.Batch
	both.Queue(lock, r.Scope, r.Key).QueryRow(func(row pgx.Row) error { return row.Scan(&gotLock) })
	both.Queue(find, r.Scope, r.Key).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&storedHash, &stored.Body)
		isStored = err == nil
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err := tx.SendBatch(ctx, &both).Close(); err != nil {
		return Response{}, false, fmt.Errorf("idempotency: look up: %w", err)
	}
	switch {
	case isStored && string(storedHash) != string(hash[:]):
		return Response{}, false, &ConflictError{Scope: r.Scope, Key: r.Key}
	case isStored:
		stored.Replayed = true
		return stored, true, nil
	case r.NoWait && !gotLock:
		return Response{}, false, ErrInProgress
	}
	return Response{}, false, nil
}

func store(ctx context.Context, tx pgx.Tx, r Request, hash [sha256.Size]byte, body []byte) error {
	_, err := tx.Exec(ctx, insert, r.Scope, r.Key, hash[:], append([]byte{}, body...), r.Retention.Seconds())
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) && refusal.Code == uniqueViolation && refusal.TableName == "leasehold_idempotency" {
		return fmt.Errorf("idempotency: %w", ErrSuperseded)
	}
	switch {
	case errors.Is(err, pgx.ErrTxClosed), err == nil && tx.Conn().PgConn().TxStatus() == 'I':
		return fmt.Errorf("idempotency: %w", ErrEnded)
	case err != nil:
		return fmt.Errorf("idempotency: store: %w", err)
	}
	return nil
}

const uniqueViolation = "23505"
