package agent

import (
	"bytes"
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	logLines = 128                    // how many wait for a writer that is slower than they come
	logWait  = 100 * time.Millisecond // how long the end of the process waits for the last of them
)

// NewLog makes a log that keeps nobody waiting, and a function that waits, for a short time, until all of it is written.
//
// The agent shares its stderr with the command. So the command may have filled that pipe, and whoever reads it may hang; the pipe
// cannot be made non-blocking for the agent alone. Lines that find no room are dropped, and the log says how many once it is
// read again.
func NewLog(to io.Writer) (log *slog.Logger, flush func()) {
	q := &logQueue{lines: make(chan []byte, logLines), done: make(chan struct{})}
	go q.writeTo(to)
	return logTo(q), q.flush
}

func logTo(w io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, nil)).With("logger", "leasehold-agent")
}

// logQueue is what stands between who logs and the writer.
type logQueue struct {
	lines   chan []byte // nil is the last
	dropped atomic.Int64
	done    chan struct{}
}

// Write implements [io.Writer]. It takes one line.
func (q *logQueue) Write(line []byte) (int, error) {
	select {
	case q.lines <- bytes.Clone(line):
	default:
		q.dropped.Add(1)
	}
	return len(line), nil
}

func (q *logQueue) writeTo(w io.Writer) {
	defer close(q.done)
	for line := range q.lines {
		if line == nil {
			return
		}
		_, _ = w.Write(line) // a log that cannot be written has nobody to tell
		if n := q.dropped.Swap(0); n > 0 {
			logTo(w).Warn("Log lines dropped", "count", n)
		}
	}
}

// flush ends the log. What is logged after that is lost.
func (q *logQueue) flush() {
	late := time.After(logWait)
	select {
	case q.lines <- nil:
	case <-late:
		return
	}
	select {
	case <-q.done:
	case <-late:
	}
}
