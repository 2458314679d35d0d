package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold-io/leasehold/worker/guard"
	"github.com/leasehold-io/leasehold/worker/guard/postgres"
	"github.com/leasehold-io/leasehold/worker/internal/teststores"
)

// asWorker is a pool of a role with the rights that the migration names, and no others.
func asWorker(t *testing.T, grants string) *pgxpool.Pool {
	t.Helper()
	owner := connect(t)
	const role = "fenced_worker"
	drop := `DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = '` + role + `') THEN DROP OWNED BY ` + role + `; DROP ROLE ` + role + `; END IF; END $$`
	script := drop + `; CREATE ROLE ` + role + `; GRANT SELECT, INSERT, UPDATE ON account TO ` + role + `; GRANT USAGE ON SCHEMA leasehold TO ` + role + ";" + grants
	if _, err := owner.Exec(t.Context(), script); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := owner.Exec(context.Background(), drop); err != nil {
			t.Error(err)
		}
	})
	config, err := pgxpool.ParseConfig(teststores.Postgres.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["role"] = role
	config.ConnConfig.RuntimeParams["search_path"] = "public, leasehold" // the tests' own role is named like the schema, and its tables are there
	worker, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(worker.Close)
	return worker
}

func stateOf(err error) string {
	if answer, is := errors.AsType[*pgconn.PgError](err); is {
		return answer.Code
	}
	return ""
}

const forbidden = "42501"

// TestAWorkerRaisesMarksAndLowersNone: EXECUTE is enough for each way to write, and the table is closed.
func TestAWorkerRaisesMarksAndLowersNone(t *testing.T) {
	db := asWorker(t, "GRANT EXECUTE ON FUNCTION leasehold.fence(text, bigint) TO fenced_worker; GRANT SELECT ON leasehold.fence_mark TO fenced_worker")
	for name, write := range map[string]writer{"transaction": inTransaction, "batch": inBatch, "serializable": inSerializable} {
		id := "rights of a " + name
		for _, token := range []guard.Token{7, 7, 9} { // first, again, raised
			if err := write(t.Context(), db, id, token, "new"); err != nil {
				t.Fatalf("%s under %d: %v", name, token, err)
			}
		}
		if err := write(t.Context(), db, id, 8, "stale"); !guard.IsStale(err) {
			t.Errorf("%s: %v", name, err)
		}
		if mark, err := postgres.Mark(t.Context(), db, id); mark != 9 || err != nil || valueOf(t, db, id) != "new" {
			t.Errorf("%s: mark %d, %v, value %q", name, mark, err, valueOf(t, db, id))
		}
	}
	for _, sql := range []string{"UPDATE leasehold.fence_mark SET token = 1", "DELETE FROM leasehold.fence_mark",
		"INSERT INTO leasehold.fence_mark VALUES ('x', 1)", "CREATE OR REPLACE FUNCTION leasehold.fence(p_resource text, p_token bigint) RETURNS void LANGUAGE sql AS 'SELECT'"} {
		if _, err := db.Exec(t.Context(), sql); stateOf(err) != forbidden {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// TestNobodyIsAWorkerUnasked: USAGE of the schema alone raises no mark.
func TestNobodyIsAWorkerUnasked(t *testing.T) {
	db := asWorker(t, "")
	if err := inTransaction(t.Context(), db, "unasked", 7, "new"); stateOf(err) != forbidden {
		t.Errorf("got %v", err)
	}
}

// traps are functions and operators with the names of those that fence uses, and its table's.
const traps = `
CREATE FUNCTION trap.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped by a function'; END $$;
CREATE FUNCTION trap.compare(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped by an operator'; END $$;
CREATE FUNCTION trap.compare(bigint, int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped by an operator'; END $$;
CREATE FUNCTION trap.compare(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'trapped by an operator'; END $$;
CREATE OPERATOR trap.< (LEFTARG = bigint, RIGHTARG = int, FUNCTION = trap.compare);
CREATE OPERATOR trap.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = trap.compare);
CREATE OPERATOR trap.<= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = trap.compare);
CREATE OPERATOR trap.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = trap.compare);
CREATE OPERATOR trap.= (LEFTARG = text, RIGHTARG = text, FUNCTION = trap.compare);
CREATE TABLE trap.fence_mark (resource text, token bigint)`

// TestTheCallersNamesAreNotUsed: fence runs with the rights of its owner, so it must not run functions, operators or tables of the caller's,
// on any of its ways: the first token, the same, a higher one, and those two when somebody else is the first meanwhile.
func TestTheCallersNamesAreNotUsed(t *testing.T) {
	owner := connect(t)
	t.Cleanup(func() { _, _ = owner.Exec(context.Background(), "DROP SCHEMA trap CASCADE") })
	db := asWorker(t, "GRANT EXECUTE ON FUNCTION leasehold.fence(text, bigint) TO fenced_worker;"+
		"CREATE SCHEMA IF NOT EXISTS trap; GRANT USAGE, CREATE ON SCHEMA trap TO fenced_worker")
	if _, err := db.Exec(t.Context(), traps); err != nil {
		t.Fatal(err)
	}
	fence := func(resource string, token guard.Token) string {
		err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "SET LOCAL search_path = trap, pg_temp, pg_catalog, public"); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), "SELECT leasehold.fence($1, $2)", resource, int64(token))
			return err
		})
		if err != nil {
			t.Logf("%s under %d: %v", resource, token, err)
		}
		return stateOf(err)
	}
	for _, token := range []guard.Token{7, 7, 9} {
		if got := fence("trap", token); got != "" {
			t.Errorf("token %d: %s", token, got)
		}
	}
	if got := fence("trap", 8); got != postgres.StaleState {
		t.Errorf("a stale token: %s", got)
	}
	for token, want := range map[guard.Token]string{8: postgres.StaleState, 10: ""} {
		resource, answer := fmt.Sprintf("trap of %d", token), make(chan string, 1)
		err := pgx.BeginFunc(t.Context(), owner, func(tx pgx.Tx) error {
			err := postgres.Check(t.Context(), tx, resource, 9)
			go func() { answer <- fence(resource, token) }()
			time.Sleep(200 * time.Millisecond) // it finds no mark, and waits for ours
			return err
		})
		if got := <-answer; err != nil || got != want {
			t.Errorf("token %d beside 9: %s, %v", token, got, err)
		}
	}
}
