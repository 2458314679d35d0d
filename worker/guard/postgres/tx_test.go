package postgres_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/worker/guard"
	"github.com/leasehold-io/leasehold/worker/guard/postgres"
	"github.com/leasehold-io/leasehold/worker/internal/teststores"
)

// firsts are the ways in which a transaction can begin to write. Each writes the value "new".
var firsts = map[string]func(ctx context.Context, tx pgx.Tx, id string) error{
	"Exec": func(ctx context.Context, tx pgx.Tx, id string) error {
		tag, err := tx.Exec(ctx, upsert, id, "new")
		if err == nil && tag.RowsAffected() != 1 {
			panic(tag.String())
		}
		return err
	},
	"Exec of several statements": func(ctx context.Context, tx pgx.Tx, id string) error {
		_, err := tx.Exec(ctx, "INSERT INTO account VALUES ('"+id+"', 'x'); UPDATE account SET value = 'new' WHERE id = '"+id+"'")
		return err
	},
	"Exec with an option": func(ctx context.Context, tx pgx.Tx, id string) error {
		_, err := tx.Exec(ctx, upsert, pgx.QueryExecModeExec, id, "new")
		return err
	},
	"Exec with named arguments": func(ctx context.Context, tx pgx.Tx, id string) error {
		_, err := tx.Exec(ctx, "INSERT INTO account VALUES (@id, @value)", pgx.NamedArgs{"id": id, "value": "new"})
		return err
	},
	"Query": func(ctx context.Context, tx pgx.Tx, id string) error {
		rows, err := tx.Query(ctx, upsert+" RETURNING value", id, "new")
		if err != nil {
			return err
		}
		_, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
		return err
	},
	"Query with an option": func(ctx context.Context, tx pgx.Tx, id string) error {
		rows, _ := tx.Query(ctx, upsert+" RETURNING value", pgx.QueryExecModeExec, id, "new") // the rows have the error, too
		_, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
		return err
	},
	"Query whose rows are not read": func(ctx context.Context, tx pgx.Tx, id string) error {
		rows, err := tx.Query(ctx, upsert+" RETURNING value", id, "new")
		if err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	},
	"QueryRow": func(ctx context.Context, tx pgx.Tx, id string) error {
		var value string
		return tx.QueryRow(ctx, upsert+" RETURNING value", id, "new").Scan(&value)
	},
	"QueryRow without arguments": func(ctx context.Context, tx pgx.Tx, id string) error {
		var value string
		return tx.QueryRow(ctx, "INSERT INTO account VALUES ('"+id+"', 'new') RETURNING value").Scan(&value)
	},
	"SendBatch": func(ctx context.Context, tx pgx.Tx, id string) error {
		batch := &pgx.Batch{}
		batch.Queue("INSERT INTO account VALUES ($1, 'x')", id)
		batch.Queue(upsert+" RETURNING value", id, "new").QueryRow(func(row pgx.Row) error {
			var value string
			return row.Scan(&value)
		})
		return tx.SendBatch(ctx, batch).Close()
	},
	"CopyFrom": func(ctx context.Context, tx pgx.Tx, id string) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"account"}, []string{"id", "value"}, pgx.CopyFromRows([][]any{{id, "new"}}))
		return err
	},
	"a savepoint": func(ctx context.Context, tx pgx.Tx, id string) error {
		return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, upsert, id, "new")
			return err
		})
	},
	"the connection itself": func(ctx context.Context, tx pgx.Tx, id string) error {
		_, err := tx.Conn().Exec(ctx, upsert, id, "new")
		return err
	},
	"the connection itself, and a commit of one's own": func(ctx context.Context, tx pgx.Tx, id string) error {
		if _, err := tx.Conn().Exec(ctx, upsert, id, "new"); err != nil {
			return err
		}
		_ = tx.Commit(ctx)
		return nil
	},
	"Exec, and the error is dropped": func(ctx context.Context, tx pgx.Tx, id string) error {
		_, _ = tx.Exec(ctx, upsert, id, "new")
		return nil
	},
	"SendBatch, and the error is dropped": func(ctx context.Context, tx pgx.Tx, id string) error {
		batch := &pgx.Batch{}
		batch.Queue(upsert, id, "new")
		_ = tx.SendBatch(ctx, batch).Close()
		return nil
	},
}

// TestAnyFirstStatementIsChecked: it is done under a good token. Under a stale one nothing is, the answer is a refusal, and the
// connection is as good as before.
func TestAnyFirstStatementIsChecked(t *testing.T) {
	connect(t)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			config, err := pgx.ParseConfig(teststores.Postgres.Address(t))
			if err != nil {
				t.Fatal(err)
			}
			config.DefaultQueryExecMode = mode
			conn, err := pgx.ConnectConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.Background()) }()
			for name, first := range firsts {
				t.Run(name, func(t *testing.T) { checkFirst(t, conn, mode.String()+" "+name, first) })
			}
		})
	}
}

