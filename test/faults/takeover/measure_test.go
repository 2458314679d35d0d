package main

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	var values []time.Duration
	for i := 100; i > 0; i-- {
		values = append(values, time.Duration(i)*time.Second)
	}
	for p, want := range map[int]string{50: "50.0 s", 99: "99.0 s", 100: "100.0 s"} {
		if got := percentile(values, p); got != want {
			t.Errorf("p%d is %s, want %s", p, got, want)
		}
	}
	if got := percentile(values[:1], 50); got != "100.0 s" {
		t.Errorf("of one value: %s", got)
	}
}
