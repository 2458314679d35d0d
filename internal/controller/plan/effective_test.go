package plan

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// image is a template that is told by it.
func image(name string) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: name, Command: []string{"/app"}}}}}
}

func TestTheTasksOwnFieldsCountAndTheRestComesFromItsQueue(t *testing.T) {
	type spec = v1alpha1.LeasedTaskSpec
	type queue = v1alpha1.TaskQueueSpec
	type defaults = v1alpha1.TaskDefaults
	probe := v1alpha1.ReconcileSpec{Template: image("probe")}
	aRule := []v1alpha1.RetryRule{{Action: v1alpha1.RetryActionRetry, OnReasons: []string{"A"}}}
	tests := map[string]struct {
		own  spec
		of   queue
		want spec
	}{
		"five lines": {
			own: spec{QueueName: "mail", Payload: new("{}")},
			of:  queue{Concurrency: 5, Template: image("mail"), WorkerContainer: "main", Defaults: defaults{Lease: v1alpha1.LeaseSpec{DurationSeconds: 20}, StopGraceSeconds: 7}},
			want: spec{QueueName: "mail", Payload: new("{}"), Template: image("mail"), WorkerContainer: "main", Lease: v1alpha1.LeaseSpec{DurationSeconds: 20},
				StopGraceSeconds: 7},
		},
		"a template comes with its worker container": {
			own:  spec{Template: image("own")},
			of:   queue{Template: image("mail"), WorkerContainer: "main"},
			want: spec{Template: image("own")},
		},
		"a worker container may be chosen from the queue's template": {
			own:  spec{WorkerContainer: "other"},
			of:   queue{Template: image("mail"), WorkerContainer: "main"},
			want: spec{Template: image("mail"), WorkerContainer: "other"},
		},
		"zeros of the task count": {
			own: spec{Suspend: new(false), Priority: new(int32(0)), Retry: v1alpha1.RetrySpec{MaxDisruptions: new(int32(0))},
				TTLSecondsAfterFinished: new(int32(0)), TTL: v1alpha1.TTLSpec{CancelledSeconds: new(int32(0))}},
			of: queue{Defaults: defaults{Retry: v1alpha1.RetrySpec{MaxAttempts: 2, MaxDisruptions: new(int32(3))}, TTLSecondsAfterFinished: new(int32(4)),
				TTL: v1alpha1.TTLSpec{CancelledSeconds: new(int32(5)), CompletedSeconds: new(int32(6))}}},
			want: spec{Suspend: new(false), Priority: new(int32(0)), Retry: v1alpha1.RetrySpec{MaxAttempts: 2, MaxDisruptions: new(int32(0))},
				TTLSecondsAfterFinished: new(int32(0)), TTL: v1alpha1.TTLSpec{CancelledSeconds: new(int32(0))}},
		},
		"a time to live for one outcome leaves the others": {
			own: spec{TTL: v1alpha1.TTLSpec{CompletedSeconds: new(int32(0))}},
			of:  queue{Defaults: defaults{TTLSecondsAfterFinished: new(int32(4)), TTL: v1alpha1.TTLSpec{CompletedSeconds: new(int32(5)), DeadLetteredSeconds: new(int32(6))}}},
			want: spec{TTLSecondsAfterFinished: new(int32(4)),
				TTL: v1alpha1.TTLSpec{CompletedSeconds: new(int32(0)), DeadLetteredSeconds: new(int32(6))}},
		},
		"rules come as a whole, the pause field by field": {
			own: spec{Retry: v1alpha1.RetrySpec{Backoff: v1alpha1.BackoffSpec{MaxSeconds: 9}, Rules: aRule}},
			of: queue{Defaults: defaults{Retry: v1alpha1.RetrySpec{Backoff: v1alpha1.BackoffSpec{InitialSeconds: 2, MaxSeconds: 3},
				Rules: []v1alpha1.RetryRule{{Action: v1alpha1.RetryActionIgnore, OnReasons: []string{"A"}}, {Action: v1alpha1.RetryActionIgnore, OnReasons: []string{"B"}}}}}},
			want: spec{Retry: v1alpha1.RetrySpec{Backoff: v1alpha1.BackoffSpec{InitialSeconds: 2, MaxSeconds: 9}, Rules: aRule}},
		},
		"a probe comes with what asks for it": {
			of:   queue{Defaults: defaults{OnLostAttempt: v1alpha1.LostAttemptReconcile, Reconcile: probe}},
			want: spec{OnLostAttempt: v1alpha1.LostAttemptReconcile, Reconcile: probe},
		},
		"and not without": {
			own:  spec{OnLostAttempt: v1alpha1.LostAttemptRetry},
			of:   queue{Defaults: defaults{OnLostAttempt: v1alpha1.LostAttemptReconcile, Reconcile: probe}},
			want: spec{OnLostAttempt: v1alpha1.LostAttemptRetry},
		},
		"a replay has what its ancestor had": {
			own:  spec{Template: image("old"), ReplayOf: v1alpha1.ReplayOf{DeadLetterName: "dl"}},
			of:   queue{Template: image("new"), Defaults: defaults{StopGraceSeconds: 7}},
			want: spec{Template: image("old"), ReplayOf: v1alpha1.ReplayOf{DeadLetterName: "dl"}},
		},
		"unless that had nothing to run": {
			own:  spec{ReplayOf: v1alpha1.ReplayOf{DeadLetterName: "dl"}},
			of:   queue{Template: image("new"), Defaults: defaults{StopGraceSeconds: 7}},
			want: spec{Template: image("new"), StopGraceSeconds: 7, ReplayOf: v1alpha1.ReplayOf{DeadLetterName: "dl"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Effective(test.own, &test.of)); diff != "" {
				t.Errorf("effective spec (-want +got):\n%s", diff)
			}
		})
	}
}

