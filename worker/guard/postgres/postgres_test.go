package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/worker/guard"
	"github.com/leasehold-io/leasehold/worker/guard/postgres"
	"github.com/leasehold-io/leasehold/worker/internal/teststores"
)

func valueOf(t *testing.T, db postgres.Querier, id string) string {
	t.Helper()
	var value string
	err := db.QueryRow(t.Context(), "SELECT value FROM account WHERE id = $1", id).Scan(&value)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	return value
}

// TestCase15LateWriteIsRefused: a worker stops between its check and its write until a newer one wants in. The newer one waits; it is the
// late one that goes on first or is undone, never both.
func TestCase15LateWriteIsRefused(t *testing.T) {
	db, ctx := connect(t), t.Context()
	const id = "case-15"
	entered, resume := make(chan struct{}), make(chan struct{})
	old, young := make(chan error, 1), make(chan error, 1)
	go func() {
		old <- postgres.Do(ctx, db, id, 1, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SELECT value FROM account WHERE id = $1", id); err != nil { // the check travels with it
				return err
			}
			close(entered)
			<-resume
			_, err := tx.Exec(ctx, upsert, id, "old")
			return err
		})
	}()
	<-entered
	go func() { young <- inTransaction(ctx, db, id, 2, "young") }()
	select {
	case err := <-young:
		t.Fatalf("the newer worker got in between check and write: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(resume)
	if err := errors.Join(<-old, <-young); err != nil {
		t.Fatal(err)
	}
	if got := valueOf(t, db, id); got != "young" {
		t.Errorf("value %q", got)
	}
	if err := inTransaction(ctx, db, id, 1, "late"); !guard.IsStale(err) {
		t.Errorf("a write under the old token: %v", err)
	}
	if got := valueOf(t, db, id); got != "young" {
		t.Errorf("value %q after the late write", got)
	}
}

func TestErrorOfTheWriteUndoesTheMark(t *testing.T) {
	db, ctx := connect(t), t.Context()
	const id = "undone"
	failure := errors.New("no money")
	err := postgres.Do(ctx, db, id, 5, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, upsert, id, "half")
		return errors.Join(err, failure)
	})
	if !errors.Is(err, failure) || guard.IsUncertain(err) {
		t.Errorf("error %v", err)
	}
	if mark, err := postgres.Mark(ctx, db, id); mark != 0 || err != nil {
		t.Errorf("mark %d, %v", mark, err)
	}
	if got := valueOf(t, db, id); got != "" {
		t.Errorf("value %q", got)
	}
}

// TestOnlyDoCommits: a commit of the caller's does nothing, and an error after it is true: nothing was written. What ended the transaction in
// SQL may have written something, whatever the caller makes of it.
func TestOnlyDoCommits(t *testing.T) {
	db, ctx := connect(t), t.Context()
	failure := errors.New("no money")
	for name, c := range map[string]struct {
		end         func(pgx.Tx) error
		want        string
		isUncertain bool
	}{
		"Commit, and its error":          {end: func(tx pgx.Tx) error { return tx.Commit(ctx) }},
		"Commit, and another error":      {end: func(tx pgx.Tx) error { _ = tx.Commit(ctx); return failure }},
		"Commit, whose error is dropped": {end: func(tx pgx.Tx) error { _ = tx.Commit(ctx); return nil }, want: "new"},
		"Rollback":                       {end: func(tx pgx.Tx) error { return tx.Rollback(ctx) }},
		"Rollback, and an error":         {end: func(tx pgx.Tx) error { return errors.Join(tx.Rollback(ctx), failure) }},
		"COMMIT in SQL":                  {end: func(tx pgx.Tx) error { _, err := tx.Exec(ctx, "COMMIT"); return err }, want: "new", isUncertain: true},
		"COMMIT in SQL, and an error":    {end: func(tx pgx.Tx) error { _, err := tx.Exec(ctx, "COMMIT"); return errors.Join(err, failure) }, want: "new", isUncertain: true},
		"ROLLBACK in SQL":                {end: func(tx pgx.Tx) error { _, err := tx.Exec(ctx, "ROLLBACK"); return err }, isUncertain: true},
	} {
		t.Run(name, func(t *testing.T) {
			id := "ended by " + name
			err := postgres.Do(ctx, db, id, 5, func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, upsert, id, "new"); err != nil {
					return err
				}
				return c.end(tx)
			})
			if isDone := c.want == "new" && !c.isUncertain; (err == nil) != isDone || guard.IsUncertain(err) != c.isUncertain {
				t.Errorf("error %v", err)
			}
			if got := valueOf(t, db, id); got != c.want {
				t.Errorf("value %q", got)
			}
		})
	}
}

