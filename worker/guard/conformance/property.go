package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// move is one step of a worker's program.
type move struct {
	Pause time.Duration
	Token guard.Token // 0 for a read
}

func (m move) String() string { return fmt.Sprintf("pause %v, token %d", m.Pause, m.Token) }

func testProperty(t *testing.T, c *crew) {
	pause := rapid.Custom(func(rt *rapid.T) time.Duration {
		return time.Duration(rapid.IntRange(0, int(maxDelay/time.Microsecond)).Draw(rt, "microseconds")) * time.Microsecond
	})
	program := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) move {
		return move{Pause: pause.Draw(rt, "pause"), Token: guard.Token(rapid.IntRange(0, 5).Draw(rt, "token"))}
	}), 1, 4)
	programs := rapid.SliceOfN(program, 2, 8)
	rapid.Check(t, func(rt *rapid.T) {
		c.delay(pause.Draw(rt, "on the line"))
		h, err := c.play(t.Context(), programs.Draw(rt, "programs"))
		if err == nil {
			err = h.check(c.store.SeparateMark)
		}
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// play runs the programs at the same time, each by a worker of its own, and a last read once all have ended.
func (c *crew) play(ctx context.Context, programs [][]move) (*history, error) {
	ctx, cancel := context.WithTimeout(ctx, operationLimit)
	defer cancel()
	h, resource := newHistory(), freshResource()
	errs := make([]error, len(programs))
	var all sync.WaitGroup
	for worker, program := range programs {
		all.Go(func() {
			for i, m := range program {
				time.Sleep(m.Pause)
				asked := request{write: m.Token > 0, token: m.Token, value: fmt.Sprintf("%d-%d", worker, i)}
				errs[worker] = errors.Join(errs[worker], h.do(ctx, worker, c.registers[worker], resource, asked))
			}
		})
	}
	all.Wait()
	errs = append(errs, h.do(ctx, len(programs), c.registers[0], resource, request{}))
	return h, errors.Join(errs...)
}
