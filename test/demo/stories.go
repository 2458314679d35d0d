package main

import (
	"context"
	"fmt"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// patience bounds waits that depend on a loaded machine, or on an image that is pulled for the first time.
const patience = 3 * time.Minute

// The names of the tasks.
const (
	hello  = "hello"
	killed = "killed"
	frozen = "frozen"
)

var stories = []struct {
	title string
	tell  func(context.Context, *stage) error
}{
	{"a task completes with its result", completes},
	{"a worker is killed, and another one takes over under a higher token", isKilled},
	{"a frozen worker wakes too late, and is refused", wakesLate},
}

func completes(ctx context.Context, s *stage) error {
	const script = `echo "I am attempt $LEASEHOLD_ATTEMPT, my token is $LEASEHOLD_FENCING_TOKEN"
printf '{"greeting": "hello, %s", "token": %s}' "$(cat "$LEASEHOLD_PAYLOAD_FILE")" "$LEASEHOLD_FENCING_TOKEN" > "$LEASEHOLD_RESULT_FILE"`
	task, err := s.create(ctx, hello, script, func(task *v1alpha1.LeasedTask) { task.Spec.Payload = new("world") })
	if err != nil {
		return err
	}
	s.tellf("The task %s is created. Its payload is \"world\"; its worker is busybox with a line of shell.", hello)
	if err := s.Until(ctx, task, patience, "granted", func(task *v1alpha1.LeasedTask) bool { return task.Status.FencingToken > 0 }); err != nil {
		return err
	}
	s.tellf("The operator grants attempt %d a Lease: Pod %s, token %d.", task.Status.Attempt, task.Status.Holder.PodName, task.Status.FencingToken)
	if err := s.Until(ctx, task, patience, "finished", cluster.IsFinished); err != nil {
		return err
	}
	want := fmt.Sprintf(`{"greeting": "hello, world", "token": %d}`, task.Status.FencingToken)
	if err := endedAs(task, 1, want); err != nil {
		return err
	}
	s.tellf("Its worker on %s wrote a result and exited 0; the agent submitted both with the token.", task.Status.History[0].NodeName)
	s.tellf("The task is %s. Its result: %s", task.Status.Phase, *task.Status.Result)
	return nil
}

const (
	// secondWins finishes in the second attempt; the first one waits to be hurt.
	secondWins = `echo "I am attempt $LEASEHOLD_ATTEMPT, my token is $LEASEHOLD_FENCING_TOKEN"
if [ "$LEASEHOLD_ATTEMPT" = 1 ]; then sleep 600; else sleep 3; fi
printf 'written by attempt %s' "$LEASEHOLD_ATTEMPT" > "$LEASEHOLD_RESULT_FILE"`
	secondWon = "written by attempt 2"
)

func isKilled(ctx context.Context, s *stage) error {
	task, err := s.createRunning(ctx, killed, secondWins)
	if err != nil {
		return err
	}
	first := task.Status.Holder
	release, err := s.keepOff(ctx, first.NodeName)
	if err != nil {
		return err
	}
	defer release()
	count, err := s.signal(ctx, task, "KILL")
	if err != nil {
		return err
	}
	s.tellf("SIGKILL from outside to all %d processes of the worker, its agent too. Nobody is left to report.", count)
	if err := s.takenOver(ctx, task, first); err != nil {
		return err
	}
	return s.completedBySecond(ctx, task)
}

func wakesLate(ctx context.Context, s *stage) error {
	task, err := s.createRunning(ctx, frozen, secondWins)
	if err != nil {
		return err
	}
	first := task.Status.Holder
	token := task.Status.FencingToken
	release, err := s.keepOff(ctx, first.NodeName)
	if err != nil {
		return err
	}
	defer release()
	old := task.DeepCopy()
	count, err := s.signal(ctx, old, "STOP")
	if err != nil {
		return err
	}
	s.tellf("SIGSTOP to all %d processes of the worker. It lives, but no longer renews its Lease of %d s.", count, task.Spec.Lease.DurationSeconds)
	if err := s.takenOver(ctx, task, first); err != nil {
		return err
	}
	if err := s.completedBySecond(ctx, task); err != nil {
		return err
	}
	if _, err := s.signal(ctx, old, "CONT"); err != nil {
		return err
	}
	s.tellf("SIGCONT: attempt 1 wakes on %s. Its agent submits how it ended, under token %d.", first.NodeName, token)
	return s.refused(ctx, task, token)
}

// refused checks that the first attempt came too late, and that it changed nothing.
func (s *stage) refused(ctx context.Context, task *v1alpha1.LeasedTask, token int64) error {
	err := s.Until(ctx, task, patience, "aware of the late submission", func(task *v1alpha1.LeasedTask) bool {
		return task.Status.History[0].LateSubmission.Outcome != ""
	})
	if err != nil {
		return err
	}
	late := task.Status.History[0].LateSubmission
	if late.FencingToken != token {
		return fmt.Errorf("the late submission names token %d, not the first attempt's %d", late.FencingToken, token)
	}
	if err := endedAs(task, 2, secondWon); err != nil {
		return err
	}
	s.tellf("Refused. In the history of attempt 1: lateSubmission, outcome %s, token %d.", late.Outcome, late.FencingToken)
	s.tellf("The task is still %s, and its result still %q.", task.Status.Phase, *task.Status.Result)
	return nil
}
