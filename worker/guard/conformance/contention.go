package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// checkLimit bounds the search for an order; a history that cannot be judged in time counts as wrong.
const checkLimit = 5 * time.Second

// at runs one function per worker, all at once, and returns what went wrong.
func (c *crew) at(once func(worker int, register Register) error) error {
	errs := make([]error, len(c.registers))
	var all sync.WaitGroup
	start := make(chan struct{})
	for i, register := range c.registers {
		all.Go(func() {
			<-start
			errs[i] = once(i, register)
		})
	}
	close(start)
	all.Wait()
	return errors.Join(errs...)
}

func testConcurrent(t *testing.T, c *crew) {
	const writes = 3
	c.delay(maxDelay)
	resource, ctx := freshResource(), within(t)
	tokens := rand.Perm(workers)
	last := func(token guard.Token) string { return fmt.Sprintf("%d-%d", token, writes-1) }
	stop, watched := make(chan struct{}), make(chan error, 1)
	watcher := c.store.Open(t, c.store.Address)
	go func() { watched <- watch(ctx, watcher, resource, c.store.SeparateMark, stop) }()
	err := c.at(func(worker int, register Register) error {
		token := guard.Token(tokens[worker] + 1)
		for i := range writes {
			time.Sleep(rand.N(maxDelay))
			err := register.Write(ctx, resource, token, fmt.Sprintf("%d-%d", token, i))
			if refusal, is := errors.AsType[*guard.StaleError](err); is && refusal.Mark > token && token < workers {
				continue
			}
			if err != nil {
				return fmt.Errorf("token %d: %w", token, err)
			}
		}
		return nil
	})
	close(stop)
	if err := errors.Join(err, <-watched); err != nil {
		t.Error(err)
	}
	if got, err := c.registers[0].Read(ctx, resource); err != nil || got != (State{last(workers), workers}) {
		t.Errorf("at the end the store holds %+v, %v; want the last write of token %d", got, err, workers)
	}
}

// watch reads until it is stopped. Neither the mark nor the token of the value may go back.
func watch(ctx context.Context, register Register, resource string, separateMark bool, stop <-chan struct{}) error {
	var before State
	var tokenBefore guard.Token
	for {
		now, err := register.Read(ctx, resource)
		if err != nil {
			return err
		}
		var token guard.Token
		if now.Value != "" {
			if _, err := fmt.Sscanf(now.Value, "%d-", &token); err != nil {
				return fmt.Errorf("value %q: %w", now.Value, err)
			}
		}
		if now.Mark < before.Mark || token < tokenBefore || !separateMark && token != now.Mark {
			return fmt.Errorf("a reader saw %+v and then %+v", before, now)
		}
		before, tokenBefore = now, token
		select {
		case <-stop:
			return nil
		case <-time.After(time.Millisecond):
		}
	}
}

func testEqualTokens(t *testing.T, c *crew) {
	c.delay(maxDelay)
	resource, ctx := freshResource(), within(t)
	err := c.at(func(worker int, register Register) error {
		return register.Write(ctx, resource, 7, fmt.Sprint(worker))
	})
	if err != nil {
		t.Error(err)
	}
	got, err := c.registers[0].Read(ctx, resource)
	if err != nil || got.Mark != 7 || got.Value == "" {
		t.Errorf("at the end the store holds %+v, %v", got, err)
	}
}

func testLinearizable(t *testing.T, c *crew) {
	const operations = 6
	c.delay(maxDelay)
	h := newHistory()
	resource, ctx := freshResource(), within(t)
	err := c.at(func(worker int, register Register) error {
		for i := range operations {
			time.Sleep(rand.N(maxDelay))
			asked := request{}
			if rand.N(4) > 0 {
				// Tokens rise with time and scatter, so that many pass and many are late. No two workers share one, or the
				// search may have to try all orders of their writes; testProperty has equal tokens.
				token := (1+i*4+rand.N(8))*workers + worker
				asked = request{write: true, token: guard.Token(token), value: fmt.Sprintf("%d-%d", worker, i)}
			}
			if err := h.do(ctx, worker, register, resource, asked); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.check(c.store.SeparateMark); err != nil {
		t.Error(err)
	}
	t.Log(h.summary())
}

// history is what all workers asked and were told, and when.
type history struct {
	now        func() int64
	mu         sync.Mutex
	operations []porcupine.Operation
}

func newHistory() *history {
	start := time.Now()                                                    //nolint:forbidigo // a history is made of real times
	return &history{now: func() int64 { return int64(time.Since(start)) }} //nolint:forbidigo // a history is made of real times
}

// do performs one operation and records it.
func (h *history) do(ctx context.Context, worker int, register Register, resource string, asked request) error {
	call := h.now()
	var told answer
	var err error
	if asked.write {
		told, err = answerOf(register.Write(ctx, resource, asked.token, asked.value))
	} else {
		told.state, err = register.Read(ctx, resource)
	}
	end := h.now()
	if err != nil {
		return err
	}
	if told.outcome == uncertain {
		end = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{ClientId: worker, Input: asked, Call: call, Output: told, Return: end})
	return nil
}

func (h *history) check(separateMark bool) error {
	switch porcupine.CheckOperationsTimeout(model(h.operations, separateMark), h.operations, checkLimit) {
	case porcupine.Ok:
		return nil
	case porcupine.Illegal:
		return fmt.Errorf("not linearizable: no order of the %d operations explains the answers", len(h.operations))
	default:
		return fmt.Errorf("no verdict on %d operations within %v", len(h.operations), checkLimit)
	}
}

func (h *history) summary() string {
	var reads, passed, refused int
	for _, o := range h.operations {
		switch asked, told := o.Input.(request), o.Output.(answer); {
		case !asked.write:
			reads++
		case told.outcome == stale:
			refused++
		default:
			passed++
		}
	}
	return fmt.Sprintf("%d workers: %d writes passed, %d were refused, %d reads", workers, passed, refused, reads)
}
