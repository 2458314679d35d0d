package postgres_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

func TestAnEventIsDeliveredIfAndOnlyIfItsTransactionCommits(t *testing.T) {
	b, in := newBox(t), &inbox{}
	start(t, b.config(in))
	undo := errors.New("undo")
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		if err := postgres.Enqueue(t.Context(), tx, event("a", "never")); err != nil {
			return err
		}
		return undo
	})
	if !errors.Is(err, undo) {
		t.Fatal(err)
	}
	want := outbox.Event{ID: "one", Key: "a", Source: "/test", Type: "com.example.tested", Subject: "subject", Time: time.Unix(1700000000, 0).UTC(),
		DataContentType: "text/plain", Data: []byte{0, 0xff}, Extensions: map[string]string{"traceparent": "00-1"}}
	b.commit(want)
	b.drained()
	all := in.all()
	if len(all) != 1 {
		t.Fatalf("got %v", all)
	}
	got := all[0]
	got.Time = got.Time.UTC()
	want.Sequence = got.Sequence
	if got.Sequence == 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestTheLaterWriterOfAKeyWaits: without the trigger's lock the second transaction commits first, its event is delivered first, and
// the lower number comes late.
func TestTheLaterWriterOfAKeyWaits(t *testing.T) {
	b, in := newBox(t), &inbox{}
	start(t, b.config(in))
	first := b.begin()
	if err := postgres.Enqueue(t.Context(), first, event("a", "a-1")); err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		second <- pgx.BeginFunc(context.Background(), b.pool, func(tx pgx.Tx) error {
			return postgres.Enqueue(context.Background(), tx, event("a", "a-2"))
		})
	}()
	b.commit(event("b", "b-1"), event("", "alone")) // others do not wait
	eventually(t, "other keys are delivered", func() bool { _, distinct := in.deliveries(); return distinct == 2 })
	select {
	case err := <-second:
		t.Fatalf("the second writer did not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	b.drained()
	if got := in.firsts("a"); !reflect.DeepEqual(got, numbered("a", 2)) {
		t.Errorf("got %v", got)
	}
}

// TestWithoutTheLockOrderIsLost shows that the test above can fail, and why a sequence is not enough.
func TestWithoutTheLockOrderIsLost(t *testing.T) {
	b, in := newBox(t), &inbox{}
	unlocked := strings.Replace(postgres.Schema[strings.Index(postgres.Schema, "CREATE OR REPLACE FUNCTION leasehold_outbox_order"):strings.Index(postgres.Schema, "-- Wakes the relays")],
		"PERFORM pg_advisory_xact_lock", "PERFORM abs", 1)
	b.exec(unlocked)
	start(t, b.config(in))
	first := b.begin()
	if err := postgres.Enqueue(t.Context(), first, event("a", "a-1")); err != nil {
		t.Fatal(err)
	}
	b.commit(event("a", "a-2"))
	b.drained()
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.drained()
	if got := in.all(); got[0].ID != "a-2" || got[0].Sequence < got[1].Sequence {
		t.Errorf("got %v", got)
	}
}

func TestCallsWithSeveralKeysDoNotDeadlock(t *testing.T) {
	b := newBox(t)
	results := make(chan error)
	for i := range 8 {
		go func() {
			var err error
			for range 20 {
				keys := []outbox.Event{event("a", ""), event("b", ""), event("c", "")}
				if i%2 == 1 {
					keys[0], keys[2] = keys[2], keys[0]
				}
				err = errors.Join(err, pgx.BeginFunc(context.Background(), b.pool, func(tx pgx.Tx) error {
					return postgres.Enqueue(context.Background(), tx, keys...)
				}))
			}
			results <- err
		}()
	}
	for range 8 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if n := b.count("leasehold_outbox"); n != 8*20*3 {
		t.Errorf("%d events", n)
	}
}

// TestTheTableRefusesWhatARelayCannotRead: rows that are written without this package must not stop the relay.
func TestTheTableRefusesWhatARelayCannotRead(t *testing.T) {
	b, in := newBox(t), &inbox{}
	tests := map[string]string{
		"an extension that is no text": `INSERT INTO leasehold_outbox (source, type, extensions) VALUES ('/s', 't', '{"n": 1}')`,
		"an extension's bad name":      `INSERT INTO leasehold_outbox (source, type, extensions) VALUES ('/s', 't', '{"N N": "1"}')`,
		"extensions that are no map":   `INSERT INTO leasehold_outbox (source, type, extensions) VALUES ('/s', 't', '[]')`,
		"a time without end":           `INSERT INTO leasehold_outbox (source, type, time) VALUES ('/s', 't', 'infinity')`,
		"a media type of two lines":    `INSERT INTO leasehold_outbox (source, type, datacontenttype) VALUES ('/s', 't', E'a/b\r\nX-Evil: 1')`,
		"an empty key":                 `INSERT INTO leasehold_outbox (key, source, type) VALUES ('', '/s', 't')`,
		"much data":                    `INSERT INTO leasehold_outbox (source, type, data) VALUES ('/s', 't', convert_to(repeat('x', 1048577), 'UTF8'))`,
		"no type":                      `INSERT INTO leasehold_outbox (source) VALUES ('/s')`,
	}
	for name, insert := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := b.pool.Exec(t.Context(), insert)
			var refusal *pgconn.PgError
			if !errors.As(err, &refusal) || !strings.HasPrefix(refusal.Code, "23") {
				t.Errorf("got %v", err)
			}
		})
	}
	start(t, b.config(in))
	b.exec(`INSERT INTO leasehold_outbox (key, seq, source, type, data, extensions) VALUES ('k', 7, '/s', 't', '{"n":1}', '{"a": "1"}')`) // the number is not believed
	b.drained()
	if e := in.all()[0]; len(e.ID) != 36 || e.Sequence == 7 || string(e.Data) != `{"n":1}` || e.Extensions["a"] != "1" || e.DataContentType != "application/json" {
		t.Errorf("got %+v", e)
	}
}

func TestEnqueueRefusesABadEventBeforeItWritesAny(t *testing.T) {
	b := newBox(t)
	err := pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		err := postgres.Enqueue(t.Context(), tx, event("a", "good"), outbox.Event{Key: "b", Source: "/s"})
		if err == nil || !strings.Contains(err.Error(), "type is required") {
			t.Errorf("got %v", err)
		}
		return nil // the transaction is still usable
	})
	if err != nil || b.count("leasehold_outbox") != 0 {
		t.Errorf("%v, %d rows", err, b.count("leasehold_outbox"))
	}
}
