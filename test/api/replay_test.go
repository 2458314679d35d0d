package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/leasehold-io/leasehold/api/env"
	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// ask sets the replay of a dead letter, as a person does.
func (s *scene) ask(c client.Client, dead *v1alpha1.DeadLetter, replay string) error {
	s.Helper()
	patch := fmt.Sprintf(`{"spec":{"replay":%s}}`, replay)
	return c.Patch(s.Context(), dead, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// untilAnswered waits for the answer to a request.
func (s *scene) untilAnswered(dead *v1alpha1.DeadLetter, request int64) v1alpha1.ReplayRecord {
	s.Helper()
	s.ok(s.Poll(s.Context(), patience, func() error {
		if err := admin.Get(s.Context(), client.ObjectKeyFromObject(dead), dead); err != nil {
			return err
		}
		if dead.Status.LastRequest < request {
			return fmt.Errorf("request %d is not answered: %+v", request, dead.Status)
		}
		return nil
	}))
	return dead.Status.Replays[len(dead.Status.Replays)-1]
}

// replayOf is the task that a request has made.
func (s *scene) replayOf(record v1alpha1.ReplayRecord) *v1alpha1.LeasedTask {
	s.Helper()
	task := &v1alpha1.LeasedTask{}
	s.ok(admin.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: record.TaskName}, task))
	s.must(string(task.UID) == record.TaskUID && record.Outcome == v1alpha1.ReplayCreated, "record %+v, task %s", record, task.UID)
	return task
}

func (s *scene) idempotencyKey(task *v1alpha1.LeasedTask) string {
	s.Helper()
	for _, e := range s.untilPod(task).Spec.Containers[0].Env {
		if e.Name == env.IdempotencyKey {
			return e.Value
		}
	}
	return ""
}

func TestCase29OneDeadLetterReplayedTwice(t *testing.T) {
	s := sideBySide(t, nil)
	task, dead := s.die("order", func(task *v1alpha1.LeasedTask) { task.Spec.Payload = new("{\"n\": 1.0}\n") })
	s.must(dead.Spec.FencingToken == task.Status.FencingToken && dead.Spec.IdempotencyKey == string(task.UID), "dead letter %+v", dead.Spec)

	s.ok(s.ask(admin, dead, `{"request": 1}`))
	first := s.replayOf(s.untilAnswered(dead, 1))
	s.must(isReady(dead, v1alpha1.ReasonReplayed), "conditions %+v", dead.Status.Conditions)
	s.must(first.Spec.ReplayOf == v1alpha1.ReplayOf{DeadLetterName: dead.Name, DeadLetterUID: string(dead.UID), Request: 1, IdempotencyKey: string(task.UID)},
		"replayOf %+v", first.Spec.ReplayOf)
	s.must(*first.Spec.Payload == *task.Spec.Payload, "payload %q", *first.Spec.Payload)
	s.untilGranted(first, 1)
	s.must(first.Status.FencingToken > task.Status.FencingToken, "token %d is not above %d", first.Status.FencingToken, task.Status.FencingToken)
	s.must(s.idempotencyKey(first) == string(task.UID), "the worker's key is not its ancestor's, %s", task.UID)
	s.untilEvent(dead.UID, "Replayed")
	s.untilEvent(first.UID, "Replays")

	// The same request does nothing, while its task is there and after it is gone.
	s.ok(s.ask(admin, dead, `{"request": 1}`))
	s.ok(admin.Delete(t.Context(), first))
	s.ok(s.ask(admin, dead, `{"request": 1}`))
	s.pass(replayer(admin), dead)
	s.pass(replayer(admin), dead)
	s.must(slices.Equal(s.tasks(), []string{"order"}), "tasks %v", s.tasks())

	// A new number makes a new task, whoever else is at it; it fails, and its own dead letter has the first key.
	s.ok(s.ask(admin, dead, `{"request": 5}`))
	var others sync.WaitGroup
	for range 8 {
		others.Go(func() {
			_, _ = replayer(admin).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(dead)})
		})
	}
	others.Wait()
	second := s.replayOf(s.untilAnswered(dead, 5))
	s.must(second.Name != first.Name && len(dead.Status.Replays) == 2 && len(s.tasks()) == 2, "second replay %s, status %+v", second.Name, dead.Status)
	s.untilGranted(second, 1)
	s.must(second.Status.FencingToken > first.Status.FencingToken, "token %d is not above %d", second.Status.FencingToken, first.Status.FencingToken)
	s.fails(second, "again")
	s.until(second, "dead-lettered", in(v1alpha1.PhaseDeadLettered, 1))
	child := &v1alpha1.DeadLetter{}
	s.ok(admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: second.Status.DeadLetterName}, child))
	s.must(child.UID != dead.UID && child.Spec.IdempotencyKey == string(task.UID), "dead letter of the replay: %+v", child.Spec)
	s.ok(s.ask(admin, child, `{"request": 1}`))
	grandchild := s.replayOf(s.untilAnswered(child, 1))
	s.must(grandchild.Spec.ReplayOf.DeadLetterName == child.Name && grandchild.Spec.ReplayOf.IdempotencyKey == string(task.UID), "replay of a replay: %+v", grandchild.Spec.ReplayOf)

	// It completes; both dead letters stay for the record.
	s.untilGranted(grandchild, 1)
	a := s.agentOf(grandchild)
	s.ok(a.claimTerm())
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Result: new("42")}))
	s.until(grandchild, "completed", in(v1alpha1.PhaseCompleted, 1))
	s.must(len(s.deadLetters()) == 2, "%d dead letters", len(s.deadLetters()))
}

