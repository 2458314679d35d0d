package controller

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/leasehold-io/leasehold/internal/fencing/key"
)

// holders is what the keeper remembers of holders, by the name of the key's Lease: a restart forgets it, and costs time only. What
// it remembers of a key that has come to an end is forgotten.
type holders struct {
	mu    sync.Mutex
	gone  map[types.NamespacedName]goneHolder
	ended map[types.NamespacedName]endedTasks
}

// goneHolder is a holder that is gone, with what is left of it.
type goneHolder struct {
	mark string
	at   time.Time
}

// endedTasks are those with the key, by UID, that were seen in their final phase. That is final, also after the task is gone: its key
// need not be kept for a process that may still run. Any of them may be the holder: whoever is superseded with it ends at the same time. The
// next pass finds out which, and forgets the others: a key may be held, or answered, for longer than anybody can count its tasks.
type endedTasks map[string]key.TaskState

// since is since when a holder that is gone, and what is left of it, was seen as it is.
func (h *holders) since(name types.NamespacedName, mark string, now time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if was, ok := h.gone[name]; ok && was.mark == mark {
		return was.at
	}
	if h.gone == nil {
		h.gone = map[types.NamespacedName]goneHolder{}
	}
	h.gone[name] = goneHolder{mark, now}
	return now
}

// ends notes that a task with the key has reached its final phase.
func (h *holders) ends(name types.NamespacedName, uid string, state key.TaskState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended == nil {
		h.ended = map[types.NamespacedName]endedTasks{}
	}
	if h.ended[name] == nil {
		h.ended[name] = endedTasks{}
	}
	h.ended[name][uid] = state
}

// endOf is how a task with the key has ended, as far as that was seen.
func (h *holders) endOf(name types.NamespacedName, uid string) (key.TaskState, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	end, ok := h.ended[name][uid]
	return end, ok
}

// endsOnly forgets how tasks with the key have ended, but for one.
func (h *holders) endsOnly(name types.NamespacedName, uid string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.ended[name], func(other string, _ key.TaskState) bool { return other != uid })
	if len(h.ended[name]) == 0 {
		delete(h.ended, name)
	}
}

func (h *holders) forget(name types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.gone, name)
	delete(h.ended, name)
}
