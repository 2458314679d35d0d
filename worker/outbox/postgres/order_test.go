package postgres_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

// gate is a sink that holds deliveries until it is opened.
type gate struct {
	inbox
	arrived chan string // ids
	open    chan struct{}
}

func newGate() *gate { return &gate{arrived: make(chan string, 1000), open: make(chan struct{})} }

func (g *gate) Deliver(ctx context.Context, e outbox.Event) error {
	g.arrived <- e.ID
	<-g.open // also past ctx: a sink that does not heed it, or a process that is frozen
	return g.inbox.Deliver(ctx, e)
}

// TestASecondRelayDoesNotGoPastTheFirst: with SKIP LOCKED on plain rows it would take a-2, or the later a-3.
func TestASecondRelayDoesNotGoPastTheFirst(t *testing.T) {
	b, slow, fast := newBox(t), newGate(), &inbox{}
	config := b.config(slow)
	config.Batch = 1
	b.commit(event("a", "a-1"), event("a", "a-2"))
	start(t, config)
	if id := <-slow.arrived; id != "a-1" {
		t.Fatalf("the first is %s", id)
	}
	start(t, b.config(fast))
	b.commit(event("a", "a-3"), event("b", "b-1"))
	eventually(t, "the second relay delivers what is free", func() bool { return len(fast.firsts("b")) == 1 })
	time.Sleep(300 * time.Millisecond) // three polls
	if got := fast.firsts("a"); len(got) != 0 {
		t.Errorf("the second relay delivered %v", got)
	}
	close(slow.open)
	b.drained()
	if got := len(slow.firsts("a")) + len(fast.firsts("a")); got != 3 {
		t.Errorf("%d events", got)
	}
}

// TestAFrozenRelayLosesItsKeysAndCanOnlyRepeat: its transaction is ended by the server, another relay goes on, and what it does after
// it has woken is a repeat.
func TestAFrozenRelayLosesItsKeysAndCanOnlyRepeat(t *testing.T) {
	b, frozen := newBox(t), newGate()
	b.commit(event("a", "a-1"), event("a", "a-2"), event("a", "a-3"))
	config := b.config(frozen)
	config.Database.RuntimeParams["application_name"] = "frozen"
	start(t, config)
	<-frozen.arrived
	// What idle_in_transaction_session_timeout does after 50 s with the default times.
	b.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'frozen' AND state = 'idle in transaction'")
	start(t, b.config(&frozen.inbox))
	b.drained()
	if got := frozen.firsts("a"); !reflect.DeepEqual(got, numbered("a", 3)) {
		t.Errorf("got %v", got)
	}
	close(frozen.open)
	eventually(t, "the frozen one goes on", func() bool { total, _ := frozen.deliveries(); return total >= 4 })
	b.commit(event("a", "a-4"))
	b.drained()
	if got := frozen.firsts("a"); !reflect.DeepEqual(got, numbered("a", 4)) {
		t.Errorf("got %v", got)
	}
}

func TestTheServerEndsAFrozenRelaysTransaction(t *testing.T) {
	t.Parallel()
	b, frozen, other := newBox(t), newGate(), &inbox{}
	b.commit(event("a", "a-1"))
	config := b.config(frozen)
	config.BatchTimeout, config.DeliveryTimeout = time.Millisecond, time.Millisecond // 10 s remain, for settling
	start(t, config)
	<-frozen.arrived
	start(t, b.config(other))
	began := time.Now()
	b.drained()
	if took := time.Since(began); took < 8*time.Second {
		t.Errorf("it held the key for %v only", took)
	}
	close(frozen.open)
}

