// Package worker is the client of Leasehold's agent, for workers that are written in Go. Nobody needs it: a worker reads a file,
// writes a file and exits. This is a worker that does it all, and does it right:
//
//	type Order struct{ To string }
//
//	func main() {
//		worker.Run(worker.JSON(func(ctx context.Context, task *worker.Task, order Order) (any, error) {
//			if err := ship(ctx, order, task.FencingToken, task.IdempotencyKey); err != nil {
//				return nil, err
//			}
//			return "shipped to " + order.To, nil
//		}))
//	}
//
// What it does for that function:
//
//   - A payload that does not decode ends the task with a permanent failure, before the function is called.
//   - ctx is cancelled as soon as the worker is told to stop, with a [*Stop] as its cause. The function then has the grace to end.
//   - What it returns becomes the result; an error becomes a failure with its message, and a [*Failure] says what may follow.
//   - The exit code is what the agent expects of all that.
//
// For everything on the way there are the methods of [Task]: Progress, SaveCheckpoint, Heartbeat, Working. A probe
// (onLostAttempt: Reconcile) lives in the same program: [RunWithProbe].
//
// Without the agent's socket, the files and the environment do: the payload, the checkpoint, the result, SIGTERM with the cancel file.
// What then is missing is progress, heartbeats, and all of a failure but its message and exit code.
//
// A worker can be run again after it did its work. Pass FencingToken to every store that can compare it, and IdempotencyKey to every
// API that takes one; the packages below this one help: [github.com/leasehold-io/leasehold/worker/guard] and
// [github.com/leasehold-io/leasehold/worker/idempotency/postgres].
//
// The package needs nothing but the standard library, and [github.com/leasehold-io/leasehold/worker/guard], which needs no more.
package worker
