package gate

import (
	"math"
	"time"
)

const (
	flowSlots = 60
	// minWindow is the shortest time over which the flow is measured.
	minWindow = time.Minute
)

// flow counts the tasks that leave a queue, since the queue was last empty and at most over the window.
type flow struct {
	width time.Duration // of a slot
	slots [flowSlots]int
	head  time.Time // when the newest slot began
	left  int       // the sum of the slots
	since time.Time // tasks wait since then; zero: none does
}

// newFlow measures over the longest wait that is allowed, so that the question "is it longer" can be answered.
func newFlow(maxWait time.Duration) flow {
	return flow{width: max(maxWait, minWindow) / flowSlots}
}

// begin is called when the queue is no longer empty: how fast nothing left says nothing.
func (f *flow) begin(now time.Time) {
	*f = flow{width: f.width, head: now, since: now}
}

func (f *flow) end() { f.since = time.Time{} }

func (f *flow) leave(now time.Time) {
	f.advance(now)
	f.slots[0]++
	f.left++
}

// advance moves the slots on, so that the first is about now.
func (f *flow) advance(now time.Time) {
	steps := int(now.Sub(f.head) / f.width)
	if steps <= 0 {
		return
	}
	f.head = f.head.Add(time.Duration(steps) * f.width)
	steps = min(steps, flowSlots)
	for _, n := range f.slots[flowSlots-steps:] {
		f.left -= n
	}
	copy(f.slots[steps:], f.slots[:flowSlots-steps])
	clear(f.slots[:steps])
}

// each is the time that one more task in front costs, by Little's law. The next to leave is counted as if it left now: that errs to the side of
// accepting while little is known, and by less than one task in the end.
func (f *flow) each(now time.Time) time.Duration {
	if f.since.IsZero() {
		return 0
	}
	f.advance(now)
	measured := min(now.Sub(f.since), flowSlots*f.width)
	return measured / time.Duration(f.left+1)
}

// wait is how long the last of a number of tasks waits.
func (f *flow) wait(tasks int, now time.Time) time.Duration {
	each := f.each(now)
	if each > 0 && tasks > int(math.MaxInt64/each) {
		return math.MaxInt64
	}
	return time.Duration(tasks) * each
}
