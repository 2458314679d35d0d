package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

// TestAWriterSaysWhatHappenedAndNoMore: a role with INSERT could stop a key for ever, have an event parked at its first failure, or take the
// lock of a function of its own for that of the key.
func TestAWriterSaysWhatHappenedAndNoMore(t *testing.T) {
	b, in := newBox(t), &inbox{}
	b.exec(`CREATE ROLE outbox_rogue; GRANT INSERT ON leasehold_outbox TO outbox_rogue; GRANT USAGE ON SEQUENCE leasehold_outbox_seq TO outbox_rogue`)
	t.Cleanup(func() { _, _ = b.pool.Exec(context.Background(), "DROP OWNED BY outbox_rogue; DROP ROLE outbox_rogue") })
	b.exec(`CREATE SCHEMA rogue; GRANT USAGE ON SCHEMA rogue TO outbox_rogue;
		CREATE FUNCTION rogue.hashtextextended(text, bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$`)
	for column, values := range map[string][]string{
		"seq":         {"-1", "9223372036854775807"},
		"attempts":    {"-2147483648", "2147483647"},
		"due_at":      {"'infinity'", "'294276-12-31'"},
		"last_error":  {"repeat('x', 5000000)"},
		"enqueued_at": {"'4713-01-01 BC'", "'294276-12-31'", "'infinity'"},
	} {
		for _, value := range values {
			err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "SET LOCAL ROLE outbox_rogue; SET LOCAL search_path = rogue, pg_catalog, public;"+
					"INSERT INTO leasehold_outbox (key, source, type, "+column+") VALUES ('k', '/s', 't', "+value+")")
				return err
			})
			if err != nil {
				t.Fatalf("%s %s: %v", column, value, err)
			}
		}
	}
	var least, most int64
	if err := b.pool.QueryRow(t.Context(), "SELECT min(seq), max(seq) FROM leasehold_outbox").Scan(&least, &most); err != nil || least < 1 || most > 100 {
		t.Errorf("numbers %d to %d, %v", least, most, err)
	}
	if n := b.count("leasehold_outbox WHERE attempts <> 0 OR last_error <> '' OR due_at > now()"); n != 0 {
		t.Errorf("%d events begin with a past", n)
	}
	config := b.config(in)
	config.Hooks.Delivered = func(_ outbox.Event, age time.Duration) {
		if age > time.Minute {
			t.Errorf("an event is %v old", age)
		}
	}
	stop := start(t, config)
	b.drained()
	stop()
}

// TestTheSchemaCanBeAppliedAgain, also over that of an older version, with events in it. What an administrator disabled stays so.
func TestTheSchemaCanBeAppliedAgain(t *testing.T) {
	b, in := newBox(t), &inbox{}
	b.exec(`DROP TABLE IF EXISTS leasehold_outbox_offered; ALTER TABLE leasehold_outbox DISABLE TRIGGER leasehold_outbox_wake;
		CREATE OR REPLACE FUNCTION leasehold_outbox_order() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN NEW.seq := nextval('leasehold_outbox_seq'); RETURN NEW; END $$`)
	b.exec(`INSERT INTO leasehold_outbox (key, id, source, type) VALUES ('a', 'a-1', '/s', 't')`)
	for range 2 {
		if _, err := b.pool.Exec(t.Context(), postgres.Schema); err != nil {
			t.Fatal(err)
		}
	}
	b.exec(`INSERT INTO leasehold_outbox (key, id, source, type, due_at) VALUES ('a', 'a-2', '/s', 't', 'infinity')`)
	if n := b.count("pg_trigger WHERE tgrelid = 'leasehold_outbox'::regclass AND tgname = 'leasehold_outbox_wake' AND tgenabled = 'D'"); n != 1 {
		t.Error("the trigger is not disabled any more")
	}
	start(t, b.config(in))
	b.drained()
	if got := strings.Join(in.firsts("a"), " "); got != "a-1 a-2" {
		t.Errorf("got %s", got)
	}
}
