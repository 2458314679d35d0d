package outage

import (
	"strings"
	"testing"
	"time"
)

func TestALoadThatWouldShowNothingIsRefused(t *testing.T) {
	tests := map[string]struct {
		change func(*Load)
		want   string // in what is said of it; empty: it is taken
	}{
		"the scenario's own":              {func(*Load) {}, ""},
		"few tasks":                       {func(l *Load) { l.Tasks = 19 }, "20 tasks"},
		"more tasks than a breaker takes": {func(l *Load) { l.Tasks = 6001 }, "6000 tasks"},
		"a part of a second":              {func(l *Load) { l.Open = 1500 * time.Millisecond }, "whole seconds"},
		"no bound":                        {func(l *Load) { l.Bound = 0 }, "whole seconds"},
		"retries after the outage":        {func(l *Load) { l.Bound = time.Minute }, "must outlast"},
		"longer than a breaker looks":     {func(l *Load) { l.Length = time.Hour }, "half an hour"},
	}
	for name, test := range tests {
		l := Load{Tasks: 500, Length: time.Minute, Bound: 30 * time.Second, Open: 10 * time.Second}
		test.change(&l)
		switch err := l.Validate(); {
		case err == nil && test.want != "":
			t.Errorf("%s: taken", name)
		case err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: %v", name, err)
		}
	}
}