// TestCheckCannotBeForgotten: a caller who ignores the refusal cannot commit.
func TestCheckCannotBeForgotten(t *testing.T) {
	db, ctx := connect(t), t.Context()
	const id = "forgotten"
	if err := inTransaction(ctx, db, id, 9, "new"); err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_ = postgres.Check(ctx, tx, id, 8)
	_, _ = tx.Exec(ctx, upsert, id, "stale")
	if err := tx.Commit(ctx); err == nil {
		t.Error("a refused transaction was committed")
	}
	if got := valueOf(t, db, id); got != "new" {
		t.Errorf("value %q", got)
	}
}

func TestBatchIsOneTransaction(t *testing.T) {
	db, ctx := connect(t), t.Context()
	const id = "batch"
	batch := &pgx.Batch{}
	batch.Queue(upsert, id, "half")
	batch.Queue("SELECT 1/0")
	if err := postgres.SendBatch(ctx, db, id, 3, batch); err == nil || guard.IsUncertain(err) || guard.IsStale(err) {
		t.Errorf("a batch that fails: %v", err)
	}
	if mark, err := postgres.Mark(ctx, db, id); mark != 0 || err != nil || valueOf(t, db, id) != "" {
		t.Errorf("a failed batch left mark %d, %v, value %q", mark, err, valueOf(t, db, id))
	}
}

// TestRepeatedWritesDoNotPileUp: an attempt that writes often under one token makes no new versions of its mark.
func TestRepeatedWritesDoNotPileUp(t *testing.T) {
	db, ctx := connect(t), t.Context()
	const id = "often"
	var first, last string
	const version = "SELECT xmin::text || ctid::text FROM leasehold.fence_mark WHERE resource = $1"
	for i := range 20 {
		if err := inTransaction(ctx, db, id, 4, "again"); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRow(ctx, version, id).Scan(&last); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = last
		}
	}
	if first != last {
		t.Errorf("the mark was written again: %s, then %s", first, last)
	}
}

func TestNamesAreTakenAsTheyAre(t *testing.T) {
	db, ctx := connect(t), t.Context()
	for _, id := range []string{`it's "quoted"`, "a/b c%d", "größe/日本", strings.Repeat("x", guard.MaxResourceBytes)} {
		if err := inBatch(ctx, db, id, 2, "v"); err != nil {
			t.Errorf("%q: %v", id, err)
		}
		err := inBatch(ctx, db, id, 1, "v")
		if refusal, is := errors.AsType[*guard.StaleError](err); !is || refusal.Resource != id || refusal.Mark != 2 {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestPlainSQL uses what any language can use: the migration file and one statement.
func TestPlainSQL(t *testing.T) {
	url := teststores.Postgres.Address(t)
	connect(t)
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("SKIP: psql is not installed")
	}
	run := func(sql string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := exec.CommandContext(ctx, psql, url, "-X", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-c", sql).CombinedOutput()
		return string(out), err
	}
	if out, err := run(postgres.Migration); err != nil { // once more, over what is there
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := run("BEGIN; SELECT leasehold.fence('plain', 9); COMMIT"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := run("BEGIN; SELECT leasehold.fence('plain', 8); COMMIT"); err == nil || !strings.Contains(out, postgres.StaleState) {
		t.Errorf("a stale token: %v: %s", err, out)
	}
	for invalid, want := range map[string]string{"'', 1": "23514", "repeat('x', 513), 1": "23514", "'plain', 0": "token 0", "'plain', -9": "token -9",
		"NULL, 1": "resource <NULL>", "'plain', NULL": "token <NULL>", "'plain-2', NULL": "token <NULL>"} {
		out, err := run("SELECT leasehold.fence(" + invalid + ")")
		if err == nil || !strings.Contains(out, want) || strings.Contains(out, postgres.StaleState) {
			t.Errorf("fence(%s): %v: %s", invalid, err, out)
		}
	}
}

// TestFirstWritersOfAResource: many come at once where no mark is yet.
func TestFirstWritersOfAResource(t *testing.T) {
	db, ctx := connect(t), t.Context()
	const writers = 32
	for round := range 10 {
		id := fmt.Sprintf("first-%d", round)
		errs := make([]error, writers)
		var all sync.WaitGroup
		for i := range writers {
			all.Go(func() { errs[i] = inBatch(ctx, db, id, guard.Token(i+1), fmt.Sprint(i+1)) })
		}
		all.Wait()
		for i, err := range errs {
			if err != nil && (!guard.IsStale(err) || i == writers-1) {
				t.Errorf("token %d: %v", i+1, err)
			}
		}
		if got := valueOf(t, db, id); got != fmt.Sprint(writers) {
			t.Errorf("round %d: value %q", round, got)
		}
	}
}
