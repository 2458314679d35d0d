package main

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/leasehold-io/leasehold/test/bench/figure"
	"github.com/leasehold-io/leasehold/test/bench/outage"
)

// picture draws a record: time zero is when the outage began.
type picture struct{ *outage.Record }

func draw(r *outage.Record, dir string) error {
	p := picture{r}
	at := func(name string) string { return filepath.Join(dir, "outage-"+name+".svg") }
	const x = "seconds since all tasks failed"
	return errors.Join(
		figure.Lines(at("retries"), "The next attempt of each task", x, "tasks", p.retries()...),
		figure.Lines(at("starts"), "Attempts that started in each second", x, "Pods made", p.starts()...),
		figure.Lines(at("under-way"), "Attempts under way", x, "attempts", p.underWay()),
		figure.Lines(at("answers"), fmt.Sprintf("Answers of a gateway that is down for %s", r.Length), x, "calls in a second", p.answers()...),
		figure.Lines(at("breaker"), "The queue's breaker", x, "0 closed, 1 half-open, 2 open", p.breaker()),
	)
}

func (p picture) x(at time.Time) float64 { return at.Sub(p.Begin).Seconds() }

// retries are the tasks that have started again, beside those that may by their pause, and by the bound of full jitter.
func (p picture) retries() []figure.Series {
	var pods, pauses []time.Time
	for _, s := range p.Retries() {
		pods = append(pods, s.At)
	}
	for _, pause := range p.FirstPauses() {
		pauses = append(pauses, pause.Next)
	}
	all := float64(p.Tasks)
	return []figure.Series{
		p.sum("Pods made", pods), p.sum("nextAttemptTime", pauses),
		{Name: "full jitter", Points: []figure.Point{{X: 0, Y: 0}, {X: p.Bound.Seconds(), Y: all}}},
	}
}

func (p picture) sum(name string, times []time.Time) figure.Series {
	slices.SortFunc(times, time.Time.Compare)
	s := figure.Series{Name: name, Points: []figure.Point{{}}}
	for i, at := range times {
		s.Points = append(s.Points, figure.Point{X: p.x(at), Y: float64(i + 1)})
	}
	return s
}

func (p picture) starts() []figure.Series {
	var times []time.Time
	for _, s := range p.Starts {
		if s.At.After(p.Begin) {
			times = append(times, s.At)
		}
	}
	level := func(name string, y float64) figure.Series {
		return figure.Series{Name: name, Points: []figure.Point{{X: 0, Y: y}, {X: p.Bound.Seconds(), Y: y}}}
	}
	return []figure.Series{
		p.perSecond("all attempts", times), level("mean of full jitter", float64(p.Tasks)/p.Bound.Seconds()),
		level("a few times that", float64(p.MostInASecond())),
	}
}

func (p picture) answers() []figure.Series {
	var refused, taken []time.Time
	for _, c := range p.Calls {
		switch at := p.later(c.At); c.Code {
		case http.StatusOK:
			taken = append(taken, at)
		default:
			refused = append(refused, at)
		}
	}
	return []figure.Series{p.perSecond("503", refused), p.perSecond("200", taken)}
}

// later is when a call was answered: those that came before the outage waited for it.
func (p picture) later(at time.Time) time.Time {
	if at.Before(p.Begin) {
		return p.Begin
	}
	return at
}

func (p picture) perSecond(name string, times []time.Time) figure.Series {
	counts := make([]int, int(p.end())+1)
	for _, at := range times {
		if second := int(p.x(at)); second < len(counts) {
			counts[second]++
		}
	}
	s := figure.Series{Name: name}
	for second, n := range counts {
		s.Points = append(s.Points, figure.Point{X: float64(second), Y: float64(n)})
	}
	return s
}

func (p picture) underWay() figure.Series {
	s := figure.Series{Name: "attempts"}
	for _, l := range p.Levels {
		s.Points = append(s.Points, steps(s.Points, p.x(l.At), float64(l.UnderWay))...)
	}
	return s
}

func (p picture) breaker() figure.Series {
	height := map[string]float64{"HalfOpen": 1, "Open": 2}
	s := figure.Series{Name: "breaker", Points: []figure.Point{{}}}
	for _, c := range p.Changes {
		if x := p.x(c.At); x > 0 {
			s.Points = append(s.Points, steps(s.Points, x, height[c.State])...)
		}
	}
	s.Points = append(s.Points, steps(s.Points, p.end(), s.Points[len(s.Points)-1].Y)...)
	return s
}

// steps go from the last of the points to another level.
func steps(points []figure.Point, x, y float64) []figure.Point {
	if len(points) == 0 {
		return []figure.Point{{X: x, Y: y}}
	}
	return []figure.Point{{X: x, Y: points[len(points)-1].Y}, {X: x, Y: y}}
}

// end is when the last call was answered.
func (p picture) end() (last float64) {
	for _, c := range p.Calls {
		last = max(last, p.x(c.At))
	}
	return last
}
