package api

import (
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// TestADeadLetterBlocksItsKeysUntilItIsReplayedWithSuccess, through the deletion of its task, and a replay that does not succeed.
func TestADeadLetterBlocksItsKeysUntilItIsReplayedWithSuccess(t *testing.T) {
	s := sideBySide(t, nil)
	task, dead := s.die("first", blocking, once("order-7", "a"), alone("db"))
	same := s.start("same", once("order-7", "a"))
	serial := s.start("serial", alone("db"))
	isBlocked := func() {
		t.Helper()
		for _, waiter := range []*v1alpha1.LeasedTask{same, serial} {
			s.until(waiter, "blocked", waitsFor(v1alpha1.WaitingKeyBlocked, "DeadLetter "+dead.Name))
		}
	}
	isBlocked()
	s.ok(admin.Delete(t.Context(), task))
	s.ok(s.ask(admin, dead, `{"request": 1}`))
	cancelledReplay := s.replayOf(s.untilAnswered(dead, 1))
	s.untilGranted(cancelledReplay, 1)
	s.must(s.lock(key.Idempotency, "order-7").Holder == string(cancelledReplay.UID) && s.lock(key.Concurrency, "db").Holder == string(cancelledReplay.UID),
		"the replay does not have the keys")
	s.ok(s.edit(cancelledReplay, cancelled))
	s.until(cancelledReplay, "cancelled", cluster.IsFinished)
	isBlocked()
	s.ok(s.ask(admin, dead, `{"request": 2}`))
	replay := s.replayOf(s.untilAnswered(dead, 2))
	s.untilGranted(replay, 1)
	s.completes(replay, "42")
	s.until(same, "attached", attachedTo(replay.Name, "42"))
	s.untilGranted(serial, 1)
}

func TestADeadLetterThatIsDeletedBlocksNoMore(t *testing.T) {
	s := sideBySide(t, nil)
	_, dead := s.die("first", blocking, alone("db"))
	second := s.start("second", alone("db"))
	s.until(second, "blocked", waitsFor(v1alpha1.WaitingKeyBlocked, "DeadLetter "+dead.Name))
	s.ok(admin.Delete(t.Context(), dead))
	s.untilGranted(second, 1)
}

func TestADeadLetterThatIsDiscardedBlocksNoMore(t *testing.T) {
	s := sideBySide(t, nil)
	_, dead := s.die("first", blocking, alone("db"))
	second := s.start("second", alone("db"))
	s.until(second, "blocked", waitsFor(v1alpha1.WaitingKeyBlocked, "DeadLetter "+dead.Name))
	discarded := dead.DeepCopy()
	discarded.Spec.Discard.Reason = "not needed"
	s.ok(admin.Patch(t.Context(), discarded, mergeFrom(dead)))
	s.untilGranted(second, 1)
}

// TestTheReplayOfABlockerThatDiesBlocksInItsTurn, and the replay of that one has the key.
func TestTheReplayOfABlockerThatDiesBlocksInItsTurn(t *testing.T) {
	s := sideBySide(t, nil)
	_, dead := s.die("first", blocking, alone("db"))
	s.ok(s.ask(admin, dead, `{"request": 1}`))
	replay := s.replayOf(s.untilAnswered(dead, 1))
	s.untilGranted(replay, 1)
	s.fails(replay, "again")
	s.until(replay, "dead-lettered", in(v1alpha1.PhaseDeadLettered, 1))
	second := s.start("second", alone("db"))
	s.until(second, "blocked", waitsFor(v1alpha1.WaitingKeyBlocked, "DeadLetter "+replay.Status.DeadLetterName))
	child := &v1alpha1.DeadLetter{}
	s.ok(admin.Get(t.Context(), client.ObjectKey{Namespace: s.namespace, Name: replay.Status.DeadLetterName}, child))
	s.ok(s.ask(admin, child, `{"request": 1}`))
	grandchild := s.replayOf(s.untilAnswered(child, 1))
	s.untilGranted(grandchild, 1)
	s.completes(grandchild, "42")
	s.untilGranted(second, 1)
}

// TestTwoReplaysOfOneTaskDoNotRunAtOnce: they have one idempotency key, that of their ancestor.
func TestTwoReplaysOfOneTaskDoNotRunAtOnce(t *testing.T) {
	s := sideBySide(t, nil)
	_, dead := s.die("order", func(task *v1alpha1.LeasedTask) { task.Spec.Payload = new("bad") })
	s.ok(s.ask(admin, dead, `{"request": 1}`))
	first := s.replayOf(s.untilAnswered(dead, 1))
	s.untilGranted(first, 1)
	s.ok(s.ask(admin, dead, `{"request": 2, "payload": "good"}`)) // a repair waits for how the other ends
	second := s.replayOf(s.untilAnswered(dead, 2))
	s.until(second, "waiting", waitsFor(v1alpha1.WaitingKeyBusy, "LeasedTask "+first.Name))
	s.fails(first, "still bad")
	s.untilGranted(second, 1)
}

// TestAWorkerCannotTouchAKey: not with the rights of a worker's Pod, not even from a Pod that is named like the holder.
func TestAWorkerCannotTouchAKey(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("holder", alone("db"))
	s.untilGranted(task, 1)
	namesake := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: string(task.UID)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/x"}}}}
	s.ok(admin.Create(t.Context(), namesake))
	good := key.Take(nil, key.Concurrency, "other", &key.Claimant{UID: "uid"}, task.CreationTimestamp.Time).Lease(s.namespace)
	for what, pod := range map[string]*corev1.Pod{"the holder's Pod": s.untilPod(task), "a Pod named like the holder": namesake} {
		worker := s.speakerOf(pod)
		patch := func(raw string) error {
			lease := key.Take(nil, key.Concurrency, "db", &key.Claimant{}, task.CreationTimestamp.Time).Lease(s.namespace)
			return worker.Patch(t.Context(), lease, client.RawPatch(types.JSONPatchType, []byte(raw)))
		}
		s.ok(s.Poll(t.Context(), patience, func() error { // the RoleBinding is young
			if err := patch(`[{"op":"add","path":"/spec/renewTime","value":"2026-01-01T12:00:00.000000Z"}]`); !isDenied(err) {
				return fmt.Errorf("%s may renew a key: %w", what, err)
			}
			return nil
		}))
		for _, raw := range []string{
			`[{"op":"add","path":"/spec/holderIdentity","value":""}]`,
			`[{"op":"add","path":"/metadata/annotations/leasehold.io~1answer","value":"{}"}]`,
			`[{"op":"add","path":"/metadata/annotations/leasehold.io~1claim","value":"n/n/` + string(pod.UID) + `"}]`,
			`[{"op":"add","path":"/metadata/annotations/leasehold.io~1submission","value":"{}"}]`,
			`[{"op":"remove","path":"/metadata/labels/leasehold.io~1key"}]`,
		} {
			if err := patch(raw); !isDenied(err) {
				t.Errorf("%s may patch %s: %v", what, raw, err)
			}
		}
		if err := worker.Create(t.Context(), good.DeepCopy()); !apierrors.IsForbidden(err) {
			t.Errorf("%s may make a key: %v", what, err)
		}
		if err := worker.Delete(t.Context(), good.DeepCopy()); !apierrors.IsForbidden(err) {
			t.Errorf("%s may delete a key: %v", what, err)
		}
	}
	// Who may make Leases, and is not the operator, makes no keys, under whatever name.
	user := s.leaseMaker("maker")
	renamed := good.DeepCopy()
	delete(renamed.Labels, "leasehold.io/task")
	renamed.Name = "app"
	for what, lease := range map[string]client.Object{"a key": good.DeepCopy(), "a Lease labelled as one": renamed} {
		if err := user.Create(t.Context(), lease); !isDenied(err) {
			t.Errorf("somebody may make %s: %v", what, err)
		}
	}
}

// isDenied reports whether an admission policy has refused, and not the want of a right.
func isDenied(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

// leaseMaker is a client of somebody who may make Leases in the scene's namespace.
func (s *scene) leaseMaker(user string) client.Client {
	s.Helper()
	s.ok(admin.Create(s.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: user},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}}}}))
	s.ok(admin.Create(s.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: user},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}}))
	c := s.as(user)
	s.ok(s.Poll(s.Context(), patience, func() error { // a new binding acts a moment late
		return c.Create(s.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, GenerateName: "own-"}})
	}))
	return c
}
