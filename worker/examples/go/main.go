// Command go is a worker in Go: it goes through rows, says how far it is, goes on where the attempt before left off, and stops when it is
// told to. The same in other languages stands beside it; docs/worker.md says how to run them.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/leasehold-io/leasehold/worker"
)

// Order is the payload: {"rows": 20}.
type Order struct {
	Rows int64 `json:"rows"`
}

func main() { worker.Run(worker.JSON(work)) }

func work(ctx context.Context, task *worker.Task, order Order) (any, error) {
	begin, _ := strconv.ParseInt(task.Checkpoint, 10, 64) // none: from the start
	for row := begin; row < order.Rows; row++ {
		select {
		case <-time.After(500 * time.Millisecond): // the work on a row, which is in a store after this
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err := errors.Join(task.SaveCheckpoint(strconv.FormatInt(row+1, 10)), task.Progress(row+1, order.Rows, "rows")); err != nil {
			return nil, err
		}
	}
	return fmt.Sprintf(`{"rows": %d, "from": %d}`, order.Rows, begin), nil
}
