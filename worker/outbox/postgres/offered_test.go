package postgres

import (
	"errors"
	"reflect"
	"testing"

	"github.com/leasehold-io/leasehold/worker/outbox"
)

// TestWhatARelayOffersAfterAnotherHasEnded: lanes of the events 1 to 3, 4 to 6 and 7, and which of them are offered.
func TestWhatARelayOffersAfterAnotherHasEnded(t *testing.T) {
	set := func(seqs ...int64) map[int64]bool {
		m := map[int64]bool{}
		for _, seq := range seqs {
			m[seq] = true
		}
		return m
	}
	tests := map[string]struct {
		left       remains
		want       []int64
		wantFailed []int64
	}{
		"nothing is left":                             {want: []int64{1, 2, 3, 4, 5, 6, 7}},
		"another batch is left":                       {left: remains{suspects: set(70, 80)}, want: []int64{1, 2, 3, 4, 5, 6, 7}},
		"a batch is left: one of its firsts":          {left: remains{suspects: set(1, 2, 3, 4, 5)}, want: []int64{4}},
		"later ones of a key: the lane ends before":   {left: remains{suspects: set(6)}, want: []int64{1, 2, 3, 4, 5, 7}},
		"one alone is left: it has failed":            {left: remains{suspects: set(4), failed: set(4)}, want: []int64{1, 2, 3, 7}, wantFailed: []int64{4}},
		"one that was counted: alone, when it is due": {left: remains{suspects: set(7)}, want: []int64{7}},
		"one has failed, and there are suspects":      {left: remains{suspects: set(1, 4, 7), failed: set(1)}, want: []int64{7}, wantFailed: []int64{1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			claimed := [][]item{}
			for _, seqs := range [][]int64{{1, 2, 3}, {4, 5, 6}, {7}} {
				var items []item
				for _, seq := range seqs {
					items = append(items, item{Event: outbox.Event{Sequence: seq}})
				}
				claimed = append(claimed, items)
			}
			var got, gotFailed []int64
			for _, l := range choose(claimed, test.left, func(n int) int { return n - 1 }) {
				got = append(got, sequences(l.items[:l.offered])...)
				if errors.Is(l.err, errRelayEnded) {
					gotFailed = append(gotFailed, l.items[0].Sequence)
				}
			}
			if !reflect.DeepEqual(got, test.want) || !reflect.DeepEqual(gotFailed, test.wantFailed) {
				t.Errorf("offered %v, failed %v", got, gotFailed)
			}
		})
	}
}
