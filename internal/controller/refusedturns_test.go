package controller

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// noEpoch is an EpochReader that has none. Meanwhile something else happens.
type noEpoch func()

func (meanwhile noEpoch) Read(context.Context, int64) (int64, error) {
	meanwhile()
	return 0, problemError("there is none")
}

// TestTasksThatAreRefusedTheirGrantDoNotMakeEachOtherWrite: two passes are under way at a time. While one of the tasks is at its turn, the
// next one asks for its own. Each write is an event, and asks for a pass.
func TestTasksThatAreRefusedTheirGrantDoNotMakeEachOtherWrite(t *testing.T) {
	tq := &v1alpha1.TaskQueue{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bulk"}, Spec: v1alpha1.TaskQueueSpec{Concurrency: 1}}
	due := []string{"a", "b", "c"}
	objects := []client.Object{tq}
	for _, name := range due {
		objects = append(objects, queuedTask(name, ""))
	}
	c := clientOfTasks(t, objects...)
	r, _ := passesWith(c)
	r.Turns.WakeWith(func(task types.NamespacedName) { due = append(due, task.Name) })

	version := func(name string) string {
		task := &v1alpha1.LeasedTask{}
		if err := c.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: name}, task); err != nil {
			t.Fatal(err)
		}
		return task.ResourceVersion
	}
	atWork, passes, writes := map[string]bool{}, 0, 0
	pass := func() {
		name := due[0]
		if due = due[1:]; atWork[name] {
			due = append(due, name)
			return
		}
		atWork[name] = true
		before := version(name)
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "default", Name: name}}); err != nil {
			t.Error(err)
		}
		delete(atWork, name)
		if passes++; version(name) != before {
			writes++
			due = append(due, name)
		}
	}
	r.Epoch = noEpoch(func() {
		if len(due) > 0 && len(atWork) < 2 {
			pass()
		}
	})
	for len(due) > 0 && passes < 1000 {
		pass()
	}
	if t.Logf("%d passes, %d writes", passes, writes); writes > 6 {
		t.Errorf("they are written for ever: %d writes in %d passes", writes, passes)
	}
}
