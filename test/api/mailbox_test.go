package api

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// TestAnAgentReadsItsStopAndCannotTouchIt: with the rights that a worker's Pod has, it comes with the answer to a renewal.
func TestAnAgentReadsItsStopAndCannotTouchIt(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("told")
	s.untilGranted(task, 1)
	a, worker := s.agentOf(task), s.speakerOf(s.untilPod(task))
	patch := func(raw string) (string, error) {
		lease := a.lease()
		err := worker.Patch(t.Context(), lease, client.RawPatch(types.JSONPatchType, []byte(raw)))
		return lease.Annotations[fencing.StopAnnotation], err
	}
	s.ok(s.Poll(t.Context(), patience, func() error { // the RoleBinding is young
		_, err := patch(string(fencing.ClaimPatch(task.Status.Holder.PodName, a.claim, task.CreationTimestamp.Time)))
		return err
	}))
	const path = `"path":"/metadata/annotations/leasehold.io~1stop"`
	forged := `[{"op":"add",` + path + `,"value":"{\"reason\":\"Cancelled\"}"}]`
	if _, err := patch(forged); !apierrors.IsForbidden(err) {
		t.Errorf("an agent may tell itself to stop: %v", err)
	}
	s.ok(s.edit(task, suspended(true)))
	a.untilTold(fencing.ReasonSuspended)
	for what, raw := range map[string]string{
		"replace": forged,
		"empty":   `[{"op":"add",` + path + `,"value":""}]`,
		"remove":  `[{"op":"remove",` + path + `}]`,
	} {
		if _, err := patch(raw); !apierrors.IsForbidden(err) {
			t.Errorf("an agent may %s its stop: %v", what, err)
		}
	}
	renewed, err := patch(string(fencing.RenewPatch(task.Status.Holder.PodName, a.claim, task.CreationTimestamp.Add(1))))
	if err != nil || fencing.ParseStop(renewed).Reason != fencing.ReasonSuspended {
		t.Errorf("a renewal is answered with %q: %v", renewed, err)
	}
	sub, err := fencing.Submission{Token: fencing.Token(task.Status.FencingToken), Outcome: fencing.Cancelled, Reason: fencing.ReasonSuspended}.Encode()
	s.ok(err)
	_, err = patch(string(fencing.SubmitPatch(task.Status.Holder.PodName, a.claim, sub)))
	s.ok(err)
	s.until(task, "suspended", waitsFor(v1alpha1.WaitingSuspended, ""))
}

// TestLeasesThatLookLikeOursAreMadeByTheOperatorAlone, and a node that is named lh-1 keeps its heartbeat in a Lease of that name.
func TestLeasesThatLookLikeOursAreMadeByTheOperatorAlone(t *testing.T) {
	s := sideBySide(t, nil)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "leases"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"*"}}}}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "leases"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "leases"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "somebody"}}}
	s.ok(admin.Create(t.Context(), role))
	s.ok(admin.Create(t.Context(), binding))
	as := rest.CopyConfig(config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "somebody"}
	somebody, err := client.New(as, client.Options{Scheme: admin.Scheme(), Mapper: admin.RESTMapper()})
	s.ok(err)
	create := func(name string, labels map[string]string) error {
		return somebody.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: labels}})
	}
	s.ok(s.Poll(t.Context(), patience, func() error { // the RoleBinding is young
		return client.IgnoreAlreadyExists(create("lh-1", nil))
	}))
	s.ok(create("lh-key", nil))
	tries := 0
	s.ok(s.Poll(t.Context(), patience, func() error { // a policy acts a moment late, too
		tries++
		if err := create(mailbox.Name(fmt.Sprint(tries)), nil); !apierrors.IsForbidden(err) {
			return fmt.Errorf("somebody may make a Lease that looks like ours: %w", err)
		}
		return nil
	}))
	for _, name := range []string{mailbox.Name("uid"), key.Name(key.Concurrency, "db"), key.Name(key.Idempotency, "order")} {
		if err := create(name, nil); !apierrors.IsForbidden(err) {
			t.Errorf("somebody may make Lease %s: %v", name, err)
		}
	}
	for _, label := range []string{mailbox.TaskLabel, key.Label} {
		if err := create("other", map[string]string{label: "x"}); !apierrors.IsForbidden(err) {
			t.Errorf("somebody may make a Lease with label %s: %v", label, err)
		}
	}
}
