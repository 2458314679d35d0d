package conformance

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// line is a TCP relay between one worker and the store that can pause and cut.
type line struct {
	listener net.Listener
	target   string

	mu       sync.Mutex
	maxDelay time.Duration
	cutting  bool
	budget   int // bytes that still pass to the store before the cut
	sent     int // bytes that passed
	open     map[net.Conn]struct{}
}

func newLine(tb testing.TB, target string) *line {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	l := &line{listener: listener, target: target, open: map[net.Conn]struct{}{}}
	var relays sync.WaitGroup
	relays.Go(func() {
		for {
			worker, err := listener.Accept()
			if err != nil {
				return
			}
			relays.Go(func() { l.relay(worker) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		l.mu.Lock()
		for conn := range l.open {
			_ = conn.Close()
		}
		l.mu.Unlock()
		relays.Wait()
	})
	return l
}

func (l *line) address() string { return l.listener.Addr().String() }

func (l *line) delay(limit time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.maxDelay = limit
}

// cutAfter lets so many more bytes pass to the store and then cuts all connections, once: the store gets what was sent, the worker gets
// no answer. New connections are whole, so a client that repeats on its own can.
func (l *line) cutAfter(bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutting, l.budget = true, bytes
}

// count returns how many bytes went to the store since the last count.
func (l *line) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.sent
	l.sent = 0
	return n
}

func (l *line) relay(worker net.Conn) {
	store, err := net.Dial("tcp", l.target)
	if err != nil {
		_ = worker.Close()
		return
	}
	l.mu.Lock()
	l.open[worker], l.open[store] = struct{}{}, struct{}{}
	l.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() {
		l.toStore(worker, store)
		_ = store.(*net.TCPConn).CloseWrite() // the store reads all that was sent, and then the end
	})
	both.Go(func() {
		_, err := io.Copy(worker, store)
		_ = worker.Close()
		if err != nil { // the worker is gone; what the store still says is lost
			_, _ = io.Copy(io.Discard, store)
		}
	})
	both.Wait()
	_ = store.Close()
	l.mu.Lock()
	delete(l.open, worker)
	delete(l.open, store)
	l.mu.Unlock()
}

func (l *line) toStore(worker, store net.Conn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := worker.Read(buffer)
		if n > 0 {
			passing, cut, pause := l.admit(n)
			time.Sleep(pause)
			_, writeErr := store.Write(buffer[:passing])
			if cut {
				l.cut()
				return
			}
			err = errors.Join(err, writeErr)
		}
		if err != nil {
			return
		}
	}
}

// admit says how much of a message passes, whether the line is cut after it, and how long it is held back before.
func (l *line) admit(n int) (passing int, cut bool, pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.maxDelay > 0 {
		pause = rand.N(l.maxDelay)
	}
	if l.cutting {
		n = min(n, l.budget)
		l.budget -= n
		cut = l.budget == 0
		l.cutting = !cut
	}
	l.sent += n
	return n, cut, pause
}

// cut ends the worker's side of all connections; each relay then ends the store's side.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.open {
		if conn.LocalAddr().String() == l.address() {
			_ = conn.Close()
		}
	}
}