// replayer is another controller, as one has just been elected, and does a pass when it is told to.
func replayer(c client.Client) *controller.Replayer {
	return &controller.Replayer{Client: c, Live: c, Clock: clock.RealClock{}, Events: events.NewFakeRecorder(100)}
}

func (s *scene) pass(r *controller.Replayer, dead *v1alpha1.DeadLetter) {
	s.Helper()
	_, err := r.Reconcile(s.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(dead)})
	s.ok(err)
}

// TestCase39AReplayMadeTooLateIsTakenBack: a controller froze after it had read the request. Another one answers it, its task
// ends and is deleted; then the first one goes on.
func TestCase39AReplayMadeTooLateIsTakenBack(t *testing.T) {
	s := sideBySide(t, nil)
	_, dead := s.die("frozen")
	s.ok(s.ask(admin, dead, `{"request": 1}`))
	remembered := dead.DeepCopy() // as the frozen controller has read it
	s.ok(admin.Delete(t.Context(), s.replayOf(s.untilAnswered(dead, 1))))
	under, err := client.NewWithWatch(config, client.Options{Scheme: admin.Scheme()})
	s.ok(err)
	made := ""
	frozen := interceptor.NewClient(under, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if memory, ok := o.(*v1alpha1.DeadLetter); ok && made == "" {
				*memory = *remembered.DeepCopy()
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			err := c.Create(ctx, o, opts...)
			made = o.GetName()
			return err
		},
	})
	s.pass(replayer(frozen), dead)
	s.must(made != "" && slices.Equal(s.tasks(), []string{"frozen"}), "made %q, and there is %v", made, s.tasks())
}

func TestARepairedReplayRunsTheRepairedTemplateAndPayload(t *testing.T) {
	s := sideBySide(t, nil)
	_, dead := s.die("broken", func(task *v1alpha1.LeasedTask) { task.Spec.Payload = new("bad") })
	s.ok(s.ask(admin, dead, `{"request": 1, "payload": "good", "templatePatch": "spec:\n  containers:\n  - name: worker\n    image: repaired:2\n"}`))
	task := s.replayOf(s.untilAnswered(dead, 1))
	s.untilGranted(task, 1)
	pod := s.untilPod(task)
	s.must(pod.Annotations[v1alpha1.PayloadAnnotation] == "good" && pod.Spec.Containers[0].Image == "repaired:2" && len(pod.Spec.Containers[0].Command) > 1,
		"Pod %+v", pod.Spec.Containers[0])
}

func TestAReplayThatMakesNoValidTaskIsRefusedAndTheNextNumberMayMendIt(t *testing.T) {
	s := sideBySide(t, nil)
	_, dead := s.die("mended")
	for i, bad := range []struct{ patch, want string }{
		{"spec: {restartPolicy: Always}", "must be Never"},
		{"spec: {containers: [{name: worker, imige: x}]}", "imige"},
		{"spec: {containers: [{name: worker, $patch: delete}]}", "at least one container"},
	} {
		request := int64(i + 1)
		s.ok(s.ask(admin, dead, fmt.Sprintf(`{"request": %d, "templatePatch": %q}`, request, bad.patch)))
		record := s.untilAnswered(dead, request)
		s.must(record.Outcome == v1alpha1.ReplayRefused && strings.Contains(record.Message, bad.want) && record.TaskName == "", "%s: %+v", bad.patch, record)
		s.must(isReady(dead, v1alpha1.ReasonReplayRefused), "conditions %+v", dead.Status.Conditions)
	}
	s.must(slices.Equal(s.tasks(), []string{"mended"}), "tasks %v", s.tasks())
	s.ok(s.ask(admin, dead, `{"request": 9, "templatePatch": null}`))
	s.replayOf(s.untilAnswered(dead, 9))
	s.must(isReady(dead, v1alpha1.ReasonReplayed), "conditions %+v", dead.Status.Conditions)
}

