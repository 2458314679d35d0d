package outbox

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestJudge(t *testing.T) {
	failure := errors.New("boom")
	tests := map[string]struct {
		err              error
		attempts         int
		othersGotThrough bool
		want             Verdict
	}{
		"rejected: parked at the first try":                    {err: Rejected(failure), want: Park},
		"rejected, also in an outage of the others":            {err: fmt.Errorf("sink: %w", Rejected(failure)), want: Park},
		"a plain failure is tried again":                       {err: failure, want: Retry},
		"the last try of a plain failure":                      {err: failure, attempts: 2, want: Park},
		"one try before the last":                              {err: failure, attempts: 1, want: Retry},
		"an outage counts nothing":                             {err: Unavailable(failure), want: Wait},
		"an outage parks nothing, however long it takes":       {err: Unavailable(failure), attempts: 2, want: Wait},
		"not available for this event alone: counted":          {err: Unavailable(failure), othersGotThrough: true, want: Retry},
		"not available for this event alone, for the last try": {err: Unavailable(failure), attempts: 2, othersGotThrough: true, want: Park},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Judge(Classify(test.err), test.attempts, 3, test.othersGotThrough); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if !errors.Is(test.err, failure) {
				t.Error("the cause is lost")
			}
		})
	}
}

func TestBackoffIsFullJitterUnderACap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{Base: time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "base")),
			Cap: time.Duration(rapid.Int64Range(int64(time.Minute), math.MaxInt64/4).Draw(t, "cap"))}
		n, random := rapid.IntRange(0, 10_000).Draw(t, "n"), rapid.Float64Range(0, 0.999).Draw(t, "random")
		bound := math.Min(float64(b.Cap), float64(b.Base)*math.Pow(2, float64(n)))
		got, want := float64(b.Delay(n, random)), bound*random
		if math.Abs(got-want) > 1+want*1e-9 {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

func TestCheck(t *testing.T) {
	good := Event{Source: "/shop", Type: "sold", Extensions: map[string]string{"traceparent": "00-ab-cd-01"}}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		spoil func(*Event)
		want  string
	}{
		"no source":             {func(e *Event) { e.Source = "" }, "source is required"},
		"no type":               {func(e *Event) { e.Type = "" }, "type is required"},
		"long key":              {func(e *Event) { e.Key = strings.Repeat("k", MaxKey+1) }, "key has 513 bytes"},
		"zero byte":             {func(e *Event) { e.Key = "a\x00b" }, "control character"},
		"newline in a header":   {func(e *Event) { e.Subject = "a\r\nX-Evil: 1" }, "control character"},
		"not UTF-8":             {func(e *Event) { e.ID = "\xff" }, "not UTF-8"},
		"much data":             {func(e *Event) { e.Data = make([]byte, MaxData+1) }, "data has"},
		"extension of a header": {func(e *Event) { e.Extensions = map[string]string{"trace-parent": "x"} }, "lower-case"},
		"a name that is taken":  {func(e *Event) { e.Extensions = map[string]string{"sequence": "1"} }, "taken"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			event := good
			test.spoil(&event)
			if err := event.Check(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
