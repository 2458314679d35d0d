package replay

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// TestCase29OneNumberIsOneName: the same number of the same dead letter has one name, everything else another.
func TestCase29OneNumberIsOneName(t *testing.T) {
	name := func(uid types.UID, request int64, task string) string {
		made, err := Task(given(asks(request), func(s *Snapshot) { s.DeadLetter.UID, s.DeadLetter.Spec.Task.Name = uid, task }).DeadLetter)
		if err != nil {
			t.Fatal(err)
		}
		return made.Name
	}
	long := strings.Repeat("a", 253)
	first := name("dead-1", 1, "order")
	if again := name("dead-1", 1, "order"); again != first {
		t.Errorf("one request has two names, %s and %s", first, again)
	}
	seen := map[string]bool{}
	for _, other := range []string{first, name("dead-1", 2, "order"), name("dead-2", 1, "order"), name("dead-1", 1, long), name("dead-2", 1, long),
		name("dead-1", 1<<62, long), name("dead-1", 11, "order"), name("dead-1", 1, "order-r1")} {
		if seen[other] || len(other) > 63 {
			t.Errorf("name %s, %d characters, among %v", other, len(other), seen)
		}
		seen[other] = true
	}
}

func TestAReplayIsTheTaskAsItWas(t *testing.T) {
	task, err := Task(given(asks(3)).DeadLetter)
	if err != nil {
		t.Fatal(err)
	}
	of := v1alpha1.ReplayOf{DeadLetterName: "order-0123456789", DeadLetterUID: "dead-1", Request: 3, IdempotencyKey: "uid-1"}
	if task.Spec.ReplayOf != of || *task.Spec.Payload != payload || task.Spec.Retry.MaxAttempts != 2 || len(task.OwnerReferences) > 0 || task.Namespace != "default" {
		t.Errorf("task %+v", task)
	}
	if !IsReplay(task, given(asks(3)).DeadLetter) || IsReplay(task, given(asks(4)).DeadLetter) ||
		IsReplay(task, given(asks(3), func(s *Snapshot) { s.DeadLetter.UID = "dead-2" }).DeadLetter) || IsReplay(&v1alpha1.LeasedTask{}, given(asks(3)).DeadLetter) {
		t.Error("the replay is taken for another's, or another for it")
	}
}

func TestARepairChangesWhatItNamesAndNothingElse(t *testing.T) {
	task, err := Task(given(asks(1, withPayload(""), withPatch("spec:\n  containers:\n  - {name: main, image: example.com/app:2}\n  nodeSelector: {disk: ssd}\n"))).DeadLetter)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Task(given(asks(1)).DeadLetter)
	if err != nil {
		t.Fatal(err)
	}
	want.Spec.Payload = new("")
	want.Spec.Template.Spec.Containers[0].Image = "example.com/app:2"
	want.Spec.Template.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	if diff := cmp.Diff(want, task); diff != "" {
		t.Errorf("repaired (-want +got):\n%s", diff)
	}
}

func TestAPatchMayDeleteAContainerAndAnEntry(t *testing.T) {
	task, err := Task(given(asks(1, withPatch(`{"spec": {"containers": [{"name": "proxy", "$patch": "delete"}, {"name": "main", "env": [{"name": "A", "$patch": "delete"}]}]}}`))).DeadLetter)
	if err != nil {
		t.Fatal(err)
	}
	if got := task.Spec.Template.Spec.Containers; len(got) != 1 || len(got[0].Env) != 0 || got[0].Image != "example.com/app:1" {
		t.Errorf("containers %+v", got)
	}
}

func TestARepairThatMakesNoTaskSaysWhy(t *testing.T) {
	tests := map[string]struct {
		edit func(*Snapshot)
		want string
	}{
		"no mapping":          {asks(1, withPatch("[1]")), "templatePatch"},
		"no YAML":             {asks(1, withPatch("spec: {")), "templatePatch"},
		"a field with a typo": {asks(1, withPatch("spec: {nodeSelektor: {a: b}}")), "nodeSelektor"},
		"a wrong type":        {asks(1, withPatch("spec: {containers: [{name: main, image: 7}]}")), "templatePatch"},
		"a spec from a newer version": {func(s *Snapshot) {
			asks(1)(s)
			s.DeadLetter.Spec.Task.Spec.Raw = []byte(`{"template": {}, "fromTheFuture": 1}`)
		}, "fromTheFuture"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			task, err := Task(given(test.edit).DeadLetter)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("task %+v, error %v, want one about %q", task, err, test.want)
			}
		})
	}
	t.Run("a patch of nothing", func(t *testing.T) {
		dead := given(asks(1, withPatch("spec: {priority: 7}"))).DeadLetter
		dead.Spec.Task.Spec.Raw = []byte(`{}`)
		task, err := Task(dead) // the API server refuses it, for want of containers
		if err != nil || *task.Spec.Template.Spec.Priority != 7 {
			t.Errorf("task %+v, %v", task, err)
		}
	})
}

// TestAPayloadTakesThePlaceOfAReference: a replay without one keeps the reference.
func TestAPayloadTakesThePlaceOfAReference(t *testing.T) {
	from := v1alpha1.PayloadSource{SecretKeyRef: v1alpha1.PayloadKeyReference{Name: "orders", Key: "order"}}
	referring := func(s *Snapshot) {
		spec := v1alpha1.LeasedTaskSpec{}
		if err := json.Unmarshal(s.DeadLetter.Spec.Task.Spec.Raw, &spec); err != nil {
			t.Fatal(err)
		}
		spec.Payload, spec.PayloadFrom = nil, from
		raw, err := json.Marshal(&spec)
		if err != nil {
			t.Fatal(err)
		}
		s.DeadLetter.Spec.Task.Spec.Raw = raw
	}
	kept, err := Task(given(referring, asks(1)).DeadLetter)
	if err != nil || kept.Spec.PayloadFrom != from || kept.Spec.Payload != nil {
		t.Errorf("kept: %+v, %v", kept, err)
	}
	replaced, err := Task(given(referring, asks(2, withPayload("mended"))).DeadLetter)
	if err != nil || replaced.Spec.HasPayloadSource() || replaced.Spec.Payload == nil || *replaced.Spec.Payload != "mended" {
		t.Errorf("replaced: %+v, %v", replaced, err)
	}
}
