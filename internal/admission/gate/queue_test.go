package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return start.Add(d) }

// offer asks for a number of new tasks and returns how many are admitted, and what the last was told.
func offer(q *Queue, tenant string, count int, now time.Time) (admitted int, last Verdict) {
	for range count {
		asked++
		last = q.Ask(Task{UID: fmt.Sprint("uid-", asked), Tenant: tenant}, false, now)
		if last.Reason == Admitted {
			admitted++
		}
	}
	return admitted, last
}

var asked int

func perSecond(count, burst int) Rate { return Rate{Count: count, Period: time.Second, Burst: burst} }

func TestARateTakesItsBurstAndThenItsRate(t *testing.T) {
	tests := map[string]struct {
		rate       Rate
		wantAtOnce int
		pause      time.Duration
		wantAfter  int
	}{
		"the burst is the rate":      {perSecond(10, 0), 10, time.Second, 10},
		"a burst of its own":         {perSecond(10, 3), 3, 200 * time.Millisecond, 2},
		"a burst above the rate":     {perSecond(10, 50), 50, time.Second, 10},
		"a slow rate":                {Rate{Count: 6, Period: time.Hour, Burst: 1}, 1, 10 * time.Minute, 1},
		"too early":                  {Rate{Count: 6, Period: time.Hour, Burst: 1}, 1, 9 * time.Minute, 0},
		"a pause fills no more":      {perSecond(10, 3), 3, time.Hour, 3},
		"no limit":                   {Rate{}, 100, 0, 100},
		"one third of a second each": {perSecond(3, 1), 1, time.Second / 3, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			q := New(Limits{Queue: Share{Rate: test.rate}})
			if got, _ := offer(q, "a", 100, start); got != test.wantAtOnce {
				t.Errorf("at once: %d, want %d", got, test.wantAtOnce)
			}
			if got, _ := offer(q, "a", 100, after(test.pause)); got != test.wantAfter {
				t.Errorf("after %s: %d, want %d", test.pause, got, test.wantAfter)
			}
		})
	}
}

func TestATenantHasItsOwnRateAndTheQueueOneForAll(t *testing.T) {
	q := New(Limits{Queue: Share{Rate: perSecond(5, 0)}, Tenant: Share{Rate: perSecond(3, 0)}})
	a, last := offer(q, "a", 10, start)
	if a != 3 || last.Reason != TenantRate || !strings.Contains(last.Message, `tenant "a"`) || !strings.Contains(last.Message, "spec.admission.tenant.rate") {
		t.Errorf("tenant a: %d, %+v", a, last)
	}
	b, last := offer(q, "b", 10, start)
	if b != 2 || last.Reason != RateLimit || !strings.Contains(last.Message, "spec.admission.rate") {
		t.Errorf("tenant b: %d, %+v", b, last)
	}
	// Who was refused by the queue's limit has not used up its own.
	if b, _ := offer(q, "b", 10, after(400*time.Millisecond)); b != 2 {
		t.Errorf("tenant b later: %d, want 2", b)
	}
}

func TestMaxPendingCountsWhatWaitsAndWhatWasAccepted(t *testing.T) {
	q := New(Limits{Queue: Share{MaxPending: 5}, Tenant: Share{MaxPending: 3}})
	a, last := offer(q, "a", 10, start)
	if a != 3 || last.Reason != TenantPending {
		t.Fatalf("tenant a: %d, %+v", a, last)
	}
	b, last := offer(q, "b", 10, start)
	if b != 2 || last.Reason != Pending || last.RetryAfter != time.Second {
		t.Fatalf("tenant b: %d, %+v", b, last)
	}
	for i := range 3 { // seen: the sum stays
		q.Created(Task{UID: fmt.Sprint("uid-", asked-19+i), Tenant: "a"}, after(time.Second))
		q.Arrive("a", after(time.Second))
	}
	if more, _ := offer(q, "b", 10, after(time.Second)); more != 0 {
		t.Errorf("%d more were accepted because the watch showed the first", more)
	}
	q.Leave("a", after(2*time.Second))
	if more, _ := offer(q, "a", 10, after(2*time.Second)); more != 1 {
		t.Errorf("one has started, and %d were accepted", more)
	}
}

func TestAnAcceptedTaskThatIsNeverSeenIsForgotten(t *testing.T) {
	q := New(Limits{Queue: Share{MaxPending: 4}, Tenant: Share{MaxPending: 4}})
	if n, _ := offer(q, "a", 10, start); n != 4 {
		t.Fatalf("%d", n)
	}
	if n, _ := offer(q, "a", 10, after(assumeFor-1)); n != 0 {
		t.Errorf("%d too early", n)
	}
	if n, _ := offer(q, "a", 10, after(assumeFor)); n != 4 {
		t.Errorf("%d, want 4: nothing was seen of the first", n)
	}
}

func TestADryRunChargesNothing(t *testing.T) {
	q := New(Limits{Queue: Share{Rate: perSecond(1, 0), MaxPending: 5}, Tenant: Share{Rate: perSecond(1, 0)}})
	for i := range 10 {
		if v := q.Ask(Task{UID: fmt.Sprint("dry-", i), Tenant: "a"}, true, start); v.Reason != Admitted {
			t.Fatalf("dry run %d: %+v", i, v)
		}
	}
	if n, _ := offer(q, "a", 1, start); n != 1 {
		t.Fatal("the dry runs were charged")
	}
	for i := range 10 {
		if v := q.Ask(Task{UID: fmt.Sprint("dry-", i), Tenant: "a"}, true, start); v.Reason != RateLimit || v.RetryAfter != time.Second {
			t.Fatalf("a dry run is refused as the other, and takes no place: %+v", v)
		}
	}
}

