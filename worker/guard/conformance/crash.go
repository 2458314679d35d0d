package conformance

import (
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// maxCuts bounds at how many bytes a write is cut off.
const maxCuts = 24

// settle is how long a store gets to notice that a worker was cut off.
const settle = 10 * time.Millisecond

func testCrash(t *testing.T, store Store) {
	control := store.Open(t, store.Address)
	length := writeLength(t, store, control)
	step := max(1, length/maxCuts)
	cuts := []int{length - 1, length}
	for at := 0; at < length-1; at += step {
		cuts = append(cuts, at)
	}
	found := map[State]int{}
	for _, at := range cuts {
		found[cutOff(t, store, control, at)]++
	}
	t.Logf("a write of %d bytes, cut off at %d places: %v", length, len(cuts), found)
	if found[State{"old", 1}]+found[State{"old", 2}] == 0 {
		t.Error("no cut came before the write, so this has shown nothing")
	}
}

// writeLength is how many bytes one write sends.
func writeLength(t *testing.T, store Store, control Register) int {
	l, resource := newLine(t, store.Address), freshResource()
	register := store.Open(t, l.address())
	prepare(t, control, register, resource)
	l.count()
	if err := register.Write(within(t), resource, 2, "new"); err != nil {
		t.Fatal(err)
	}
	return l.count()
}

// prepare writes the old value, and lets the worker get to know the store.
func prepare(t *testing.T, control, register Register, resource string) {
	t.Helper()
	if err := control.Write(within(t), resource, 1, "old"); err != nil {
		t.Fatal(err)
	}
	if err := register.Write(within(t), resource, 1, "old"); err != nil {
		t.Fatal(err)
	}
}

// cutOff cuts a worker off after so many bytes of its write and returns what the store then holds.
func cutOff(t *testing.T, store Store, control Register, at int) State {
	l, resource := newLine(t, store.Address), freshResource()
	register := store.Open(t, l.address())
	prepare(t, control, register, resource)
	l.cutAfter(at)
	answer := register.Write(within(t), resource, 2, "new")
	if guard.IsStale(answer) {
		t.Errorf("cut off after %d bytes: %v", at, answer)
	}
	var got State
	for range 2 {
		var err error
		if got, err = control.Read(within(t), resource); err != nil {
			t.Fatal(err)
		}
		if !possible(store, answer, got) {
			t.Errorf("cut off after %d bytes, answer %v: the store holds %+v", at, answer, got)
		}
		time.Sleep(settle)
	}
	// Whatever happened, the same token may repeat, and then the lower one is out.
	if err := control.Write(within(t), resource, 2, "new"); err != nil {
		t.Errorf("cut off after %d bytes, the same token again: %v", at, err)
	}
	if err := control.Write(within(t), resource, 1, "old"); !guard.IsStale(err) {
		t.Errorf("cut off after %d bytes, a lower token later: %v", at, err)
	}
	return got
}

// possible is the rule: check and write are one step, and only an uncertain answer leaves the choice.
func possible(store Store, answer error, got State) bool {
	before, after := got == State{"old", 1}, got == State{"new", 2}
	switch {
	case answer == nil:
		return after
	case guard.IsUncertain(answer):
		return before || after || store.Uncertain && got == State{"old", 2}
	default:
		return before
	}
}
