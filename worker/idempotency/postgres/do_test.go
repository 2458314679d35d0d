package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/worker/idempotency/postgres"
	"github.com/leasehold-io/leasehold/worker/internal/pgtest"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", "12")
	_ = flag.Set("rapid.nofailfile", "true")
	pgtest.Main(m)
}

// effects has a row for each time that the work was executed and committed.
const effects = `CREATE TABLE effects (key text NOT NULL, answer text NOT NULL)`

func open(t *testing.T) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(pgtest.Database(t, postgres.Schema, effects))
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 40
	config.ConnConfig.RuntimeParams["application_name"] = "caller"
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

func request(key, payload string) postgres.Request {
	return postgres.Request{Scope: "test", Key: key, Payload: []byte(payload)}
}

// call makes one call: the work writes a row and answers with something new.
func call(pool *pgxpool.Pool, r postgres.Request) (response postgres.Response, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) (err error) {
		response, err = postgres.Do(ctx, tx, r, effect(tx, r.Key))
		return err
	})
	return response, err
}

func effect(tx pgx.Tx, key string) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		answer := fmt.Sprintf("%s %d", key, rand.Int())
		_, err := tx.Exec(ctx, "INSERT INTO effects VALUES ($1, $2)", key, answer)
		return []byte(answer), err
	}
}

func count(t *testing.T, pool *pgxpool.Pool, from string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM "+from).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestARepeatGetsTheStoredAnswer(t *testing.T) {
	pool := open(t)
	first, err := call(pool, request("k", "p"))
	if err != nil || first.Replayed {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := call(pool, request("k", "p"))
	if err != nil || !again.Replayed || string(again.Body) != string(first.Body) {
		t.Errorf("%+v, %v", again, err)
	}
	other := request("k", "p")
	other.Scope = "another tenant"
	if response, err := call(pool, other); err != nil || response.Replayed {
		t.Errorf("the other scope: %+v, %v", response, err)
	}
	if n := count(t, pool, "effects"); n != 2 {
		t.Errorf("%d effects", n)
	}
}

func TestAnotherPayloadIsAConflict(t *testing.T) {
	pool := open(t)
	if _, err := call(pool, request("k", "p")); err != nil {
		t.Fatal(err)
	}
	_, err := call(pool, request("k", "q"))
	var conflict *postgres.ConflictError
	if !errors.As(err, &conflict) || conflict.Key != "k" || conflict.Scope != "test" {
		t.Errorf("got %v", err)
	}
	if n := count(t, pool, "effects"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func TestAFailureLeavesTheKeyFree(t *testing.T) {
	pool, boom := open(t), errors.New("boom")
	for name, work := range map[string]func(context.Context) ([]byte, error){
		"an error":            func(context.Context) ([]byte, error) { return nil, boom },
		"an answer too large": func(context.Context) ([]byte, error) { return make([]byte, postgres.MaxResponse+1), nil },
	} {
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			_, err := postgres.Do(t.Context(), tx, request("k", "p"), work)
			return err
		})
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if response, err := call(pool, request("k", "p")); err != nil || response.Replayed {
		t.Errorf("%+v, %v", response, err)
	}
}

// TestTheWorkMustNotEndTheTransaction: its effect would be there without the answer.
func TestTheWorkMustNotEndTheTransaction(t *testing.T) {
	pool := open(t)
	for name, end := range map[string]func(pgx.Tx) error{
		"Commit":          func(tx pgx.Tx) error { return tx.Commit(t.Context()) },
		"Rollback":        func(tx pgx.Tx) error { return tx.Rollback(t.Context()) },
		"COMMIT in SQL":   func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "COMMIT"); return err },
		"ROLLBACK in SQL": func(tx pgx.Tx) error { _, err := tx.Exec(t.Context(), "ROLLBACK"); return err },
	} {
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = postgres.Do(t.Context(), tx, request(name, "p"), func(ctx context.Context) ([]byte, error) {
			body, err := effect(tx, name)(ctx)
			return body, errors.Join(err, end(tx))
		})
		if !errors.Is(err, postgres.ErrEnded) {
			t.Errorf("%s: %v", name, err)
		}
		_ = tx.Rollback(t.Context())
	}
}

