package postgres_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

var errSink = errors.New("no \x00 thanks")

// TestAPoisonEventStopsOnlyItsKeyAndIsParked: bounded tries, others meanwhile, then its key goes on without it.
func TestAPoisonEventStopsOnlyItsKeyAndIsParked(t *testing.T) {
	b := newBox(t)
	var tries atomic.Int32
	var isRepaired atomic.Bool
	in := &inbox{refuse: func(e outbox.Event) error {
		if e.ID == "a-2" && !isRepaired.Load() {
			tries.Add(1)
			return errSink
		}
		return nil
	}}
	config := b.config(in)
	config.Backoff = outbox.Backoff{Base: 400 * time.Millisecond, Cap: 400 * time.Millisecond}
	config.Random = func() float64 { return 0.9 }
	b.commit(event("a", "a-1"), event("a", "a-2"), event("a", "a-3"), event("b", "b-1"))
	start(t, config)
	eventually(t, "the other key is delivered", func() bool { return len(in.firsts("b")) == 1 })
	b.commit(event("b", "b-2"))
	eventually(t, "it goes on", func() bool { return len(in.firsts("b")) == 2 })
	if got := in.firsts("a"); !reflect.DeepEqual(got, []string{"a-1"}) || b.count("leasehold_outbox_parked") != 0 {
		t.Errorf("while a-2 is being tried: %v", got)
	}
	b.drained()
	if got := in.firsts("a"); !reflect.DeepEqual(got, []string{"a-1", "a-3"}) || tries.Load() != 4 {
		t.Errorf("got %v after %d tries", got, tries.Load())
	}
	parked, err := postgres.Parked(t.Context(), b.pool, 10)
	if err != nil || len(parked) != 1 || parked[0].ID != "a-2" || parked[0].Attempts != 4 || parked[0].LastError != "no ? thanks" {
		t.Fatalf("parked %+v, %v", parked, err)
	}
	isRepaired.Store(true)
	if n, err := postgres.Retry(t.Context(), b.pool, "a-2", "unknown"); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	b.drained()
	if got := in.firsts("a"); !reflect.DeepEqual(got, []string{"a-1", "a-3", "a-2"}) || b.count("leasehold_outbox_parked") != 0 {
		t.Errorf("after the retry: %v", got)
	}
	if all := in.all(); all[len(all)-1].Sequence <= all[len(all)-2].Sequence {
		t.Error("a receiver that goes by the sequence would skip it")
	}
}

func TestARejectedEventIsParkedAtOnce(t *testing.T) {
	b := newBox(t)
	in := &inbox{refuse: func(e outbox.Event) error {
		if e.ID == "a-1" {
			return outbox.Rejected(errSink)
		}
		return nil
	}}
	b.commit(event("a", "a-1"), event("a", "a-2"))
	start(t, b.config(in))
	b.drained()
	parked, err := postgres.Parked(t.Context(), b.pool, 10)
	if err != nil || len(parked) != 1 || parked[0].Attempts != 1 {
		t.Errorf("%+v, %v", parked, err)
	}
}

// TestAnOutageCountsNothing, however long it takes, and the relay does not storm the sink.
func TestAnOutageCountsNothing(t *testing.T) {
	b := newBox(t)
	var isAway atomic.Bool
	isAway.Store(true)
	var offers atomic.Int32
	in := &inbox{refuse: func(outbox.Event) error {
		offers.Add(1)
		if isAway.Load() {
			return outbox.Unavailable(errSink)
		}
		return nil
	}}
	config := b.config(in)
	config.OutageBackoff = outbox.Backoff{Base: 50 * time.Millisecond, Cap: 50 * time.Millisecond}
	config.Random = func() float64 { return 0.5 }
	config.Concurrency = 1
	var rounds atomic.Int32
	config.Hooks.Round = func(r postgres.Round) {
		if r.Outage {
			rounds.Add(1)
		}
	}
	for _, id := range numbered("key", 20) {
		b.commit(event(id, id))
	}
	start(t, config)
	eventually(t, "more rounds than an event has tries", func() bool { return rounds.Load() > 8 })
	if perRound := float64(offers.Load()) / float64(rounds.Load()); perRound > 4 {
		t.Errorf("%.1f offers a round to a sink that is away", perRound)
	}
	if b.count("leasehold_outbox WHERE attempts > 0") != 0 || b.count("leasehold_outbox_parked") != 0 {
		t.Error("the outage was counted")
	}
	isAway.Store(false)
	b.drained()
	if total, distinct := in.deliveries(); total != 20 || distinct != 20 {
		t.Errorf("%d deliveries of %d events", total, distinct)
	}
}

// TestAnEventThatKillsTheReceiverIsParkedWhileOthersGetThrough: nobody answers for it, so it looks like an outage of one event.
func TestAnEventThatKillsTheReceiverIsParkedWhileOthersGetThrough(t *testing.T) {
	b := newBox(t)
	in := &inbox{refuse: func(e outbox.Event) error {
		if e.Key == "killer" {
			return outbox.Unavailable(errSink)
		}
		return nil
	}}
	start(t, b.config(in))
	b.commit(event("killer", "killer"))
	for i := 0; b.count("leasehold_outbox_parked") == 0; i++ {
		if i == 500 {
			t.Fatal("it is not parked")
		}
		b.commit(event("b", ""), event("c", ""))
		time.Sleep(10 * time.Millisecond)
	}
	b.drained()
}

