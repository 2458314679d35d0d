package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

// story is one run of the property: writers, relays, a sink with moods, and somebody who cuts connections.
type story struct {
	prefix                                                  string // of its keys
	writers, transactions, keys, relays, batch, concurrency int
	enqueueFirst                                            bool // before the business row, or after it
	rollbacks, failures, lostAnswers, rejections            float64
	seed                                                    uint64
}

func drawStory(t *rapid.T) story {
	often := rapid.SampledFrom([]float64{0, 0.02, 0.2})
	return story{
		writers: rapid.IntRange(1, 8).Draw(t, "writers"), transactions: rapid.IntRange(1, 25).Draw(t, "transactions"),
		keys: rapid.IntRange(1, 5).Draw(t, "keys"), relays: rapid.IntRange(1, 4).Draw(t, "relays"),
		batch: rapid.IntRange(1, 20).Draw(t, "batch"), concurrency: rapid.IntRange(1, 4).Draw(t, "concurrency"),
		enqueueFirst: rapid.Bool().Draw(t, "enqueue first"),
		rollbacks:    often.Draw(t, "rollbacks"), failures: often.Draw(t, "failures"), lostAnswers: often.Draw(t, "lost answers"),
		rejections: often.Draw(t, "rejections"), seed: rapid.Uint64().Draw(t, "seed"),
	}
}

// TestTheProperty: whatever happens, what was committed is delivered or parked, what was rolled back is not, the first deliveries of a
// key have the order in which its business row changed, and repeats are explained by cuts and lost answers.
func TestTheProperty(t *testing.T) {
	t.Parallel()
	b, number := newBox(t), 0
	rapid.Check(t, func(rt *rapid.T) {
		s := drawStory(rt)
		number++
		s.prefix = fmt.Sprintf("story%d/", number)
		if !t.Run("story", func(t *testing.T) { s.play(t, b) }) {
			rt.Fatalf("%+v", s)
		}
	})
}

type ledger struct {
	mu        sync.Mutex
	committed map[string]map[string]int // key -> id -> the business row's n
}

func (s story) play(t *testing.T, b *box) {
	var lost atomic.Int64
	in := &inbox{}
	sink := outbox.SinkFunc(func(ctx context.Context, e outbox.Event) error {
		switch dice := rand.Float64(); {
		case dice < s.failures:
			return errSink
		case dice < s.failures+s.lostAnswers:
			lost.Add(1)
			return outbox.Unavailable(errors.Join(errSink, in.Deliver(ctx, e)))
		case dice < s.failures+s.lostAnswers+s.rejections/4:
			return outbox.Rejected(errSink)
		}
		return in.Deliver(ctx, e)
	})
	for range s.relays {
		config := b.config(sink)
		config.Batch, config.Concurrency, config.Poll, config.MaxAttempts = s.batch, s.concurrency, 20*time.Millisecond, 6
		config.Database.RuntimeParams["application_name"] = "cut me"
		start(t, config)
	}
	l := &ledger{committed: map[string]map[string]int{}}
	cuts := s.cutWhile(b, func() { s.write(b, l) })
	b.drained()
	s.judge(t, b, l, in, cuts*s.batch+int(lost.Load()))
}

// cutWhile ends connections of relays at random moments until f returns.
func (s story) cutWhile(b *box, f func()) (cuts int) {
	done, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(rand.IntN(30)) * time.Millisecond):
			}
			tag, err := b.pool.Exec(context.Background(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'cut me' ORDER BY random() LIMIT 1`)
			if err != nil {
				b.t.Error(err)
			}
			cuts += int(tag.RowsAffected())
		}
	}()
	f()
	close(done)
	<-finished
	return cuts
}

var errRollback = errors.New("rolled back on purpose")

func (s story) write(b *box, l *ledger) {
	var writers errgroup.Group
	for w := range s.writers {
		random := rand.New(rand.NewPCG(s.seed, uint64(w)))
		writers.Go(func() error {
			for range s.transactions {
				key := fmt.Sprintf("%skey%d", s.prefix, random.IntN(s.keys))
				rollback := random.Float64() < s.rollbacks
				if err := s.transact(b, l, key, rollback); err != nil && !errors.Is(err, errRollback) {
					return err
				}
			}
			return nil
		})
	}
	if err := writers.Wait(); err != nil {
		b.t.Error(err)
	}
}

// transact changes the business row and enqueues two events about it, in one of the two orders.
func (s story) transact(b *box, l *ledger, key string, rollback bool) error {
	ctx, ids := context.Background(), []string{outbox.NewID(), outbox.NewID()}
	var n int
	enqueue := func(tx pgx.Tx) error { return postgres.Enqueue(ctx, tx, event(key, ids[0]), event(key, ids[1])) }
	change := func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `INSERT INTO business VALUES ($1, 2) ON CONFLICT (key) DO UPDATE SET n = business.n + 2 RETURNING n`, key).Scan(&n)
	}
	err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
		steps := []func(pgx.Tx) error{change, enqueue}
		if s.enqueueFirst {
			slices.Reverse(steps)
		}
		for _, step := range steps {
			if err := step(tx); err != nil {
				return err
			}
		}
		if rollback {
			return errRollback
		}
		return nil
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.committed[key] == nil {
		l.committed[key] = map[string]int{}
	}
	l.committed[key][ids[0]], l.committed[key][ids[1]] = n-1, n
	return nil
}

func (s story) judge(t *testing.T, b *box, l *ledger, in *inbox, mostRepeats int) {
	parked, err := postgres.Parked(t.Context(), b.pool, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	setAside := map[string]bool{}
	for _, p := range parked {
		setAside[p.ID] = true
	}
	total, distinct := in.deliveries()
	if repeats := total - distinct; repeats > mostRepeats {
		t.Errorf("%d repeats, at most %d are explained", repeats, mostRepeats)
	}
	known := 0
	for key, events := range l.committed {
		got := in.firsts(key)
		known += len(got)
		last := 0
		for _, id := range got {
			n, isCommitted := events[id]
			if !isCommitted {
				t.Errorf("%s was delivered and never committed", id)
			}
			if n < last {
				t.Errorf("%s: %d after %d", key, n, last)
			}
			last = n
		}
		for id := range events {
			if !slices.Contains(got, id) && !setAside[id] {
				t.Errorf("%s is lost", id)
			}
		}
	}
	if known != distinct {
		t.Errorf("%d events were delivered, %d of them committed", distinct, known)
	}
}