// TestTheSchemaCanBeAppliedAgain: answers stay.
func TestTheSchemaCanBeAppliedAgain(t *testing.T) {
	pool := open(t)
	first, err := call(pool, request("k", "p"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), postgres.Schema); err != nil {
		t.Fatal(err)
	}
	if again, err := call(pool, request("k", "p")); err != nil || string(again.Body) != string(first.Body) {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestOfManyAtOnceOneExecutes and the others wait for its answer.
func TestOfManyAtOnceOneExecutes(t *testing.T) {
	pool := open(t)
	var executed atomic.Int32
	var mu sync.Mutex
	answers := map[string]bool{}
	var group errgroup.Group
	for range 32 {
		group.Go(func() error {
			response, err := call(pool, request("k", "p"))
			mu.Lock()
			defer mu.Unlock()
			answers[string(response.Body)] = true
			if !response.Replayed {
				executed.Add(1)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil || executed.Load() != 1 || len(answers) != 1 {
		t.Errorf("%v, %d executed, answers %v", err, executed.Load(), answers)
	}
	if n := count(t, pool, "effects"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// TestWhoMayNotWaitIsTold, and the one who waits executes when the first is rolled back.
func TestWhoMayNotWaitIsTold(t *testing.T) {
	pool := open(t)
	first, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Rollback(context.Background()) }()
	if _, err := postgres.Do(t.Context(), first, request("k", "p"), effect(first, "k")); err != nil {
		t.Fatal(err)
	}
	hasty := request("k", "p")
	hasty.NoWait = true
	if _, err := call(pool, hasty); !errors.Is(err, postgres.ErrInProgress) {
		t.Errorf("got %v", err)
	}
	waits := make(chan error, 1)
	go func() {
		response, err := call(pool, request("k", "p"))
		if response.Replayed {
			err = errors.Join(err, errors.New("it got the answer of a transaction that was rolled back"))
		}
		waits <- err
	}()
	select {
	case err := <-waits:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := first.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err != nil {
		t.Error(err)
	}
	if response, err := call(pool, hasty); err != nil || !response.Replayed {
		t.Errorf("afterwards: %+v, %v", response, err)
	}
}

// TestAnOldSnapshotUndoesEverything: what it cannot see it executes again, and must not commit.
func TestAnOldSnapshotUndoesEverything(t *testing.T) {
	pool := open(t)
	old, err := pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = old.Rollback(context.Background()) }()
	if _, err := old.Exec(t.Context(), "SELECT count(*) FROM effects"); err != nil { // takes the snapshot
		t.Fatal(err)
	}
	if _, err := call(pool, request("k", "p")); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Do(t.Context(), old, request("k", "p"), effect(old, "k")); !errors.Is(err, postgres.ErrSuperseded) {
		t.Errorf("got %v", err)
	}
	if err := old.Commit(t.Context()); err == nil {
		t.Error("it commits")
	}
	if n := count(t, pool, "effects"); n != 1 {
		t.Errorf("%d effects", n)
	}
}

func TestCleaningUpIsBoundedAndTakesOnlyWhatIsOver(t *testing.T) {
	pool := open(t)
	for i := range 25 {
		if _, err := call(pool, request(fmt.Sprint(i), "p")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pool.Exec(t.Context(), "UPDATE leasehold_idempotency SET expires_at = now() - interval '1 second' WHERE key::int < 20"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{15, 5, 0} {
		if got, err := postgres.CleanUp(t.Context(), pool, 4, 15); err != nil || got != want {
			t.Errorf("call %d: %d, %v, want %d", i, got, err, want)
		}
	}
	if n := count(t, pool, "leasehold_idempotency WHERE expires_at > now() + interval '6 days'"); n != 5 {
		t.Errorf("%d are left", n)
	}
}

func TestRequestsAreChecked(t *testing.T) {
	pool := open(t)
	for name, r := range map[string]postgres.Request{
		"no scope":        {Key: "k"},
		"no key":          {Scope: "s"},
		"long key":        {Scope: "s", Key: strings.Repeat("k", postgres.MaxKey+1)},
		"zero byte":       {Scope: "s", Key: "a\x00"},
		"not UTF-8":       {Scope: "s\xff", Key: "k"},
		"short retention": {Scope: "s", Key: "k", Retention: time.Millisecond},
	} {
		if _, err := call(pool, r); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestTheProperty: callers that try until they know, whose connections are cut at any moment. Each key has one effect, and everybody
// who got an answer got the same one. A caller with another payload gets a conflict or, if it was the first, makes the others get it.
func TestTheProperty(t *testing.T) {
	pool, number := open(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		number++
		s := story{prefix: fmt.Sprintf("%d/", number), callers: rapid.IntRange(2, 12).Draw(rt, "callers"), keys: rapid.IntRange(1, 6).Draw(rt, "keys"),
			calls: rapid.IntRange(1, 20).Draw(rt, "calls"), payloads: rapid.IntRange(1, 2).Draw(rt, "payloads"),
			noWait: rapid.Bool().Draw(rt, "no wait"), cuts: rapid.Bool().Draw(rt, "cuts")}
		if !t.Run("story", func(t *testing.T) { s.play(t, pool) }) {
			rt.Fatalf("%+v", s)
		}
	})
}

type story struct {
	prefix                         string // of its keys
	callers, keys, calls, payloads int
	noWait, cuts                   bool
}

func (s story) play(t *testing.T, pool *pgxpool.Pool) {
	var mu sync.Mutex
	answers := map[string]map[string]bool{} // by key and payload
	var executed, conflicts int
	var group errgroup.Group
	stop := s.cut(t, pool)
	for range s.callers {
		group.Go(func() error {
			for range s.calls {
				r := request(s.prefix+fmt.Sprint(rand.IntN(s.keys)), fmt.Sprint(rand.IntN(s.payloads)))
				r.NoWait = s.noWait
				response, err := s.insist(pool, r)
				var conflict *postgres.ConflictError
				mu.Lock()
				switch {
				case errors.As(err, &conflict):
					conflicts++
				case err == nil:
					if answers[r.Key] == nil {
						answers[r.Key] = map[string]bool{}
					}
					answers[r.Key][string(r.Payload)+": "+string(response.Body)] = true
					if !response.Replayed {
						executed++
					}
				}
				mu.Unlock()
				if err != nil && conflict == nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	stop()
	if err != nil {
		t.Fatal(err)
	}
	pool.Reset() // some of its connections are cut and do not know it yet
	for key, different := range answers {
		if len(different) != 1 {
			t.Errorf("key %s: %v", key, different)
		}
	}
	if n := count(t, pool, "(SELECT key FROM effects WHERE key LIKE '"+s.prefix+"%' GROUP BY key HAVING count(*) > 1) twice"); n != 0 {
		t.Errorf("%d keys have several effects", n)
	}
	if rows := count(t, pool, "effects WHERE key LIKE '"+s.prefix+"%'"); rows != len(answers) || executed > rows || s.payloads == 1 && conflicts > 0 {
		t.Errorf("%d effects of %d keys, %d said to be executed, %d conflicts", rows, len(answers), executed, conflicts)
	}
}

// insist calls until the outcome is known.
func (s story) insist(pool *pgxpool.Pool, r postgres.Request) (postgres.Response, error) {
	var response postgres.Response
	var err error
	for range 500 {
		var conflict *postgres.ConflictError
		if response, err = call(pool, r); err == nil || errors.As(err, &conflict) {
			return response, err
		}
		time.Sleep(time.Duration(rand.IntN(5)) * time.Millisecond)
	}
	return response, err
}

// cut ends connections of callers at random moments until stop.
func (s story) cut(t *testing.T, pool *pgxpool.Pool) (stop func()) {
	if !s.cuts {
		return func() {}
	}
	config := pool.Config().ConnConfig
	config.RuntimeParams["application_name"] = "cutter"
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		for {
			select {
			case <-done:
				_ = conn.Close(context.Background())
				return
			case <-time.After(time.Duration(rand.IntN(10)) * time.Millisecond):
			}
			if _, err := conn.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'caller' ORDER BY random() LIMIT 1`); err != nil {
				t.Error(err)
			}
		}
	}()
	return func() {
		close(done)
		<-finished
	}
}