// TestAnEventThatKillsTheReceiverDoesNotStarveTheOthers: the receiver is away until the next round, so whoever comes after it gets nothing
// through, and at a concurrency of one all the others come after it if it is always the first.
func TestAnEventThatKillsTheReceiverDoesNotStarveTheOthers(t *testing.T) {
	b := newBox(t)
	var isDown atomic.Bool
	in := &inbox{refuse: func(e outbox.Event) error {
		if e.Key == "a" {
			isDown.Store(true)
		}
		if isDown.Load() {
			return outbox.Unavailable(errSink)
		}
		return nil
	}}
	config := b.config(in)
	config.Concurrency = 1
	var rounds atomic.Int32
	config.Hooks.Round = func(postgres.Round) {
		isDown.Store(false)
		rounds.Add(1)
	}
	b.commit(event("a", "a-1"), event("b", "b-1"), event("c", "c-1"))
	start(t, config)
	eventually(t, "the others get through, or never", func() bool { return len(in.firsts("b"))+len(in.firsts("c")) == 2 || rounds.Load() > 100 })
	if len(in.firsts("b"))+len(in.firsts("c")) != 2 {
		t.Errorf("after %d rounds: b %v, c %v", rounds.Load(), in.firsts("b"), in.firsts("c"))
	}
}

// TestASinkThatHangsIsLeftAfterItsTime: its context ends, the error counts as unavailable, and the batch is settled.
func TestASinkThatHangsIsLeftAfterItsTime(t *testing.T) {
	b, in := newBox(t), &inbox{}
	config := b.config(outbox.SinkFunc(func(ctx context.Context, e outbox.Event) error {
		if e.Key == "hangs" {
			<-ctx.Done()
			return ctx.Err()
		}
		return in.Deliver(ctx, e)
	}))
	config.DeliveryTimeout = 50 * time.Millisecond
	var verdict atomic.Int32
	verdict.Store(-1)
	config.Hooks.Failed = func(_ outbox.Event, v outbox.Verdict, _ error) { verdict.Store(int32(v)) }
	b.commit(event("hangs", "hangs"))
	start(t, config)
	eventually(t, "it failed", func() bool { return verdict.Load() == int32(outbox.Wait) })
	b.commit(event("b", "b-1"))
	eventually(t, "the other one is delivered", func() bool { return len(in.firsts("b")) == 1 })
}

// TestStoppingLosesAndRepeatsNothing: a relay that is told to stop ends the running deliveries and settles them.
func TestStoppingLosesAndRepeatsNothing(t *testing.T) {
	b, in := newBox(t), &inbox{}
	slow := outbox.SinkFunc(func(ctx context.Context, e outbox.Event) error {
		time.Sleep(3 * time.Millisecond)
		return errors.Join(in.Deliver(ctx, e), ctx.Err())
	})
	for _, key := range []string{"a", "b", "c", "d"} {
		for _, id := range numbered(key, 50) {
			b.commit(event(key, id))
		}
	}
	for stops := 0; b.count("leasehold_outbox") > 0; stops++ {
		stop := start(t, b.config(slow))
		time.Sleep(40 * time.Millisecond)
		stop()
	}
	if total, distinct := in.deliveries(); total != 200 || distinct != 200 {
		t.Errorf("%d deliveries of %d events", total, distinct)
	}
	for _, key := range []string{"a", "b", "c", "d"} {
		if got := in.firsts(key); !reflect.DeepEqual(got, numbered(key, 50)) {
			t.Errorf("got %v", got)
		}
	}
}

func TestStatistics(t *testing.T) {
	b := newBox(t)
	b.commit(event("a", "a-1"), event("a", "a-2"))
	b.exec("UPDATE leasehold_outbox SET attempts = 1, enqueued_at = enqueued_at - interval '1 hour' WHERE id = 'a-1'")
	got, err := postgres.ReadStatistics(t.Context(), b.pool)
	if err != nil || got.Pending != 2 || got.Retrying != 1 || got.Parked != 0 || got.Oldest < time.Hour || got.Oldest > 2*time.Hour {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	b := newBox(t)
	tests := map[string]struct {
		spoil func(*postgres.Config)
		want  string
	}{
		"no sink":     {func(c *postgres.Config) { c.Sink = nil }, "sink"},
		"no database": {func(c *postgres.Config) { c.Database = nil }, "database"},
		"batch":       {func(c *postgres.Config) { c.Batch = 1001 }, "batch"},
		"poll":        {func(c *postgres.Config) { c.Poll = time.Microsecond }, "poll"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config := b.config(&inbox{})
			test.spoil(&config)
			if _, err := postgres.New(config); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
