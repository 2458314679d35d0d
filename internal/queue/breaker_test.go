package queue_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/leasehold-io/leasehold/internal/queue"
)

var trips = queue.BreakerSettings{FailurePercent: 50, MinSamples: 4, Window: 10 * time.Second, SameFailures: 5, OpenFor: 30 * time.Second, Probes: 2}

// short is open for less time than results count.
var short = queue.BreakerSettings{FailurePercent: 50, MinSamples: 4, Window: 10 * time.Second, OpenFor: time.Second}

// word is one thing that happens to a breaker, so many seconds after epoch, and the state after it.
type word struct {
	at      int
	outcome queue.Outcome // "": time passes
	print   string        // of the failure
	started int           // the attempt
	set     *queue.BreakerSettings
	want    queue.BreakerState
}

func repeat(n int, w word) []word {
	words := make([]word, n)
	for i := range words {
		words[i] = w
	}
	return words
}

func words(parts ...[]word) (all []word) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func overridden(o queue.Override) *queue.BreakerSettings {
	s := trips
	s.Override = o
	return &s
}

var (
	ok     = word{at: 100, started: 99, outcome: queue.Succeeded, want: queue.Closed}
	fails  = word{at: 100, started: 99, outcome: queue.Failed, print: "x", want: queue.Closed}
	opened = words(repeat(3, fails), []word{{at: 100, started: 99, outcome: queue.Failed, print: "y", want: queue.Open}}) // until 130
)