func TestATaskIsChargedOnceHoweverOftenItIsAskedAbout(t *testing.T) {
	q := New(Limits{Queue: Share{Rate: perSecond(2, 0)}})
	for range 5 {
		if v := q.Ask(Task{UID: "same", Tenant: "a"}, false, start); v.Reason != Admitted {
			t.Fatalf("%+v", v)
		}
	}
	q.Created(Task{UID: "same", Tenant: "a"}, start)
	if n, _ := offer(q, "a", 5, start); n != 1 {
		t.Errorf("%d, want 1", n)
	}
}

func TestAClosedQueueTakesNothing(t *testing.T) {
	tests := map[string]struct {
		reopens time.Time
		after   time.Duration
	}{
		"for long":             {after(90 * time.Second), time.Minute},
		"for a little":         {after(9500 * time.Millisecond), 10 * time.Second},
		"though it is time":    {after(-time.Second), time.Second}, // whoever reopens it has not got to it
		"while somebody wants": {time.Time{}, time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			q := New(Limits{Closed: true, Reopens: test.reopens})
			if n, v := offer(q, "a", 3, start); n != 0 || v.Reason != Closed || v.RetryAfter != test.after {
				t.Errorf("%d, %+v", n, v)
			}
			q.Limit(Limits{})
			if n, _ := offer(q, "a", 3, start); n != 3 {
				t.Errorf("%d, want all", n)
			}
		})
	}
}

func TestThoseWhoAreRefusedAreGivenPlacesAtTheRate(t *testing.T) {
	q := New(Limits{Queue: Share{Rate: perSecond(2, 0)}})
	offer(q, "a", 2, start)
	perSecond := map[time.Duration]int{}
	const refused = 1200 // ten minutes' worth
	for range refused {
		_, v := offer(q, "a", 1, start)
		perSecond[v.RetryAfter]++
	}
	if len(perSecond) < 55 {
		t.Errorf("the refused come back in %d different seconds: %v", len(perSecond), perSecond)
	}
	for second, n := range perSecond {
		if second < time.Second || second > time.Minute || n > refused/60*2 {
			t.Errorf("%d come back after %s", n, second)
		}
	}
}

func TestADebtIsPaidFirstButNotForEver(t *testing.T) {
	q := New(Limits{Queue: Share{Rate: perSecond(10, 0)}})
	for i := range 15 { // by another replica: five more than there were tokens
		q.Created(Task{UID: fmt.Sprint("other-", i)}, start)
	}
	if n, v := offer(q, "a", 1, after(500*time.Millisecond)); n != 0 || v.RetryAfter != time.Second {
		t.Errorf("accepted %d in debt, %+v", n, v)
	}
	if n, _ := offer(q, "a", 10, after(700*time.Millisecond)); n != 2 {
		t.Errorf("%d, want 2", n)
	}
	for i := range 100_000 { // past the webhook
		q.Created(Task{UID: fmt.Sprint("past-", i)}, after(time.Second))
	}
	if n, _ := offer(q, "a", 1, after(time.Second+debtTime-time.Second)); n != 0 {
		t.Error("accepted in debt")
	}
	if n, _ := offer(q, "a", 1, after(2*time.Second+debtTime)); n != 1 {
		t.Error("the queue is still closed")
	}
}

func TestANewReplicaHasNoNewBurst(t *testing.T) {
	q := New(Limits{Queue: Share{Rate: perSecond(1, 10)}, Tenant: Share{Rate: perSecond(1, 5)}})
	past := []Past{{"a", after(-time.Hour)}, {"b", after(time.Minute)}} // long ago, and by a clock that is ahead
	for i := range 6 {
		past = append(past, Past{"a", after(-time.Duration(i) * time.Second / 2)})
	}
	q.Restore(past, start)
	// One more than the tokens that six tasks in 2.5 s, and one from the future, have left of ten.
	if n, _ := offer(q, "c", 100, start); n != 5 {
		t.Errorf("%d, want 5", n)
	}
}

func TestChangedLimitsHoldAtOnce(t *testing.T) {
	q := New(Limits{})
	if n, _ := offer(q, "a", 100, start); n != 100 {
		t.Fatalf("%d", n)
	}
	q.Limit(Limits{Queue: Share{Rate: perSecond(3, 0)}, Tenant: Share{Rate: perSecond(2, 0)}})
	if n, _ := offer(q, "a", 100, start); n != 2 {
		t.Errorf("%d, want 2", n)
	}
	q.Limit(Limits{Queue: Share{Rate: perSecond(3, 0), MaxPending: 102}, Tenant: Share{Rate: perSecond(2, 0)}})
	if n, v := offer(q, "b", 100, start); n != 0 || v.Reason != Pending {
		t.Errorf("%d, %+v", n, v)
	}
	q.Limit(Limits{MaxWait: time.Minute})
	if n, _ := offer(q, "b", 100, start); n != 100 {
		t.Errorf("%d, want 100", n)
	}
}

// What a producer makes up costs memory only once it was accepted, and not for good.
func TestMemoryDoesNotGrowWithWhatWasRefused(t *testing.T) {
	q := New(Limits{Queue: Share{Rate: perSecond(10, 0)}, Tenant: Share{Rate: perSecond(1, 0)}})
	for second := range 1000 {
		for i := range 100 {
			offer(q, fmt.Sprintf("tenant-%d-%d", second, i), 1, after(time.Duration(second)*time.Second))
		}
		// A task is assumed for 30 s, so 300 tenants are in use; they may double before the next sweep.
		if n := len(q.tenants); n > 1000 {
			t.Fatalf("%d tenants are remembered after %d s", n, second)
		}
		if n := len(q.accepted.tasks) + len(q.accepted.order); n > 700 {
			t.Fatalf("%d accepted tasks are remembered after %d s", n, second)
		}
	}
}
