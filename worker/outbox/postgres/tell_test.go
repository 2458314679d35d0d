package postgres_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/leasehold-io/leasehold/worker/outbox"
	"github.com/leasehold-io/leasehold/worker/outbox/postgres"
)

// journal is a log that can be read.
type journal struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.bytes.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.bytes.String()
}

// lines are level and message of each.
func (j *journal) lines(t *testing.T) (lines []string) {
	t.Helper()
	for text := range strings.Lines(j.String()) {
		var line struct{ Level, Msg string }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line.Level+" "+line.Msg)
	}
	return lines
}

// TestATimeWithoutTheSinkIsTwoLines, whether it is away or refuses each event, and however many events wait: one with the reason when it
// begins, one when it ends. None has data of an event.
func TestATimeWithoutTheSinkIsTwoLines(t *testing.T) {
	for name, refusal := range map[string]error{"away": outbox.Unavailable(errSink), "refuses": errSink} {
		t.Run(name, func(t *testing.T) {
			b, log := newBox(t), &journal{}
			var isOver atomic.Bool
			in := &inbox{refuse: func(outbox.Event) error {
				if isOver.Load() {
					return nil
				}
				return refusal
			}}
			config := b.config(in)
			config.MaxAttempts, config.Log = 1000, slog.New(slog.NewJSONHandler(log, nil))
			var rounds atomic.Int32
			config.Hooks.Round = func(r postgres.Round) {
				if r.Claimed > 0 {
					rounds.Add(1)
				}
			}
			for time := range int32(2) {
				isOver.Store(false)
				for _, id := range numbered("key", 10) {
					e := event(id, "")
					e.Data = []byte("hunter2")
					b.commit(e)
				}
				if time == 0 {
					start(t, config)
				}
				before := rounds.Load()
				eventually(t, "many rounds", func() bool { return rounds.Load() > before+8 })
				isOver.Store(true)
				b.drained()
			}
			want := []string{"WARN Sink takes nothing, trying goes on", "INFO Sink takes events again"}
			want = append(want, want...)
			eventually(t, "the last line", func() bool { return len(log.lines(t)) >= len(want) })
			if got := log.lines(t); !reflect.DeepEqual(got, want) || !strings.Contains(log.String(), "thanks") || strings.Contains(log.String(), "hunter2") {
				t.Errorf("the log is %s", log)
			}
		})
	}
}
