package queue

import "container/heap"

// ranking is a heap of flows that know their places in it, so that one can be moved, or taken out, wherever it is.
type ranking struct {
	flows    []*flow
	slot     int // of flow.at
	isBefore func(a, b *flow) bool
}

// place puts the flow where it belongs after whatever may have changed that: its line, its tag, its tenant's holders.
func (f *flow) place() {
	l := f.level
	isReady := len(f.waiting) > 0 && !f.tenant.isFull()
	if isReady && f.at[l.ready.slot] == 0 {
		f.tag = max(f.tag, l.now) // it was idle, or passed over: no credit
	}
	l.ready.put(f, isReady)
	l.oldest.put(f, isReady)
	l.idle.put(f, len(f.waiting) == 0)
}

// put moves the flow to its place in the ranking, or out of it.
func (r *ranking) put(f *flow, isIn bool) {
	switch at := f.at[r.slot]; {
	case isIn && at == 0:
		heap.Push(r, f)
	case isIn:
		heap.Fix(r, at-1)
	case at > 0:
		heap.Remove(r, at-1)
	}
}

// Len is part of heap.Interface.
func (r *ranking) Len() int { return len(r.flows) }

// Less is part of heap.Interface.
func (r *ranking) Less(i, j int) bool { return r.isBefore(r.flows[i], r.flows[j]) }

// Swap is part of heap.Interface.
func (r *ranking) Swap(i, j int) {
	r.flows[i], r.flows[j] = r.flows[j], r.flows[i]
	r.flows[i].at[r.slot], r.flows[j].at[r.slot] = i+1, j+1
}

// Push is part of heap.Interface.
func (r *ranking) Push(f any) {
	r.flows = append(r.flows, f.(*flow))
	f.(*flow).at[r.slot] = len(r.flows)
}

// Pop is part of heap.Interface.
func (r *ranking) Pop() any {
	last := len(r.flows) - 1
	f := r.flows[last]
	r.flows[last] = nil
	r.flows = r.flows[:last]
	f.at[r.slot] = 0
	return f
}
