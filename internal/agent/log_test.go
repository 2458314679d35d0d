package agent

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
)

// gate is a writer that takes nothing until it is opened.
type gate struct {
	open    chan struct{}
	waiting chan struct{} // receives when somebody has come
	mu      sync.Mutex
	got     strings.Builder
}

func newGate() *gate { return &gate{open: make(chan struct{}), waiting: make(chan struct{}, 1)} }

func (g *gate) Write(line []byte) (int, error) {
	select {
	case g.waiting <- struct{}{}:
	default:
	}
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.got.Write(line)
}

// entry is a line of the log.
type entry struct {
	Level, Msg, Logger string
	N, Count           int
}

func (g *gate) entries(t *testing.T) (found []entry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for line := range strings.Lines(g.got.String()) {
		var e entry
		must(t, json.Unmarshal([]byte(line), &e))
		found = append(found, e)
	}
	return found
}

func TestTheLogIsWrittenInOrder(t *testing.T) {
	g := newGate()
	close(g.open)
	log, flush := NewLog(g)
	for n := range logLines { // all of them have room
		log.Info("Line", "n", n)
	}
	flush()
	eventually(t, "all is written", func() bool { return len(g.entries(t)) == logLines })
	for n, e := range g.entries(t) {
		if want := (entry{Level: "INFO", Msg: "Line", Logger: "leasehold-agent", N: n}); e != want {
			t.Errorf("%+v, want %+v", e, want)
		}
	}
}

// TestTheLogWaitsForNobody, and says what it has dropped, once it can.
func TestTheLogWaitsForNobody(t *testing.T) {
	const dropped = 7
	g := newGate()
	log, flush := NewLog(g)
	log.Info("Line", "n", 0)
	<-g.waiting // this one has left the queue
	for n := range logLines + dropped {
		log.Info("Line", "n", n+1)
	}
	flush() // it gives up
	close(g.open)
	eventually(t, "the last line that had room is written", func() bool { return len(g.entries(t)) == 1+1+logLines })
	got := g.entries(t)
	if got[0].Msg != "Line" || got[len(got)-1].N != logLines {
		t.Errorf("first %+v, last %+v", got[0], got[len(got)-1])
	}
	if want := (entry{Level: "WARN", Msg: "Log lines dropped", Logger: "leasehold-agent", Count: dropped}); got[1] != want {
		t.Errorf("%+v, want %+v", got[1], want)
	}
}

// TestTheEndOfTheLogIsNoEnd for who still writes to it, whom nobody reads any more: the process ends while others of its goroutines work.
func TestTheEndOfTheLogIsNoEnd(t *testing.T) {
	g := newGate()
	close(g.open)
	log, flush := NewLog(g)
	flush()
	for range 2 * logLines {
		log.Info("Late")
	}
	if got := g.entries(t); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}
