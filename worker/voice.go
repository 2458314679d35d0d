package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"
)

// Limits of what a worker says on the way.
const (
	MaxCheckpoint      = 1 << 10 // bytes
	MaxProgressMessage = 256     // bytes
)

// pace is the pause between two words. A loop may say what it likes as often as it likes: of what it said meanwhile, the last counts.
const pace = 500 * time.Millisecond

// voice is what the worker has said, and the agent was not told yet.
type voice struct {
	mu       sync.Mutex
	progress *progress
	beat     bool
	wake     chan struct{}
	ended    chan struct{} // closed once nobody listens any more
}

type progress struct {
	Current int64  `json:"current"`
	Total   int64  `json:"total,omitempty"`
	Message string `json:"message,omitempty"`
}

func newVoice() voice { return voice{wake: make(chan struct{}, 1), ended: make(chan struct{})} }

// Progress says how far the work has come, for status.progress. total is an estimate, 0 if it is not known; message, for people, has at
// most 256 bytes. It does not wait, costs next to nothing, and is a sign of life too: call it for every row. Only what makes no sense is an
// error.
func (t *Task) Progress(current, total int64, message string) error {
	switch {
	case current < 0 || total < 0:
		return fmt.Errorf("progress of %d of %d: neither is below zero", current, total)
	case len(message) > MaxProgressMessage || !utf8.ValidString(message):
		return fmt.Errorf("the message of a progress is not a text of at most %d bytes", MaxProgressMessage)
	}
	t.say(func(v *voice) { v.progress = &progress{current, total, message} })
	return nil
}

// Heartbeat says that the work goes on. It matters where HeartbeatTimeout is set, and then it does not wait either. Call it from the
// loop that does the work, with every step: a thread that beats on its own would go on if the work hung.
func (t *Task) Heartbeat() {
	if t.HeartbeatTimeout > 0 {
		t.say(func(v *voice) { v.beat = true })
	}
}

// Working is for a step that may take longer than HeartbeatTimeout, and in which nothing can be called: a query, a download. It beats on
// its own until done is called, but for no longer than the step can take if all is well. If it hangs, the attempt is ended after that.
func (t *Task) Working(limit time.Duration) (done func()) {
	t.Heartbeat()
	if t.HeartbeatTimeout <= 0 || t.voice.ended == nil {
		return func() {}
	}
	stop := make(chan struct{})
	go func() {
		beat, end := time.NewTicker(t.HeartbeatTimeout/4), time.NewTimer(limit)
		defer beat.Stop()
		defer end.Stop()
		for {
			select {
			case <-beat.C:
				t.Heartbeat()
			case <-end.C:
				return
			case <-stop:
				return
			case <-t.voice.ended:
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(stop) })
}

func (t *Task) say(what func(*voice)) {
	v := &t.voice
	v.mu.Lock()
	what(v)
	v.mu.Unlock()
	select {
	case v.wake <- struct{}{}:
	default: // it is woken already, or nobody listens
	}
}

// speak takes to the agent what is said, until ctx ends. A word that is on its way then is waited for: it must not arrive after the last one.
func (t *Task) speak(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-t.voice.wake:
			t.utter(context.WithoutCancel(ctx))
			sleep(ctx, pace)
		case <-ctx.Done():
		}
	}
}

// utter tells the agent once what was said last. Progress is a heartbeat. What it did not hear is said again with the next word.
func (t *Task) utter(ctx context.Context) {
	v := &t.voice
	v.mu.Lock()
	p, beat := v.progress, v.beat
	v.progress, v.beat = nil, false
	v.mu.Unlock()
	var err error
	switch {
	case t.agent == nil:
	case p != nil:
		err = t.agent.tell(ctx, "/v1/progress", p)
	case beat:
		err = t.agent.tell(ctx, "/v1/heartbeat", nil)
	}
	if err == nil || isRefusal(err) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.beat = v.beat || beat
	if v.progress == nil {
		v.progress = p
	}
}

// SaveCheckpoint leaves up to 1 KiB of text for the next attempt, which finds the last one in Checkpoint; empty: it finds nothing. It says
// where to go on; the work itself belongs into a store, before this is called. It is safe from the next renewal of the lease on. It takes no
// context, because the time to call it is also after being told to stop.
func (t *Task) SaveCheckpoint(checkpoint string) error {
	if len(checkpoint) > MaxCheckpoint || !utf8.ValidString(checkpoint) {
		return fmt.Errorf("the checkpoint is not a text of at most %d bytes", MaxCheckpoint)
	}
	err := errNoSocket
	if t.agent != nil {
		body := map[string]string{"checkpoint": checkpoint}
		err = t.agent.tell(context.Background(), "/v1/checkpoint", body)
	}
	if err != nil && !isRefusal(err) && t.checkpointFile != "" {
		return replace(t.checkpointFile, checkpoint) // which is the same
	}
	if errors.Is(err, errNoSocket) { // and no file: a task of a test
		return nil
	}
	return err
}

var errNoSocket = errors.New("there is no socket")
