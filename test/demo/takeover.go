package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// keptOff is the annotation of nodes that the demo has cordoned.
const keptOff = "leasehold.io/demo-cordoned"

// keepOff cordons the node, so that the next attempt goes to another one. In somebody else's cluster it does nothing.
func (s *stage) keepOff(ctx context.Context, node string) (release func(), err error) {
	if s.Kind == cluster.Current {
		return func() {}, nil
	}
	if err := s.setCordoned(ctx, node, true); err != nil {
		return nil, err
	}
	s.tellf("%s is cordoned, so that the next attempt goes elsewhere.", node)
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // also after an interrupt
		defer cancel()
		if err := s.setCordoned(ctx, node, false); err != nil {
			s.sayf("Node %s is still cordoned, please kubectl uncordon it: %v", node, err)
		}
	}, nil
}

func (s *stage) setCordoned(ctx context.Context, name string, cordoned bool) error {
	node := &corev1.Node{}
	if err := s.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return err
	}
	before := node.DeepCopy()
	node.Spec.Unschedulable = cordoned
	delete(node.Annotations, keptOff)
	if cordoned {
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[keptOff] = "true"
	}
	return s.Patch(ctx, node, client.MergeFrom(before))
}

// releaseAll uncordons what a demo that was killed has left cordoned.
func (s *stage) releaseAll(ctx context.Context) error {
	nodes := &corev1.NodeList{}
	if err := s.List(ctx, nodes); err != nil {
		return err
	}
	for _, node := range nodes.Items {
		if _, isOurs := node.Annotations[keptOff]; !isOurs {
			continue
		}
		if err := s.setCordoned(ctx, node.Name, false); err != nil {
			return err
		}
	}
	return nil
}

// takenOver waits for the end of the first attempt and for the second one, and checks its token and node.
func (s *stage) takenOver(ctx context.Context, task *v1alpha1.LeasedTask, first v1alpha1.Holder) error {
	err := s.Until(ctx, task, patience, "rid of the first attempt", func(task *v1alpha1.LeasedTask) bool { return len(task.Status.History) > 0 })
	if err != nil {
		return err
	}
	end := task.Status.History[0]
	s.tellf("The operator records the end of attempt 1: %s, reason %s,", end.Outcome, end.Reason)
	s.sayf("        %q.", end.Message)
	err = s.Until(ctx, task, patience, "in its second attempt", func(task *v1alpha1.LeasedTask) bool {
		return task.Status.Attempt > 1 && task.Status.Holder.NodeName != ""
	})
	if err != nil {
		return err
	}
	second := task.Status.Holder
	if task.Status.FencingToken <= end.FencingToken {
		return fmt.Errorf("token %d is not higher than the first attempt's %d: %s", task.Status.FencingToken, end.FencingToken, cluster.Describe(task))
	}
	if s.Kind != cluster.Current && second.NodeName == first.NodeName {
		return fmt.Errorf("the second attempt runs on %s again: %s", second.NodeName, cluster.Describe(task))
	}
	s.tellf("Attempt 2 runs on %s: Pod %s, token %d, which is higher.", second.NodeName, second.PodName, task.Status.FencingToken)
	return nil
}

func (s *stage) completedBySecond(ctx context.Context, task *v1alpha1.LeasedTask) error {
	if err := s.Until(ctx, task, patience, "finished", cluster.IsFinished); err != nil {
		return err
	}
	if err := endedAs(task, 2, secondWon); err != nil {
		return err
	}
	s.tellf("The task is %s. Its result: %q", task.Status.Phase, *task.Status.Result)
	return nil
}

// endedAs checks that the task completed in the given attempt with the given result.
func endedAs(task *v1alpha1.LeasedTask, attempt int32, result string) error {
	st := task.Status
	switch {
	case st.Phase != v1alpha1.PhaseCompleted || st.Attempt != attempt || len(st.History) != int(attempt):
		return fmt.Errorf("task %s should be Completed in attempt %d, but: %s", task.Name, attempt, cluster.Describe(task))
	case st.Result == nil:
		return fmt.Errorf("task %s has no result: %s", task.Name, cluster.Describe(task))
	case *st.Result != result:
		return fmt.Errorf("task %s has the result %q, not %q", task.Name, *st.Result, result)
	}
	return nil
}
