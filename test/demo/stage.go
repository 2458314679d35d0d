package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
)

const (
	// namespace is where the tasks are.
	namespace = "demo"
	// mark is a label of all that the demo makes, so that the next run finds it, and nothing else.
	mark          = "app.kubernetes.io/part-of"
	marked        = "leasehold-demo"
	podsOfTheDemo = mark + "=" + marked
)

// stage is where the stories take place.
type stage struct {
	*cluster.Cluster
	*narrator
	backstage string // the namespace of the Pods that send signals
}

// open makes the namespaces, and removes what an earlier run has left.
func open(ctx context.Context, c *cluster.Cluster, n *narrator) (*stage, error) {
	s := &stage{Cluster: c, narrator: n}
	if err := s.strike(ctx); err != nil {
		return nil, fmt.Errorf("clear away an earlier demo: %w", err)
	}
	front := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if err := s.makeNamespace(ctx, front); err != nil {
		return nil, err
	}
	back := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: namespace + "-signals-",
		Labels:       map[string]string{mark: marked, "pod-security.kubernetes.io/enforce": "privileged"},
	}}
	if err := s.makeNamespace(ctx, back); err != nil {
		return nil, err
	}
	s.backstage = back.Name
	return s, nil
}

// strike removes an earlier demo's tasks, and what it should have removed itself.
func (s *stage) strike(ctx context.Context) error {
	namespaces := &corev1.NamespaceList{}
	if err := s.List(ctx, namespaces, client.MatchingLabels{mark: marked}); err != nil {
		return err
	}
	for i := range namespaces.Items {
		if err := s.Delete(ctx, &namespaces.Items[i]); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	if err := s.releaseAll(ctx); err != nil {
		return err
	}
	inDemo := []client.DeleteAllOfOption{client.InNamespace(namespace), client.MatchingLabels{mark: marked}}
	if err := s.DeleteAllOf(ctx, &v1alpha1.LeasedTask{}, inDemo...); err != nil {
		return err
	}
	return s.Poll(ctx, patience, func() error {
		left := &v1alpha1.LeasedTaskList{}
		if err := s.List(ctx, left, client.InNamespace(namespace), client.MatchingLabels{mark: marked}); err != nil {
			return err
		}
		if len(left.Items) > 0 {
			return fmt.Errorf("task %s is still there", left.Items[0].Name)
		}
		return nil
	})
}

// makeNamespace returns once Pods can be made in it: the admission plugin wants its service account to exist.
func (s *stage) makeNamespace(ctx context.Context, ns *corev1.Namespace) error {
	return s.Poll(ctx, patience, func() error {
		if ns.Name == "" || s.Get(ctx, types.NamespacedName{Name: ns.Name}, &corev1.Namespace{}) != nil {
			if err := s.Create(ctx, ns); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		return s.Get(ctx, types.NamespacedName{Namespace: ns.Name, Name: "default"}, &corev1.ServiceAccount{})
	})
}

// close leaves the tasks, and nothing else. It works after an interrupt too.
func (s *stage) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.backstage}}); err != nil {
		s.sayf("The namespace %s could not be deleted, please do: %v", s.backstage, err)
	}
}

func (s *stage) create(ctx context.Context, name, script string, change ...func(*v1alpha1.LeasedTask)) (*v1alpha1.LeasedTask, error) {
	task := cluster.Task(namespace, name, script)
	task.Labels = map[string]string{mark: marked}
	task.Spec.Template.Labels = map[string]string{mark: marked}
	for _, c := range change {
		c(task)
	}
	return task, s.Create(ctx, task)
}

// createRunning returns when the first attempt runs.
func (s *stage) createRunning(ctx context.Context, name, script string) (*v1alpha1.LeasedTask, error) {
	task, err := s.create(ctx, name, script)
	if err != nil {
		return nil, err
	}
	s.tellf("The task %s is created.", name)
	if err := s.Until(ctx, task, patience, "running", cluster.IsRunning(1)); err != nil {
		return nil, err
	}
	if task.Status.Attempt != 1 {
		return nil, fmt.Errorf("the first attempt ended too early: %s", cluster.Describe(task))
	}
	s.tellf("Attempt 1 runs on %s: Pod %s, token %d.", task.Status.Holder.NodeName, task.Status.Holder.PodName, task.Status.FencingToken)
	return task, nil
}

// dump writes what a person would look at to the log.
func (s *stage) dump() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, list := range []client.ObjectList{&v1alpha1.LeasedTaskList{}, &corev1.PodList{}, &corev1.EventList{}} {
		if err := s.List(ctx, list, client.InNamespace(namespace)); err != nil {
			continue
		}
		if text, err := json.MarshalIndent(list, "", " "); err == nil {
			_, _ = fmt.Fprintf(s.log, "%T in %s:\n%s\n", list, namespace, text)
		}
	}
}
