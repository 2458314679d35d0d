package postgres_test

import (
	"context"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/worker/internal/pgtest"
	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

// TestTheRelayOutlivesACrashOfTheDatabase, in the middle of a batch: it connects again, and repeats at most that batch.
func TestTheRelayOutlivesACrashOfTheDatabase(t *testing.T) {
	pgtest.Database(t) // skips
	server, err := pgtest.Start(t.Context(), "fsync=on")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	b := &box{t: t}
	if b.url, err = server.Create(t.Context(), postgres.Schema, business); err != nil {
		t.Fatal(err)
	}
	b.pool = openPool(t, b.url)
	b.commit(event("a", "a-1"), event("a", "a-2"), event("a", "a-3"))
	in := newGate()
	config := b.config(in)
	config.Batch = 2
	var failures atomic.Int32
	config.Hooks.Round = func(r postgres.Round) {
		if r.Err != nil {
			failures.Add(1)
		}
	}
	start(t, config)
	<-in.arrived
	server.Halt()
	close(in.open)
	eventually(t, "it notices", func() bool { return failures.Load() > 1 })
	if err := server.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.pool.Reset()
	b.commit(event("a", "a-4"))
	b.drained()
	if got := in.firsts("a"); !reflect.DeepEqual(got, numbered("a", 4)) {
		t.Errorf("got %v", got)
	}
	if total, distinct := in.deliveries(); total-distinct > 2 {
		t.Errorf("%d repeats", total-distinct)
	}
}

// TestTheRightsThatTheSchemaNamesAreEnough: the writer and the relay are two roles that own nothing. The vacuum is refused with a
// warning, and nothing else suffers.
func TestTheRightsThatTheSchemaNamesAreEnough(t *testing.T) {
	b, in := newBox(t), &inbox{refuse: func(e outbox.Event) error {
		if e.ID == "bad" {
			return outbox.Rejected(errSink)
		}
		return nil
	}}
	b.exec(`DO $$ BEGIN CREATE ROLE outbox_writer; CREATE ROLE outbox_relay; END $$`)
	t.Cleanup(func() {
		_, _ = b.pool.Exec(context.Background(), "DROP OWNED BY outbox_writer, outbox_relay; DROP ROLE outbox_writer, outbox_relay")
	})
	b.exec("GRANT INSERT ON leasehold_outbox TO outbox_writer")
	b.exec("GRANT USAGE ON SEQUENCE leasehold_outbox_seq TO outbox_writer")
	b.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON leasehold_outbox, leasehold_outbox_parked, leasehold_outbox_offered TO outbox_relay")
	config := b.config(in)
	config.Database.RuntimeParams["role"] = "outbox_relay"
	config.VacuumEvery = 1
	var failures atomic.Int32
	config.Hooks.Round = func(r postgres.Round) {
		if r.Err != nil {
			t.Error(r.Err)
			failures.Add(1)
		}
	}
	start(t, config)
	for _, id := range []string{"a-1", "bad", "a-2"} {
		err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "SET LOCAL ROLE outbox_writer"); err != nil {
				return err
			}
			return postgres.Enqueue(t.Context(), tx, event("a", id))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	b.drained()
	if got := in.firsts("a"); !reflect.DeepEqual(got, numbered("a", 2)) || b.count("leasehold_outbox_parked") != 1 || failures.Load() > 0 {
		t.Errorf("got %v, %d parked", got, b.count("leasehold_outbox_parked"))
	}
}
