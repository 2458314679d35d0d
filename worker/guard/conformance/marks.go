package conformance

import (
	"errors"
	"math"
	"testing"

	"github.com/leasehold-io/leasehold/worker/guard"
)

func testMarks(t *testing.T, store Store) {
	register := store.Open(t, store.Address)
	resource, other := freshResource(), freshResource()
	write := func(token guard.Token, value string) {
		t.Helper()
		if err := register.Write(within(t), resource, token, value); err != nil {
			t.Fatalf("write %q under %d: %v", value, token, err)
		}
	}
	refused := func(token, mark guard.Token) {
		t.Helper()
		err := register.Write(within(t), resource, token, "stale")
		stale, is := errors.AsType[*guard.StaleError](err)
		if !is || *stale != (guard.StaleError{Resource: resource, Token: token, Mark: mark}) {
			t.Errorf("write under %d with the mark at %d: %v", token, mark, err)
		}
	}
	holds := func(resource string, want State) {
		t.Helper()
		if got, err := register.Read(within(t), resource); err != nil || got != want {
			t.Errorf("%s holds %+v, %v; want %+v", resource, got, err, want)
		}
	}
	holds(resource, State{})
	write(5, "a")
	holds(resource, State{"a", 5})
	write(5, "b") // the same holder, again
	holds(resource, State{"b", 5})
	refused(4, 5)
	refused(1, 5)
	holds(resource, State{"b", 5})
	write(10, "c") // as text, 10 is below 5
	refused(9, 10)
	refused(5, 10)
	holds(resource, State{"c", 10})
	for _, none := range []guard.Token{0, -1, math.MinInt64} {
		if err := register.Write(within(t), resource, none, "no token"); err == nil || guard.IsStale(err) || guard.IsUncertain(err) {
			t.Errorf("write under %d: %v", none, err)
		}
	}
	holds(resource, State{"c", 10})
	const beyondFloat = 1<<53 + 1 // a float64 cannot tell it from its lower neighbour
	write(beyondFloat, "d")
	refused(beyondFloat-1, beyondFloat)
	write(beyondFloat, "e")
	write(math.MaxInt64, "f")
	refused(math.MaxInt64-1, math.MaxInt64)
	holds(resource, State{"f", math.MaxInt64})

	holds(other, State{})
	if err := register.Write(within(t), other, 1, "of another resource"); err != nil {
		t.Errorf("one resource shuts another: %v", err)
	}
	holds(other, State{"of another resource", 1})
	holds(resource, State{"f", math.MaxInt64})
}
