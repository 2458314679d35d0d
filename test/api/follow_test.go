package api

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// follow tells see of every version of the namespace's objects that is written from now on, in the API server's order, until it is
// stopped or the test ends. A watch that breaks before fails the test: what is not seen cannot be judged.
func follow[T client.Object](t testing.TB, namespace string, list client.ObjectList, see func(watch.EventType, T)) (stop func()) {
	t.Helper()
	under, err := client.NewWithWatch(config, client.Options{Scheme: admin.Scheme(), Mapper: admin.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.List(t.Context(), list, client.InNamespace(namespace), client.Limit(1)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context())) // which is over before the test's clean-up begins
	versions, err := under.Watch(ctx, list, client.InNamespace(namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	var stopped atomic.Bool
	var followed sync.WaitGroup
	followed.Go(func() {
		for event := range versions.ResultChan() {
			object, isObject := event.Object.(T)
			switch {
			case isObject:
				see(event.Type, object)
			case !stopped.Load(): // stopping may close the answer in the middle of an event
				t.Errorf("the watch of %s broke: %+v", namespace, event.Object)
				return
			}
		}
		if !stopped.Load() {
			t.Errorf("the watch of %s ended", namespace)
		}
	})
	stop = func() {
		stopped.Store(true)
		cancel()
		versions.Stop()
		followed.Wait()
	}
	t.Cleanup(stop)
	return stop
}
