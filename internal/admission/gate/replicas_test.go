package gate

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// replicas are several gates in front of one queue. What one accepts the others see some time later.
type replicas struct {
	gates   []*Queue
	latency time.Duration
	news    []news // not seen yet, in order
	admits  []time.Time
}

type news struct {
	task Task
	at   time.Time
}

func (r *replicas) ask(by int, t Task, now time.Time) {
	for len(r.news) > 0 && !r.news[0].at.After(now) {
		for _, gate := range r.gates {
			gate.Created(r.news[0].task, r.news[0].at)
		}
		r.news = r.news[1:]
	}
	if r.gates[by].Ask(t, false, now).Reason == Admitted {
		r.admits = append(r.admits, now)
		r.news = append(r.news, news{task: t, at: now.Add(r.latency)})
	}
}

// most is how many tasks were admitted in the busiest stretch, beyond what the rate allows for its length.
func (r *replicas) most(perSecond float64) float64 {
	most, least := 0.0, math.Inf(1)
	for i, at := range r.admits {
		allowed := perSecond * at.Sub(start).Seconds()
		least = min(least, float64(i)-allowed)
		most = max(most, float64(i+1)-allowed-least)
	}
	return most
}

// The bound that the documentation states: the rate, one burst for each replica, and what the rate allows each in the time that news takes.
func TestReplicasTogetherStayWithinTheStatedBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 3).Draw(t, "replicas")
		perSec := rapid.IntRange(1, 40).Draw(t, "rate")
		burst := rapid.IntRange(1, 40).Draw(t, "burst")
		latency := time.Duration(rapid.IntRange(0, 2000).Draw(t, "latency in ms")) * time.Millisecond
		offered := rapid.IntRange(1, 10).Draw(t, "offered, times the rate")
		way := rapid.SampledFrom([]string{"in turn", "one only", "in spells"}).Draw(t, "way")
		r := &replicas{latency: latency}
		for range count {
			r.gates = append(r.gates, New(Limits{Queue: Share{Rate: perSecond(perSec, burst)}}))
		}
		step := time.Second / time.Duration(perSec*offered)
		const seconds = 10
		for i := range seconds * perSec * offered {
			by := map[string]int{"in turn": i % count, "one only": 0, "in spells": i / (3 * perSec) % count}[way]
			r.ask(by, Task{UID: fmt.Sprint(i)}, after(time.Duration(i)*step))
		}
		extra := float64(count) * (float64(burst) + float64(perSec)*latency.Seconds())
		if most := r.most(float64(perSec)); most > extra+1 {
			t.Fatalf("%d replicas admitted %.1f tasks above the rate, the bound is %.1f", count, most, extra)
		}
		// And not much less than the rate, if each is asked often enough: what is lost is what comes into a full bucket while another
		// replica is asked. (A bucket for one token is full as soon as there is something to lose.)
		least := 0.75*float64(perSec*seconds) - float64(count)*float64(perSec)*latency.Seconds() - 2
		if got := float64(len(r.admits)); offered >= 2*count && burst > 1 && got < least {
			t.Fatalf("%.0f admitted in %d s, want at least %.0f", got, seconds, least)
		}
		if !slices.IsSortedFunc(r.admits, time.Time.Compare) {
			t.Fatal("the test lost its order")
		}
	})
}
