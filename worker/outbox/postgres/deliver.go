package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/leasehold-io/leasehold/worker/outbox"
)

// outageAfter is how many events a sink may refuse as unavailable, with none taken, before the rest of the batch is not offered.
const outageAfter = 3

// lane is the claimed events of one key and how far their delivery got.
type lane struct {
	items     []item
	offered   int  // how many of them may be offered
	isSuspect bool // the one that is offered may have ended a relay
	delivered int
	err       error // of items[delivered], nil if it was not tried
}

// delivery is the deliveries of one batch.
type delivery struct {
	relay *Relay
	lanes []lane

	mu          sync.Mutex
	next        int // the lane that nobody has begun
	delivered   int
	unavailable int
}

// deliver offers each lane's events in order, up to Concurrency lanes at a time. A lane ends at its first failure. No delivery starts
// once ctx is done, and those that run are finished.
//
// Each round begins with other lanes: an event on which the receiver dies would otherwise be the first of every round, and nothing
// would get through before it.
func (r *Relay) deliver(ctx context.Context, lanes []lane) *delivery {
	d := &delivery{relay: r, lanes: lanes}
	rand.Shuffle(len(lanes), func(i, j int) { lanes[i], lanes[j] = lanes[j], lanes[i] })
	var workers sync.WaitGroup
	for range min(r.config.Concurrency, len(lanes)) {
		workers.Go(func() {
			for l := d.take(); l != nil; l = d.take() {
				d.run(ctx, l)
			}
		})
	}
	workers.Wait()
	return d
}

func (d *delivery) take() *lane {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next == len(d.lanes) {
		return nil
	}
	d.next++
	return &d.lanes[d.next-1]
}

func (d *delivery) run(ctx context.Context, l *lane) {
	for l.delivered < l.offered && ctx.Err() == nil && !d.isOutage() {
		it := l.items[l.delivered]
		if l.err = d.offer(ctx, it.Event); l.err != nil {
			d.count(l.err)
			return
		}
		d.count(nil)
		d.relay.config.Hooks.Delivered(it.Event, it.age)
		l.delivered++
	}
}

// offer gives the sink its full time also when the relay is told to stop: an event whose delivery was cut off is delivered twice.
func (d *delivery) offer(ctx context.Context, event outbox.Event) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.relay.config.DeliveryTimeout)
	defer cancel()
	err := d.relay.config.Sink.Deliver(ctx, event)
	if err != nil && errors.Is(err, context.DeadlineExceeded) && outbox.Classify(err) == outbox.ClassFailed {
		return outbox.Unavailable(err)
	}
	return err
}

func (d *delivery) count(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil:
		d.delivered++
	case outbox.Classify(err) == outbox.ClassUnavailable:
		d.unavailable++
	}
}

// isOutage: what is not offered is not delivered twice, and does not wait for its timeout.
func (d *delivery) isOutage() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.delivered == 0 && d.unavailable >= outageAfter
}