func TestBreaker(t *testing.T) {
	for name, tc := range map[string]struct {
		words []word
		want  queue.BreakerRecord
	}{
		"half of them fail": {
			words: words(repeat(2, ok), repeat(1, fails), []word{{at: 100, started: 1, outcome: queue.Failed, print: "y", want: queue.Open}}),
			want:  queue.BreakerRecord{State: queue.Open, Since: second(100), Cause: queue.CauseFailurePercent, Fingerprint: "y"},
		},
		"less than half of them fail": {
			words: words(repeat(5, ok), repeat(4, fails)),
			want:  queue.BreakerRecord{State: queue.Closed},
		},
		"all fail, but there are too few": {
			words: repeat(3, fails),
			want:  queue.BreakerRecord{State: queue.Closed},
		},
		"what says nothing counts for nothing": {
			words: words(repeat(3, fails), repeat(5, word{at: 100, outcome: queue.Neither, want: queue.Closed})),
			want:  queue.BreakerRecord{State: queue.Closed},
		},
		"the window has passed": {
			words: words(repeat(3, fails), repeat(3, word{at: 110, outcome: queue.Failed, want: queue.Closed})),
			want:  queue.BreakerRecord{State: queue.Closed},
		},
		"failures that have passed count no more, neither as failures nor as a flood": {
			words: words(repeat(3, fails), repeat(6, word{at: 115, outcome: queue.Succeeded, want: queue.Closed}), repeat(3, word{at: 115, outcome: queue.Failed, print: "x", want: queue.Closed})),
			want:  queue.BreakerRecord{State: queue.Closed},
		},
		"the window has not quite passed": {
			words: words(repeat(3, fails), []word{{at: 109, outcome: queue.Failed, print: "y", want: queue.Open}}),
			want:  queue.BreakerRecord{State: queue.Open, Since: second(109), Cause: queue.CauseFailurePercent, Fingerprint: "y"},
		},
		"a flood of one failure, among many successes": {
			words: words(repeat(90, ok), repeat(4, fails), []word{{at: 101, outcome: queue.Failed, print: "x", want: queue.Open}}),
			want:  queue.BreakerRecord{State: queue.Open, Since: second(101), Cause: queue.CauseSameFailures, Fingerprint: "x"},
		},
		"as many, of two kinds": {
			words: words(repeat(90, ok), repeat(4, fails), repeat(4, word{at: 101, outcome: queue.Failed, print: "z", want: queue.Closed})),
			want:  queue.BreakerRecord{State: queue.Closed},
		},
		"as many, without a fingerprint": {
			words: words(repeat(90, ok), repeat(20, word{at: 101, outcome: queue.Failed, want: queue.Closed})),
			want:  queue.BreakerRecord{State: queue.Closed},
		},
		"open for its time": {
			words: words(opened, []word{{at: 129, want: queue.Open}, {at: 130, want: queue.HalfOpen}}),
			want:  queue.BreakerRecord{State: queue.HalfOpen, Since: second(130), Cause: queue.CauseFailurePercent, Fingerprint: "y"},
		},
		"half-open since its time, whenever it is looked at": {
			words: words(opened, []word{{at: 500, want: queue.HalfOpen}}),
			want:  queue.BreakerRecord{State: queue.HalfOpen, Since: second(130), Cause: queue.CauseFailurePercent, Fingerprint: "y"},
		},
		"successes of what ran before close nothing while it is open": {
			words: words(opened, repeat(5, word{at: 110, started: 90, outcome: queue.Succeeded, want: queue.Open})),
			want:  queue.BreakerRecord{State: queue.Open, Since: second(100), Cause: queue.CauseFailurePercent, Fingerprint: "y"},
		},
		"nor while it is half-open; failures of that open nothing": {
			words: words(opened, repeat(5, word{at: 140, started: 100, outcome: queue.Succeeded, want: queue.HalfOpen}),
				repeat(1, word{at: 141, started: 129, outcome: queue.Failed, want: queue.HalfOpen})),
			want: queue.BreakerRecord{State: queue.HalfOpen, Since: second(130), Cause: queue.CauseFailurePercent, Fingerprint: "y"},
		},
		"one success of two": {
			words: words(opened, []word{{at: 140, started: 130, outcome: queue.Succeeded, want: queue.HalfOpen}}),
			want:  queue.BreakerRecord{State: queue.HalfOpen, Since: second(130), Cause: queue.CauseFailurePercent, Fingerprint: "y", Successes: 1},
		},
		"two close it": {
			words: words(opened, []word{{at: 140, started: 130, outcome: queue.Succeeded, want: queue.HalfOpen}, {at: 141, started: 131, outcome: queue.Succeeded, want: queue.Closed}}),
			want:  queue.BreakerRecord{State: queue.Closed, Since: second(141)},
		},
		"closed, it counts afresh, and only what has started since": {
			words: words(opened, repeat(1, word{at: 140, started: 130, outcome: queue.Succeeded, want: queue.HalfOpen}), repeat(1, word{at: 141, started: 131, outcome: queue.Succeeded, want: queue.Closed}),
				repeat(9, word{at: 142, started: 99, outcome: queue.Failed, want: queue.Closed}), repeat(3, word{at: 143, started: 141, outcome: queue.Failed, want: queue.Closed})),
			want: queue.BreakerRecord{State: queue.Closed, Since: second(141)},
		},
		"also if the window still has what opened it": {
			words: words([]word{{at: 99, set: &short, want: queue.Closed}}, opened,
				[]word{{at: 101, started: 101, outcome: queue.Succeeded, want: queue.Closed}}, repeat(3, word{at: 102, started: 101, outcome: queue.Failed, want: queue.Closed})),
			want: queue.BreakerRecord{State: queue.Closed, Since: second(101)},
		},
		"a probe fails": {
			words: words(opened, []word{{at: 140, started: 130, outcome: queue.Succeeded, want: queue.HalfOpen}, {at: 141, started: 131, outcome: queue.Failed, print: "p", want: queue.Open}, {at: 170, want: queue.Open}}),
			want:  queue.BreakerRecord{State: queue.Open, Since: second(141), Cause: queue.CauseProbeFailed, Fingerprint: "p"},
		},
		"the clock steps back: open for its time from then": {
			words: words(opened, []word{{at: 20, want: queue.Open}, {at: 49, want: queue.Open}, {at: 50, want: queue.HalfOpen}}),
			want:  queue.BreakerRecord{State: queue.HalfOpen, Since: second(50), Cause: queue.CauseFailurePercent, Fingerprint: "y"},
		},
		"a person opens it, for as long as it takes": {
			words: words(repeat(1, word{at: 100, set: overridden(queue.OverrideOpen), want: queue.Open}), repeat(1, word{at: 9999, want: queue.Open})),
			want:  queue.BreakerRecord{State: queue.Open, Since: second(100), Cause: queue.CauseOverride},
		},
		"a person holds it open that failures have opened: its time is no longer what counts": {
			words: words(opened, repeat(1, word{at: 110, set: overridden(queue.OverrideOpen), want: queue.Open}), repeat(1, word{at: 9999, want: queue.Open})),
			want:  queue.BreakerRecord{State: queue.Open, Since: second(110), Cause: queue.CauseOverride},
		},
		"then probes come first": {
			words: words(repeat(1, word{at: 100, set: overridden(queue.OverrideOpen), want: queue.Open}), repeat(1, word{at: 101, set: overridden(queue.OverrideAuto), want: queue.HalfOpen})),
			want:  queue.BreakerRecord{State: queue.HalfOpen, Since: second(101), Cause: queue.CauseOverride},
		},
		"a person closes it, whatever fails; then it counts afresh": {
			words: words(opened, repeat(1, word{at: 101, set: overridden(queue.OverrideClosed), want: queue.Closed}), repeat(20, word{at: 102, started: 101, outcome: queue.Failed, print: "x", want: queue.Closed}),
				repeat(1, word{at: 102, set: overridden(queue.OverrideAuto), want: queue.Closed}), repeat(3, word{at: 102, started: 101, outcome: queue.Failed, want: queue.Closed})),
			want: queue.BreakerRecord{State: queue.Closed, Since: second(101)},
		},
		"what it counted before it was closed by a person is forgotten": {
			words: words(repeat(3, fails), repeat(1, word{at: 101, set: overridden(queue.OverrideClosed), want: queue.Closed}), repeat(1, word{at: 102, set: overridden(queue.OverrideAuto), want: queue.Closed}),
				repeat(3, word{at: 102, started: 101, outcome: queue.Failed, want: queue.Closed})),
			want: queue.BreakerRecord{State: queue.Closed},
		},
		"fewer probes are asked for than have succeeded": {
			words: words(opened, []word{{at: 140, started: 130, outcome: queue.Succeeded, want: queue.HalfOpen}, {at: 142, set: &queue.BreakerSettings{Probes: 1}, want: queue.Closed}}),
			want:  queue.BreakerRecord{State: queue.Closed, Since: second(142)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, settings := queue.NewBreaker(trips, queue.BreakerRecord{}, epoch), trips
			for i, w := range tc.words {
				now := second(w.at)
				after := b // unless it is closed, another that goes on from the record, as after a failover, says the same
				if record := b.Record(now); record.State != queue.Closed {
					after = queue.NewBreaker(settings, record, now)
					say(after, w)
				}
				say(b, w)
				if got, then := b.State(now), after.State(now); got != w.want || then != w.want {
					t.Fatalf("word %d, %+v: %s, and after a failover %s", i, w, got, then)
				}
				if w.set != nil {
					settings = *w.set
				}
			}
			last := second(tc.words[len(tc.words)-1].at)
			if diff := cmp.Diff(tc.want, b.Record(last)); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func second(s int) time.Time { return epoch.Add(time.Duration(s) * time.Second) }

func say(b *queue.Breaker, w word) {
	if w.set != nil {
		b.Set(*w.set, second(w.at))
	}
	if w.outcome != "" {
		b.Observe(queue.Result{ID: "task", Outcome: w.outcome, Fingerprint: w.print, Started: second(w.started)}, second(w.at))
	}
}
