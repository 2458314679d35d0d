// Command hello is the smallest worker in Go: docs/worker.md shows it.
package main

import (
	"context"
	"fmt"

	"github.com/leasehold-io/leasehold/worker"
	"github.com/leasehold-io/leasehold/worker/guard"
)

type order struct {
	To string `json:"to"` // the payload is {"to": "Ghent"}
}

func main() {
	worker.Run(worker.JSON(func(ctx context.Context, task *worker.Task, order order) (any, error) {
		if err := ship(ctx, order, task.FencingToken, task.IdempotencyKey); err != nil {
			return nil, err
		}
		return "shipped to " + order.To, nil
	}))
}

// ship is where the work goes. It passes token and key on to whatever it calls, and breaks off when ctx is cancelled.
func ship(ctx context.Context, order order, token guard.Token, key string) error {
	fmt.Printf("ship to %s, token %d, key %s\n", order.To, token, key)
	return ctx.Err()
}