// TestScenario2DatabaseHalfFiftyConsumersTakeFiftyEvents: fifty idle relays are woken by one commit of fifty events and hold one each, all
// different, all at once.
func TestScenario2DatabaseHalfFiftyConsumersTakeFiftyEvents(t *testing.T) {
	const consumers = 50
	b := newBox(t)
	var mu sync.Mutex
	takes := map[int][]string{} // ids by consumer
	var all sync.WaitGroup
	all.Add(consumers)
	var idle sync.WaitGroup
	idle.Add(consumers)
	for i := range consumers {
		config := b.config(outbox.SinkFunc(func(ctx context.Context, e outbox.Event) error {
			mu.Lock()
			takes[i] = append(takes[i], e.ID)
			mu.Unlock()
			all.Done() // panics at a 51st delivery
			all.Wait() // nobody settles before everybody has one
			return ctx.Err()
		}))
		config.Batch, config.Poll = 1, time.Hour // nothing but the notification wakes them
		config.Hooks.Failed = func(_ outbox.Event, _ outbox.Verdict, err error) { t.Error(err) }
		ready := sync.OnceFunc(idle.Done)
		config.Hooks.Round = func(r postgres.Round) {
			if r.Err != nil {
				t.Error(r.Err)
			}
			ready()
		}
		start(t, config)
	}
	idle.Wait()
	eventually(t, "all listen", func() bool {
		return b.count("pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN leasehold_outbox' AND state = 'idle'") == consumers
	})
	events := make([]outbox.Event, consumers)
	for i := range events {
		events[i] = event("", "")
	}
	began := time.Now()
	b.commit(events...)
	all.Wait()
	t.Logf("fifty claims within %v", time.Since(began))
	b.drained()
	distinct := map[string]bool{}
	for i := range consumers {
		if len(takes[i]) != 1 || distinct[takes[i][0]] {
			t.Errorf("consumer %d took %v", i, takes[i])
		}
		distinct[takes[i][0]] = true
	}
	var deadlocks int
	if err := b.pool.QueryRow(t.Context(), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&deadlocks); err != nil || deadlocks != 0 {
		t.Errorf("%d deadlocks, %v", deadlocks, err)
	}
}

// TestWithoutNotificationsPollingFindsIt also covers poolers that lose them.
func TestWithoutNotificationsPollingFindsIt(t *testing.T) {
	b, in := newBox(t), &inbox{}
	b.exec("ALTER TABLE leasehold_outbox DISABLE TRIGGER leasehold_outbox_wake")
	start(t, b.config(in))
	b.commit(event("a", "a-1"))
	b.drained()
}

// TestANotificationIsHeard: polling once an hour would not find it.
func TestANotificationIsHeard(t *testing.T) {
	b, in := newBox(t), &inbox{}
	config := b.config(in)
	config.Poll = time.Hour
	start(t, config)
	for i := range 5 {
		time.Sleep(50 * time.Millisecond)
		b.commit(event("a", ""))
		eventually(t, "delivered", func() bool { total, _ := in.deliveries(); return total == i+1 })
	}
	// A lost connection is replaced.
	b.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN leasehold_outbox'")
	eventually(t, "it listens again", func() bool {
		return b.count("pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN leasehold_outbox' AND state = 'idle'") == 1
	})
	b.commit(event("a", ""))
	eventually(t, "delivered", func() bool { total, _ := in.deliveries(); return total == 6 })
}

// TestALongBacklogOfOneKeyDoesNotHideTheOthers: the claim jumps from key to key.
func TestALongBacklogOfOneKeyDoesNotHideTheOthers(t *testing.T) {
	b, in := newBox(t), &inbox{}
	b.exec(`INSERT INTO leasehold_outbox (key, source, type) SELECT 'long', '/s', 't' FROM generate_series(1, 20000)`)
	for _, key := range []string{"a", "z"} {
		b.commit(event(key, key+"-1"))
	}
	config := b.config(in)
	config.Batch = 10
	stop := start(t, config)
	eventually(t, "the others are delivered", func() bool { return len(in.firsts("a"))+len(in.firsts("z")) == 2 })
	stop()
	if total, _ := in.deliveries(); total > 100 {
		t.Errorf("only after %d events", total)
	}
}

// TestKeysThatEverRiseDoNotHideAnOldOne: each delivery makes an event of a higher key, so there is always one behind the last.
func TestKeysThatEverRiseDoNotHideAnOldOne(t *testing.T) {
	b, in := newBox(t), &inbox{}
	var n atomic.Int32
	rising := func() outbox.Event { return event(fmt.Sprintf("order-%06d", n.Add(1)), "") }
	config := b.config(outbox.SinkFunc(func(ctx context.Context, e outbox.Event) error {
		if strings.HasPrefix(e.Key, "order-") && len(in.firsts("a")) == 0 {
			err := pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error { return postgres.Enqueue(ctx, tx, rising()) })
			if err != nil {
				return err
			}
		}
		return in.Deliver(ctx, e)
	}))
	config.Batch = 2
	b.commit(rising())
	start(t, config)
	eventually(t, "some are delivered", func() bool { total, _ := in.deliveries(); return total > 3 })
	b.commit(event("a", "a-1"))
	before := n.Load()
	eventually(t, "the old one is delivered", func() bool { return len(in.firsts("a")) == 1 })
	if passed := n.Load() - before; passed > 100 {
		t.Errorf("%d were delivered before it", passed)
	}
	b.drained()
}
