package storm

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// pauses between the beginnings of two faults.
	shortestPause, longestPause = 2 * time.Second, 9 * time.Second
	// undoTimeout bounds one try to put something back.
	undoTimeout = time.Minute
)

// hurt begins faults until the time is over, the context ends or something has failed, and returns when all are undone.
func (s *storm) hurt(ctx context.Context, random *rand.Rand, failed chan error) {
	var lasting sync.WaitGroup
	defer lasting.Wait()
	stop := make(chan struct{})
	defer close(stop)
	for ctx.Err() == nil && !s.isOver() && len(failed) == 0 {
		pause := between(random, shortestPause, longestPause)
		f := draw(random)
		lasts := between(random, f.shortest, f.longest)
		sleep(ctx, pause)
		t := f.pick(s, random)
		if t.place == "" || !s.take(t.place) {
			continue
		}
		lasting.Go(func() {
			defer s.release(t.place)
			s.inflict(ctx, stop, f, t, lasts)
		})
	}
}

func draw(random *rand.Rand) fault {
	sum := 0
	for _, f := range catalogue {
		sum += f.weight
	}
	at := random.IntN(sum)
	for _, f := range catalogue {
		if at -= f.weight; at < 0 {
			return f
		}
	}
	panic("unreachable: at is below the sum of the weights")
}

func between(random *rand.Rand, shortest, longest time.Duration) time.Duration {
	if longest <= shortest {
		return shortest
	}
	return shortest + time.Duration(random.Int64N(int64(longest-shortest)))
}

// inflict begins a fault, waits, and puts things back, also after a beginning that failed half-way.
func (s *storm) inflict(ctx context.Context, stop <-chan struct{}, f fault, t target, lasts time.Duration) {
	err := f.begin(s, ctx, t)
	s.count(f.kind, err == nil)
	if err != nil {
		s.sayf("%s: %s was missed: %v", f.kind, t, err)
	} else {
		s.sayf("%s: %s%s", f.kind, t, lasting(lasts))
	}
	if f.end == nil {
		return
	}
	if err == nil {
		select {
		case <-ctx.Done():
		case <-stop:
		case <-time.After(lasts):
		}
	}
	_ = s.Poll(context.WithoutCancel(ctx), 3*undoTimeout, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
		defer cancel()
		return f.end(s, ctx, t)
	})
}

func lasting(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return " for " + d.Round(100*time.Millisecond).String()
}

func (s *storm) take(place string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[place] {
		return false
	}
	s.busy[place] = true
	return true
}

func (s *storm) release(place string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, place)
}

func (s *storm) count(kind string, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tally[kind] == nil {
		s.tally[kind] = &Tally{}
	}
	if done {
		s.tally[kind].Done++
	} else {
		s.tally[kind].Missed++
	}
}