func checkFirst(t *testing.T, conn *pgx.Conn, id string, first func(context.Context, pgx.Tx, string) error) {
	ctx := t.Context()
	do := func(token guard.Token, id string) error {
		return postgres.Do(ctx, conn, id, token, func(tx pgx.Tx) error { return first(ctx, tx, id) })
	}
	if err := do(7, id); err != nil {
		t.Fatal(err)
	}
	if mark, err := postgres.Mark(ctx, conn, id); mark != 7 || err != nil || valueOf(t, conn, id) != "new" {
		t.Errorf("mark %d, %v, value %q", mark, err, valueOf(t, conn, id))
	}
	if _, err := conn.Exec(ctx, "DELETE FROM account WHERE id = $1", id); err != nil {
		t.Fatal(err)
	}
	err := do(6, id)
	if !guard.IsStale(err) {
		t.Errorf("a stale token: %v", err)
	}
	if got := valueOf(t, conn, id); got != "" { // on the same connection
		t.Errorf("a refused write left %q", got)
	}
}

// countingConn counts what is sent.
type countingConn struct {
	net.Conn
	sent *atomic.Int64
}

func (c countingConn) Write(b []byte) (int, error) {
	c.sent.Add(1)
	return c.Conn.Write(b)
}

// TestTheCheckCostsNoRoundTrip compares with the same transaction without a guard.
func TestTheCheckCostsNoRoundTrip(t *testing.T) {
	connect(t)
	ctx := t.Context()
	config, err := pgx.ParseConfig(teststores.Postgres.Address(t))
	if err != nil {
		t.Fatal(err)
	}
	var sent atomic.Int64
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return countingConn{conn, &sent}, err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	for name, write := range map[string]func(pgx.Tx) error{
		"Exec": func(tx pgx.Tx) error { return firsts["Exec"](ctx, tx, "trips") },
		"Exec without arguments": func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE account SET value = 'new' WHERE id = 'trips'")
			return err
		},
		"QueryRow": func(tx pgx.Tx) error { return firsts["QueryRow"](ctx, tx, "trips") },
	} {
		forms := map[string]func() error{
			"unguarded": func() error { return pgx.BeginFunc(ctx, conn, write) },
			"guarded":   func() error { return postgres.Do(ctx, conn, "trips", 7, write) },
		}
		trips := map[string]int64{}
		for form, run := range forms {
			for range 2 { // the first time statements are prepared
				before := sent.Load()
				if err := run(); err != nil {
					t.Fatal(err)
				}
				trips[form] = sent.Load() - before
			}
		}
		if trips["guarded"] != trips["unguarded"] || trips["guarded"] == 0 {
			t.Errorf("%s: %v", name, trips)
		}
	}
}

// TestAFirstStatementThatIsNotSentIsNotChecked: what fails before it reaches the server leaves the transaction whole, and has not taken the
// check along. A write that goes on after it is checked all the same.
func TestAFirstStatementThatIsNotSentIsNotChecked(t *testing.T) {
	db := connect(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, first := range map[string]func(pgx.Tx) error{
		"Exec, of an ended context": func(tx pgx.Tx) error { _, err := tx.Exec(ended, "SELECT 1"); return err },
		"Exec, of a named argument that is missing": func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "SELECT @id::bigint", pgx.StrictNamedArgs{})
			return err
		},
		"Query, of an ended context": func(tx pgx.Tx) error {
			rows, err := tx.Query(ended, "SELECT $1::int", 1)
			rows.Close()
			return err
		},
		"SendBatch, of an ended context": func(tx pgx.Tx) error {
			batch := &pgx.Batch{}
			batch.Queue("SELECT 1")
			return tx.SendBatch(ended, batch).Close()
		},
		"a savepoint, of an ended context": func(tx pgx.Tx) error { _, err := tx.Begin(ended); return err },
	} {
		t.Run(name, func(t *testing.T) {
			id := t.Name()
			if err := postgres.Do(t.Context(), db, id, 7, func(pgx.Tx) error { return nil }); err != nil {
				t.Fatal(err)
			}
			err := postgres.Do(t.Context(), db, id, 5, func(tx pgx.Tx) error {
				if err := first(tx); err == nil {
					t.Error("the first statement has not failed")
				}
				_, err := tx.Exec(t.Context(), upsert, id, "stale")
				return err
			})
			if !guard.IsStale(err) || valueOf(t, db, id) != "" {
				t.Errorf("%v, and the value is %q", err, valueOf(t, db, id))
			}
		})
	}
}
