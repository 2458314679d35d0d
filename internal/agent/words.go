package agent

import (
	"sync"
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// words is what the command and this process have said to each other by the socket. The last word of the command counts.
type words struct {
	mu       sync.Mutex
	beat     holder.Boot
	progress *fencing.Progress
	result   result
	failure  *failure

	told   *told
	isTold chan struct{} // closed once told is set
	isLost bool          // the term is: nothing that is said now counts
	warned bool
}

// failure is what the command says of its own failure.
type failure struct {
	Retryable         *bool
	RetryAfterSeconds *int32
	Effect            fencing.Effect
	Reason            string
	Message           string
}

// told is why the command is to stop, and how long it has from then.
type told struct {
	Reason       string `json:"reason"`
	Message      string `json:"message,omitempty"`
	GraceSeconds int64  `json:"graceSeconds"`
}

func newWords() *words { return &words{isTold: make(chan struct{})} }

// hear takes a word of the command, unless the term is lost.
func (w *words) hear(at holder.Boot, take func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isLost {
		return false
	}
	w.beat = max(w.beat, at) // whoever speaks, works
	take()
	return true
}

func (w *words) lastBeat() holder.Boot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.beat
}

func (w *words) lastProgress() *fencing.Progress {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.progress
}

// last is the last word about the attempt: a result, or a failure.
func (w *words) last() (result, *failure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.result, w.failure
}

// tell tells the command to stop, and reports whether it had not been told before: the first reason stands.
func (w *words) tell(reason, message string, grace time.Duration) (isFirst bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told != nil {
		return false
	}
	w.told = &told{Reason: reason, Message: message, GraceSeconds: int64(grace / time.Second)}
	close(w.isTold)
	return true
}

// why is what the command was told; nil: nothing.
func (w *words) why() *told {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told
}

// lose closes the ears: the term is lost.
func (w *words) lose() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isLost = true
}

// once does something for the first time it is asked.
func (w *words) once(do func()) {
	w.mu.Lock()
	first := !w.warned
	w.warned = true
	w.mu.Unlock()
	if first {
		do()
	}
}
