package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/leasehold-io/leasehold/worker"
	"github.com/leasehold-io/leasehold/worker/guard"
)

type order struct {
	To   string `json:"to"`
	Rows int64  `json:"rows"`
}

func ship(context.Context, order, guard.Token, string) error { return nil }

// A whole worker.
func ExampleRun() {
	worker.Run(worker.JSON(func(ctx context.Context, task *worker.Task, order order) (any, error) {
		if err := ship(ctx, order, task.FencingToken, task.IdempotencyKey); err != nil {
			return nil, err
		}
		return "shipped to " + order.To, nil
	}))
}

// A Work is a function: a test calls it with a task of its own.
func ExampleJSON() {
	work := worker.JSON(func(_ context.Context, task *worker.Task, order order) (any, error) {
		return fmt.Sprintf("shipped to %s as %s", order.To, task.IdempotencyKey), nil
	})
	result, err := work(context.Background(), &worker.Task{IdempotencyKey: "key-1", Payload: []byte(`{"to": "Ghent"}`)})
	fmt.Println(result, err)
	_, err = work(context.Background(), &worker.Task{Payload: []byte(`{"too": "Ghent"}`)})
	fmt.Println(err)
	// Output:
	// shipped to Ghent as key-1 <nil>
	// PayloadInvalid: the payload is not as wanted: json: unknown field "too"
}

// A worker that goes on where the attempt before left off, says how far it is, and stops when it is told to.
func ExampleTask_SaveCheckpoint() {
	work := worker.JSON(func(ctx context.Context, task *worker.Task, order order) (any, error) {
		row, _ := strconv.ParseInt(task.Checkpoint, 10, 64) // none: from the start
		for ; row < order.Rows; row++ {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			fmt.Println("row", row)
			if err := errors.Join(task.SaveCheckpoint(strconv.FormatInt(row+1, 10)), task.Progress(row+1, order.Rows, "rows")); err != nil {
				return nil, err
			}
		}
		return order, nil
	})
	result, err := work(context.Background(), &worker.Task{Checkpoint: "3", Payload: []byte(`{"rows": 5}`)})
	fmt.Printf("%+v %v\n", result, err)
	// Output:
	// row 3
	// row 4
	// {To: Rows:5} <nil>
}

// What follows a failure is for the worker to say, as far as spec.retry.rules do not.
func ExampleFailure() {
	full := &worker.Failure{Reason: "Quota", RetryAfter: new(10 * time.Minute), NoEffect: true, Err: errors.New("the account is used up")}
	wrong := &worker.Failure{Reason: "NoSuchPlace", Permanent: true, Err: errors.New("nobody knows Ghnt")}
	fmt.Println(full)
	fmt.Println(wrong)
	// Output:
	// Quota: the account is used up
	// NoSuchPlace: nobody knows Ghnt
}

// Why it is told to stop is the cause of the context.
func ExampleStopOf() {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(&worker.Stop{Reason: worker.ReasonCancelled, Message: "no longer needed", Grace: 30 * time.Second})
	<-ctx.Done()
	if stop := worker.StopOf(ctx); stop.Reason == worker.ReasonCancelled {
		fmt.Printf("%s, and %v to clean up\n", stop.Message, stop.Grace)
	}
	fmt.Println(context.Cause(ctx))
	// Output:
	// no longer needed, and 30s to clean up
	// told to stop: Cancelled: no longer needed
}

// One program is the worker and its probe. The probe's exit code is its answer.
func ExampleRunWithProbe() {
	look := func(_ string) (shipment string, err error) { return "", os.ErrNotExist }
	worker.RunWithProbe(worker.JSON(func(ctx context.Context, task *worker.Task, order order) (any, error) {
		return nil, ship(ctx, order, task.FencingToken, task.IdempotencyKey)
	}), func(_ context.Context, task *worker.Task) (any, error) {
		shipment, err := look(task.IdempotencyKey)
		if errors.Is(err, os.ErrNotExist) {
			return nil, worker.ErrNoEffect
		}
		return shipment, err
	})
}

// A worker by hand, without an agent: some variables and files are all that it needs.
func ExampleDo() {
	dir, err := os.MkdirTemp("", "worker")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	payload, result := filepath.Join(dir, "payload"), filepath.Join(dir, "result")
	if err := os.WriteFile(payload, []byte(`{"to": "Ghent"}`), 0o600); err != nil {
		panic(err)
	}
	for name, value := range map[string]string{"TASK": "ship", "NAMESPACE": "default", "ATTEMPT": "1", "FENCING_TOKEN": "17592186044417",
		"IDEMPOTENCY_KEY": "key-1", "PAYLOAD_FILE": payload, "RESULT_FILE": result,
		"CHECKPOINT_FILE": filepath.Join(dir, "checkpoint"), "CANCEL_FILE": filepath.Join(dir, "cancel")} {
		if err := os.Setenv("LEASEHOLD_"+name, value); err != nil {
			panic(err)
		}
	}
	code := worker.Do(context.Background(), worker.JSON(func(_ context.Context, _ *worker.Task, order order) (any, error) {
		return "shipped to " + order.To, nil
	}), nil)
	content, err := os.ReadFile(result)
	fmt.Printf("exit %d, %s, %v\n", code, content, err)
	// Output: exit 0, shipped to Ghent, <nil>
}