func TestATaskInTheWayOfAReplayIsNotTakenForIt(t *testing.T) {
	s := sideBySide(t, nil)
	_, dead := s.die("way")
	s.ok(s.ask(admin, dead, `{"request": 1}`))
	name := s.untilAnswered(dead, 1).TaskName
	s.start(strings.Replace(name, "-r1-", "-r2-", 1))
	s.ok(s.ask(admin, dead, `{"request": 2}`))
	record := s.untilAnswered(dead, 2)
	s.must(record.Outcome == v1alpha1.ReplayRefused && strings.Contains(record.Message, "another LeasedTask is named"), "record %+v", record)
}

// as is a client of a person who holds the given roles in the scene's namespace, and no others.
func (s *scene) as(user string, roles ...string) client.Client {
	s.Helper()
	for _, role := range roles {
		s.ok(admin.Create(s.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: user + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		}))
	}
	c := rest.CopyConfig(config)
	c.Impersonate = rest.ImpersonationConfig{UserName: user}
	as, err := client.New(c, client.Options{Scheme: admin.Scheme()})
	s.ok(err)
	return as
}

func TestLookingEditingAndReplayingAreSeparateRights(t *testing.T) {
	s := sideBySide(t, nil)
	_, dead := s.die("guarded")
	viewer, editor := s.as("viewer", "leasehold-view"), s.as("editor", "leasehold-view", "leasehold-edit")
	replayer, both := s.as("replayer", "leasehold-view", "leasehold-replay"), s.as("both", "leasehold-edit", "leasehold-replay")
	forbidden := func(what string, err error, want string) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want 403 with %q", what, err, want)
		}
	}
	s.ok(s.Poll(t.Context(), patience, func() error { // a new binding acts a moment late
		return viewer.Get(t.Context(), client.ObjectKeyFromObject(dead), &v1alpha1.DeadLetter{})
	}))
	forbidden("a viewer replays", s.ask(viewer, dead.DeepCopy(), `{"request": 1}`), "deadletters")
	forbidden("an editor replays", s.ask(editor, dead.DeepCopy(), `{"request": 1}`), "deadletters")
	forbidden("an editor makes a dead letter", editor.Create(t.Context(), dead.DeepCopy()), "deadletters")
	forbidden("a replayer makes a task", replayer.Create(t.Context(), cluster.Task(s.namespace, "own", "true")), "leasedtasks")
	forbidden("a replayer deletes a dead letter", replayer.Delete(t.Context(), dead.DeepCopy()), "deadletters")
	for what, replay := range map[string]string{"template": `{"request": 1, "templatePatch": "spec: {priority: 1}"}`, "payload": `{"request": 1, "payload": "x"}`} {
		forbidden("a replayer changes the "+what, s.ask(replayer, dead.DeepCopy(), replay), "right to create leasedtasks")
	}
	task := cluster.Task(s.namespace, "usurper", "true")
	task.Spec.ReplayOf = v1alpha1.ReplayOf{DeadLetterName: dead.Name, DeadLetterUID: string(dead.UID), Request: 1, IdempotencyKey: dead.Spec.IdempotencyKey}
	forbidden("an editor makes a replay by hand", editor.Create(t.Context(), task), "set by Leasehold only")

	s.ok(s.ask(replayer, dead, `{"request": 1}`))
	s.replayOf(s.untilAnswered(dead, 1))
	s.ok(s.ask(both, dead, `{"request": 2, "payload": "x"}`))
	s.replayOf(s.untilAnswered(dead, 2))
	s.ok(s.ask(replayer, dead, `{"request": 3, "payload": null}`)) // as it was
	s.replayOf(s.untilAnswered(dead, 3))
	s.ok(editor.Delete(t.Context(), dead))
}

func TestADeadLetterAtRestIsNotWritten(t *testing.T) {
	s := sideBySide(t, nil)
	_, dead := s.die("resting")
	s.ok(s.Poll(t.Context(), patience, func() error {
		s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(dead), dead))
		if !isReady(dead, v1alpha1.ReasonNotReplayed) || dead.Status.ObservedGeneration != dead.Generation {
			return fmt.Errorf("status %+v", dead.Status)
		}
		return nil
	}))
	s.ok(s.ask(admin, dead, `{"request": 1}`))
	s.untilAnswered(dead, 1)
	version := dead.ResourceVersion
	time.Sleep(2 * time.Second)
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(dead), dead))
	s.must(dead.ResourceVersion == version, "written again: %s, then %s", version, dead.ResourceVersion)
}
