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
	Rows *int64 `json:"rows"` // a pointer tells 0 from none
}

func main() { worker.Run(worker.JSON(work)) }

func work(ctx context.Context, task *worker.Task, order Order) (any, error) {
	if order.Rows == nil || *order.Rows < 0 { // what JSON alone does not see
		return nil, &worker.Failure{Reason: worker.ReasonPayloadInvalid, Permanent: true, NoEffect: true, Err: errors.New(`the payload is not {"rows": N}`)}
	}
	rows := *order.Rows
	begin, err := strconv.ParseInt(task.Checkpoint, 10, 64)
	if err != nil || begin < 0 { // none, or no number of a row: from the start
		begin = 0
	}
	for row := begin; row < rows; row++ {
		select {
		case <-time.After(500 * time.Millisecond): // the work on a row, which is in a store after this
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if err := errors.Join(task.SaveCheckpoint(strconv.FormatInt(row+1, 10)), task.Progress(row+1, rows, "rows")); err != nil {
			return nil, err
		}
	}
	return fmt.Sprintf(`{"rows": %d, "from": %d}`, rows, begin), nil
}
