package httpguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// Ledger keeps the marks, in memory and in a journal on disk, and holds a resource while a request for it is on its way.
type Ledger struct {
	path  string
	alone *os.File // locked

	mu        sync.Mutex
	resources map[string]*resource
	journal   journal
	lines     int   // in the journal
	broken    error // the journal could not be written; no mark may rise any more
}

// journal is the file on disk.
type journal interface {
	io.WriteCloser
	Sync() error
}

// resource is what is known of one.
type resource struct {
	busy      chan struct{} // holds a value while a request is on its way
	mark      guard.Token
	uncertain bool // a request got no answer, and none after it did
}

// Entry is what the ledger says of a resource.
type Entry struct {
	Mark      guard.Token
	Uncertain bool // the last request may have happened, or may still happen
}

// OpenLedger reads the journal at the path, or begins one. What was on its way when the last proxy ended is uncertain.
func OpenLedger(path string) (*Ledger, error) {
	alone, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(alone.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another proxy uses the ledger %s: %w", path, err), alone.Close())
	}
	l := &Ledger{path: path, alone: alone, resources: map[string]*resource{}}
	if err := errors.Join(l.replay(), l.compact()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Close ends the use of the ledger.
func (l *Ledger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = errors.New("the ledger is closed")
	var err error
	if l.journal != nil {
		err = l.journal.Close()
	}
	return errors.Join(err, l.alone.Close())
}

// Look returns the entry of a resource, the zero one if it was never written.
func (l *Ledger) Look(name string) Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.resources[name]; r != nil {
		return Entry{Mark: r.mark, Uncertain: r.uncertain}
	}
	return Entry{}
}

// begin waits until the resource is free, refuses a stale token, and puts on disk the mark, and that a request is on its way. Until end is
// called the resource is held. It reports how the resource was before.
func (l *Ledger) begin(ctx context.Context, name string, token guard.Token) (before Entry, end func(answered bool) error, err error) {
	r, err := l.hold(ctx, name)
	if err != nil {
		return Entry{}, nil, err
	}
	defer func() {
		if err != nil {
			<-r.busy
		}
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	before = Entry{Mark: r.mark, Uncertain: r.uncertain}
	if token < r.mark {
		return before, nil, &guard.StaleError{Resource: name, Token: token, Mark: r.mark}
	}
	isOnDisk := token == r.mark && r.uncertain // by the flush of the request that is uncertain since: no end was written after it
	if err := l.write(line{Op: opBegin, Resource: name, Token: token}, !isOnDisk); err != nil {
		return before, nil, err
	}
	r.mark, r.uncertain = token, true
	return before, func(answered bool) error { return l.end(name, r, answered) }, nil
}

func (l *Ledger) end(name string, r *resource, answered bool) error {
	defer func() { <-r.busy }()
	if !answered {
		return nil // the journal says so already
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.uncertain = false
	return l.write(line{Op: opEnd, Resource: name, Token: r.mark}, false) // if the disk loses it, an answered request is uncertain
}

func (l *Ledger) hold(ctx context.Context, name string) (*resource, error) {
	l.mu.Lock()
	r := l.resources[name]
	if r == nil {
		r = &resource{busy: make(chan struct{}, 1)}
		l.resources[name] = r
	}
	l.mu.Unlock()
	select {
	case r.busy <- struct{}{}:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Reset is an order to lower a mark.
type Reset struct {
	Resource string
	To       guard.Token // 0 lets any token in
	By       string
	Reason   string
	At       time.Time
}

// maxText bounds By and Reason.
const maxText = 1024

// Reset lowers a mark, for the case that it was raised too high by mistake or malice. Every token from To on is let in again, old ones
// too, so no worker that holds one may be alive. Before the mark is lowered, the order is on disk in the file beside the journal
// that ends in .audit and is never cut. It returns the mark that was.
func (l *Ledger) Reset(ctx context.Context, order Reset) (from guard.Token, err error) {
	if order.By == "" || order.Reason == "" || len(order.By) > maxText || len(order.Reason) > maxText || order.At.IsZero() {
		return 0, fmt.Errorf("a reset needs a name, a reason (at most %d bytes each) and a time", maxText)
	}
	if l.Look(order.Resource) == (Entry{}) {
		return 0, fmt.Errorf("resource %q has no mark", order.Resource)
	}
	r, err := l.hold(ctx, order.Resource)
	if err != nil {
		return 0, err
	}
	defer func() { <-r.busy }()
	l.mu.Lock()
	defer l.mu.Unlock()
	if order.To < 0 || order.To >= r.mark {
		return r.mark, fmt.Errorf("the mark is %d, and a reset only lowers it", r.mark)
	}
	from = r.mark
	if err := l.audit(order, from); err != nil {
		return from, err
	}
	if err := l.write(line{Op: opReset, Resource: order.Resource, Token: order.To}, true); err != nil {
		return from, err
	}
	r.mark = order.To
	return from, nil
}