// draw gives every field below v some value, its zero among them: of a pointer to a number nil, zero and others.
func draw(t *rapid.T, v reflect.Value) {
	switch o := v.Addr().Interface().(type) {
	case **corev1.PodTemplateSpec:
		*o = rapid.SampledFrom([]*corev1.PodTemplateSpec{nil, image("a"), image("b")}).Draw(t, "template")
		return
	case *[]v1alpha1.RetryRule:
		for range rapid.IntRange(0, 2).Draw(t, "rules") {
			*o = append(*o, v1alpha1.RetryRule{OnReasons: []string{rapid.SampledFrom([]string{"A", "B"}).Draw(t, "reason")}})
		}
		return
	case **int32:
		*o = rapid.SampledFrom([]*int32{nil, new(int32(0)), new(int32(1))}).Draw(t, "number")
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			draw(t, v.Field(i))
		}
	case reflect.Int32:
		v.SetInt(rapid.Int64Range(0, 3).Draw(t, "number"))
	case reflect.String:
		v.SetString(rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "text"))
	default:
		t.Fatalf("no values are known for a field of type %s", v.Type())
	}
}

// defaultable are the fields of a task that TaskDefaults has, too, each with its counterpart.
func defaultable(own *v1alpha1.LeasedTaskSpec, d *v1alpha1.TaskDefaults) (pairs [][2]reflect.Value) {
	task, defaults := reflect.ValueOf(own).Elem(), reflect.ValueOf(d).Elem()
	for i := range defaults.NumField() {
		pairs = append(pairs, [2]reflect.Value{task.FieldByName(defaults.Type().Field(i).Name), defaults.Field(i)})
	}
	return pairs
}

// leaves calls do for each single value of three that are built alike.
func leaves(path string, own, given, got reflect.Value, do func(path string, own, given, got reflect.Value)) {
	if own.Kind() != reflect.Struct || own.Type() == reflect.TypeFor[v1alpha1.ReconcileSpec]() {
		do(path, own, given, got)
		return
	}
	for i := range own.NumField() {
		leaves(path+"."+own.Type().Field(i).Name, own.Field(i), given.Field(i), got.Field(i), do)
	}
}

func TestPropertiesOfTheEffectiveSpec(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own := v1alpha1.LeasedTaskSpec{QueueName: "q", Payload: new("p"), Suspend: new(false), IdempotencyKey: "k", Verify: []v1alpha1.ResultCheck{{Expression: "true"}}}
		queue := v1alpha1.TaskQueueSpec{Concurrency: 7}
		for _, pair := range defaultable(&own, &queue.Defaults) {
			draw(t, pair[0])
			draw(t, pair[1])
		}
		if own.OnLostAttempt == "" { // the CRDs see to that
			own.Reconcile = v1alpha1.ReconcileSpec{}
		}
		if queue.Defaults.OnLostAttempt == "" {
			queue.Defaults.Reconcile = v1alpha1.ReconcileSpec{}
		}
		for _, field := range []any{&own.Template, &own.WorkerContainer, &queue.Template, &queue.WorkerContainer} {
			draw(t, reflect.ValueOf(field).Elem())
		}
		ownBefore, queueBefore := *own.DeepCopy(), *queue.DeepCopy()
		got := Effective(own, &queue)

		same(t, "nothing given is the identity", own, Effective(own, nil))
		same(t, "and so is an empty queue", own, Effective(own, &v1alpha1.TaskQueueSpec{Concurrency: 3}))
		same(t, "twice is once", got, Effective(got, &queue))
		same(t, "the rest of the queue has no part in it", got, Effective(own, GivenBy(&queue)))
		same(t, "the task is left as it was", ownBefore, own)
		same(t, "the queue is left as it was", queueBefore, queue)
		same(t, "the payload is the task's", PayloadHash(&own), PayloadHash(&got))

		rest, restOfOwn := got, own
		for _, spec := range []*v1alpha1.LeasedTaskSpec{&rest, &restOfOwn} {
			spec.Template, spec.WorkerContainer = nil, ""
			for _, pair := range defaultable(spec, &queue.Defaults) {
				pair[0].SetZero()
			}
		}
		same(t, "no other field changes", restOfOwn, rest)
		results := defaultable(&got, &queue.Defaults)
		for i, pair := range defaultable(&own, &queue.Defaults) {
			leaves("", pair[0], pair[1], results[i][0], func(path string, own, given, got reflect.Value) {
				switch {
				case !own.IsZero():
					same(t, "the task's own counts: "+path, own.Interface(), got.Interface())
				case !got.IsZero():
					same(t, "else the queue's: "+path, given.Interface(), got.Interface())
				}
			})
		}
	})
}

func same(t *rapid.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// TestATaskThatSaysNothingHasEveryDefault: whichever fields there are by now.
func TestATaskThatSaysNothingHasEveryDefault(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queue := v1alpha1.TaskQueueSpec{}
		draw(t, reflect.ValueOf(&queue.Defaults).Elem())
		got := Effective(v1alpha1.LeasedTaskSpec{}, &queue)
		for i, pair := range defaultable(&got, &queue.Defaults) {
			same(t, reflect.TypeFor[v1alpha1.TaskDefaults]().Field(i).Name, pair[1].Interface(), pair[0].Interface())
		}
	})
}
