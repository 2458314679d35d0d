package ingress

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

func TestARecordIsCounted(t *testing.T) {
	r := &Record{Load: Load{Length: 2 * time.Second}}
	for i := range 100 {
		code := http.StatusTooManyRequests
		if i%4 == 0 {
			code = http.StatusCreated
		}
		r.Answers = append(r.Answers, Answer{At: time.Duration(i) * 20 * time.Millisecond, Took: time.Duration(i+1) * time.Millisecond, Code: code})
	}
	if a, b := r.Count(Answer.IsAccepted), r.Count(Answer.IsRefused); a != 25 || b != 75 {
		t.Errorf("%d accepted, %d refused", a, b)
	}
	if got := r.EachSecond(Answer.IsAccepted); !slices.Equal(got, []int{13, 12}) {
		t.Errorf("%v", got)
	}
	all := func(Answer) bool { return true }
	for percent, want := range map[int]time.Duration{1: 1, 50: 50, 99: 99, 100: 100} {
		if got := r.Latency(all, percent); got != want*time.Millisecond {
			t.Errorf("p%d: %s", percent, got)
		}
	}
	if got := (&Record{}).Latency(all, 50); got != 0 {
		t.Errorf("of nothing: %s", got)
	}
}
