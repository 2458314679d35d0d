package gate

import (
	"fmt"
	"testing"
	"time"
)

// served plays a queue that starts a task every so often, with so many waiting at the beginning, and returns its state at the end.
func served(l Limits, waiting int, each, until time.Duration) *Queue {
	q := New(l)
	for range waiting {
		q.Arrive("a", start)
	}
	for at := each; each > 0 && at <= until && q.whole.waiting > 0; at += each {
		q.Leave("a", after(at))
	}
	return q
}

func TestLittlesLawRefusesWhereTheWaitWouldBeTooLong(t *testing.T) {
	const second = time.Second
	tests := map[string]struct {
		maxWait     time.Duration
		waiting     int
		each, until time.Duration
		want        int // admitted
	}{
		"none waits":                             {maxWait: 10 * second, want: 100},
		"nothing is known yet":                   {maxWait: 10 * second, waiting: 500, want: 100},
		"ten a second, fifty wait":               {maxWait: 10 * second, waiting: 350, each: second / 10, until: 30 * second, want: 51},
		"ten a second, a hundred wait":           {maxWait: 10 * second, waiting: 401, each: second / 10, until: 30 * second, want: 0},
		"ten a second, long enough is allowed":   {maxWait: 100 * second, waiting: 401, each: second / 10, until: 30 * second, want: 100},
		"nothing starts, and few wait":           {maxWait: 600 * second, waiting: 5, until: 60 * second, want: 6},
		"nothing starts for longer than allowed": {maxWait: 60 * second, waiting: 2, until: 120 * second, want: 0},
		"one an hour, in a day":                  {maxWait: 24 * time.Hour, waiting: 30, each: time.Hour, until: 10 * time.Hour, want: 7},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			q := served(Limits{MaxWait: test.maxWait}, test.waiting, test.each, test.until)
			n, last := offer(q, "a", 100, after(test.until))
			if n != test.want || (n < 100) != (last.Reason == Wait) {
				t.Errorf("%d, want %d; %+v", n, test.want, last)
			}
		})
	}
}

func TestTheFlowForgetsWhatIsOlderThanItsWindow(t *testing.T) {
	q := served(Limits{MaxWait: 10 * time.Second}, 2000, time.Second/10, time.Minute) // ten a second for a minute
	for at := time.Minute + time.Second; at <= 2*time.Minute; at += time.Second {     // then one a second for another
		q.Leave("a", after(at))
	}
	if got := q.flow.wait(61, after(2*time.Minute)); got < 59*time.Second || got > 61*time.Second {
		t.Errorf("61 tasks at one a second take %s", got)
	}
	if got := q.flow.wait(10, after(10*time.Minute)); got != 10*time.Minute {
		t.Errorf("nothing has left for a whole window, and ten tasks take %s", got)
	}
}

func TestWhoIsRefusedIsToldWhenThereIsRoom(t *testing.T) {
	q := served(Limits{Queue: Share{MaxPending: 100}}, 400, time.Second/10, 30*time.Second) // 100 wait, ten a second
	for range 49 {
		q.Arrive("a", after(30*time.Second))
	}
	if _, v := offer(q, "a", 1, after(30*time.Second)); v.Reason != Pending || v.RetryAfter != 5*time.Second {
		t.Errorf("%+v", v)
	}
	q = served(Limits{MaxWait: 10 * time.Second}, 450, time.Second/10, 30*time.Second) // 150 wait, fifteen seconds
	if _, v := offer(q, "a", 1, after(30*time.Second)); v.Reason != Wait || v.RetryAfter != 5*time.Second {
		t.Errorf("%+v", v)
	}
}

func BenchmarkAsk(b *testing.B) {
	q := New(Limits{Queue: Share{Rate: perSecond(1000, 0), MaxPending: 1000}, Tenant: Share{Rate: perSecond(100, 0)}, MaxWait: time.Minute})
	now := start
	b.ReportAllocs()
	for i := range b.N {
		now = now.Add(100 * time.Microsecond)
		q.Ask(Task{UID: fmt.Sprint(i), Tenant: fmt.Sprint(i % 50)}, false, now)
	}
}
