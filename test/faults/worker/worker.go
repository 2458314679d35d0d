package main

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold-io/leasehold/api/env"
	"github.com/leasehold-io/leasehold/test/faults/journal"
	"github.com/leasehold-io/leasehold/test/faults/order"
	"github.com/leasehold-io/leasehold/test/faults/store"
)

const storeTimeout = 3 * time.Second

// worker is one attempt.
type worker struct {
	order.Order
	start   journal.Start
	journal *journal.Journal
	begin   time.Time
	isBad   bool

	conn *pgx.Conn // used by the writer of rows alone
	// settled is set once a row was let in after the work's time was over.
	settled atomic.Bool
}

func (w *worker) duration() time.Duration { return time.Duration(w.Seconds * float64(time.Second)) }

func (w *worker) isWorkOver() bool { return time.Since(w.begin) >= w.duration() }

// isDone: the time is over and the last row is in. Bad attempts are never done.
func (w *worker) isDone() bool { return !w.isBad && w.isWorkOver() && w.settled.Load() }

// misbehave does what was ordered for a bad attempt, in the middle of its work.
func (w *worker) misbehave() {
	if !w.isBad || time.Since(w.begin) < w.duration()/2 {
		return
	}
	switch w.Mode {
	case order.Fail:
		w.exit(exitBad)
	case order.Crash:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case order.Hang, order.Work:
	}
}

// writeRow writes one row. What cannot be written is tried again with the next.
func (w *worker) writeRow(ctx context.Context) {
	isLast := w.isWorkOver()
	url := os.Getenv(order.StoreEnv)
	if url == "" {
		w.settled.Store(isLast)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var err error
	if w.conn == nil {
		w.conn, err = pgx.Connect(ctx, url)
	}
	accepted := false
	if err == nil {
		accepted, err = store.Write(ctx, w.conn, store.Row{Task: w.start.Task, Attempt: w.start.Attempt, Token: w.start.Token})
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "worker: row:", err)
		if w.conn != nil {
			_ = w.conn.Close(ctx)
		}
		w.conn = nil
	case !accepted: // somebody with a higher token works on this task: whatever we do is for nothing
		w.exit(exitRefused)
	default:
		w.settled.Store(isLast)
	}
}

// exit leaves the child behind.
func (w *worker) exit(code int) {
	if code == 0 {
		result := fmt.Sprintf("attempt %d worked for %s", w.start.Attempt, time.Since(w.begin).Round(time.Millisecond))
		if err := os.WriteFile(os.Getenv(env.ResultFile), []byte(result), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "worker: result:", err)
			code = exitBroken
		}
	}
	if err := w.journal.End(code); err != nil {
		code = exitBroken
	}
	os.Exit(code)
}
