package storm

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/faults/order"
)

// hangLimit is how long a worker that was ordered to hang is left alone: nothing else would end it.
const hangLimit = 20 * time.Second

// feed keeps tasks in flight until the time is over and enough were started.
func (s *storm) feed(ctx context.Context, random *rand.Rand) error {
	for ctx.Err() == nil && !s.isOver() {
		if s.unfinished() >= s.InFlight {
			sleep(ctx, 500*time.Millisecond)
			continue
		}
		task, goOn, err := s.task(random)
		if err == nil {
			err = s.Submit(ctx, task, goOn)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("start a task: %w", err)
		}
		s.mu.Lock()
		s.started++
		s.mu.Unlock()
	}
	return nil
}

// isOver is true once the faults may stop.
func (s *storm) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.begin) >= s.Duration && s.started >= s.Tasks
}

// task draws a task. Most are decent; some exit badly once or twice, some never do better and are dead-lettered.
func (s *storm) task(random *rand.Rand) (task *v1alpha1.LeasedTask, goOn bool, err error) {
	o := order.Order{Seconds: 5 + 35*random.Float64(), Stubborn: random.IntN(8) == 0}
	retry := v1alpha1.RetrySpec{MaxAttempts: 30, MaxDisruptions: new(int32(60)), Backoff: v1alpha1.BackoffSpec{MaxSeconds: 3}}
	switch kind := random.IntN(100); {
	case kind < 12:
		o.Mode, o.Bad = order.Fail, 1+random.IntN(2)
	case kind < 20:
		o.Mode, o.Bad = order.Crash, 1+random.IntN(2)
	case kind < 26:
		o.Mode, o.Bad = order.Hang, 1
	case kind < 30:
		o.Mode, o.Bad = order.Fail, 1000
		retry.MaxAttempts = 2
	}
	goOn = random.IntN(7) == 0
	task, err = s.Task(fmt.Sprintf("t%03d", s.started+1), o)
	if err == nil {
		task.Spec.Retry = retry
	}
	return task, goOn, err
}

// running are the tasks whose status last said that a worker holds the term.
func (s *storm) running() (tasks []*v1alpha1.LeasedTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.started + 1 { // in a fixed order: a map would spoil the seed
		if task := s.tasks[fmt.Sprintf("t%03d", i)]; task != nil && task.Status.Phase == v1alpha1.PhaseRunning {
			tasks = append(tasks, task)
		}
	}
	return tasks
}

// endHung deletes the Pods of workers that were ordered to hang and have done so for long enough.
func (s *storm) endHung(ctx context.Context) {
	for _, task := range s.running() {
		var o order.Order
		if json.Unmarshal([]byte(*task.Spec.Payload), &o) != nil || o.Mode != order.Hang || int(task.Status.Attempt) > o.Bad {
			continue
		}
		holder := task.Status.Holder
		if s.hung[holder.PodName] || holder.ClaimTime == nil || time.Since(holder.ClaimTime.Time) < hangLimit {
			continue
		}
		if s.deletePod(ctx, holder.PodName) == nil {
			s.hung[holder.PodName] = true
		}
	}
}

func (s *storm) deletePod(ctx context.Context, name string, options ...client.DeleteOption) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return s.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: name}}, options...)
}
