package e2e

import (
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

func TestAWorkersTokenOpensItsOwnMailboxAndNothingElse(t *testing.T) {
	s := tell(t, sideBySide)
	mine, other := s.start("mine", "sleep 600"), s.start("other", "sleep 600")
	s.untilRunning(mine, 1)
	s.untilRunning(other, 1)
	application := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "application"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: new(mine.Status.Holder.PodName)}}
	s.ok(s.Create(s.ctx, application))
	worker := s.asWorker(mine)

	lease := func(name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	}
	jsonPatch := func(o client.Object, patch string) func() error {
		return func() error {
			return worker.Patch(s.ctx, o, client.RawPatch(types.JSONPatchType, []byte(patch)))
		}
	}
	const renew = `[{"op":"add","path":"/spec/renewTime","value":"2026-01-01T00:00:00.000001Z"}]`
	takeover := strings.ReplaceAll(`[{"op":"add","path":"/spec/holderIdentity","value":"POD"}]`, "POD", mine.Status.Holder.PodName)
	refused := map[string]func() error{
		"renew another task's Lease":          jsonPatch(lease(other.Status.LeaseName), renew),
		"take another task's Lease":           jsonPatch(lease(other.Status.LeaseName), takeover),
		"submit for another task":             jsonPatch(lease(other.Status.LeaseName), string(fencing.SubmitPatch(other.Status.Holder.PodName, s.claimOf(other), []byte(`{}`)))),
		"patch another application's Lease":   jsonPatch(lease("application"), renew),
		"change its own holder":               jsonPatch(lease(mine.Status.LeaseName), `[{"op":"add","path":"/spec/holderIdentity","value":"x"}]`),
		"stretch its own duration":            jsonPatch(lease(mine.Status.LeaseName), `[{"op":"add","path":"/spec/leaseDurationSeconds","value":3600}]`),
		"replace its own claim":               jsonPatch(lease(mine.Status.LeaseName), `[{"op":"add","path":"/metadata/annotations/leasehold.io~1claim","value":"a/b/c"}]`),
		"read its own Lease":                  func() error { return worker.Get(s.ctx, key(s.namespace, mine.Status.LeaseName), lease("")) },
		"create a Lease that looks like ours": func() error { return worker.Create(s.ctx, lease("lh-forged")) },
		"delete its own Lease":                func() error { return worker.Delete(s.ctx, lease(mine.Status.LeaseName)) },
		"patch its own task":                  jsonPatch(mine.DeepCopy(), `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`),
		"patch another task":                  jsonPatch(other.DeepCopy(), `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`),
		"complete its own task": func() error {
			return worker.Status().Patch(s.ctx, mine.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Completed"}}`)))
		},
		"read tasks": func() error { return worker.List(s.ctx, &v1alpha1.LeasedTaskList{}, client.InNamespace(s.namespace)) },
	}
	for what, try := range refused {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("may %s: want 403, got %v", what, err)
		}
	}
	s.ok(worker.Patch(s.ctx, lease(mine.Status.LeaseName), client.RawPatch(types.JSONPatchType, []byte(renew))))
}

// asWorker is a client with the very token that the task's agent uses.
func (s *story) asWorker(task *v1alpha1.LeasedTask) client.Client {
	s.Helper()
	token := s.kubectl("exec", "-n", s.namespace, task.Status.Holder.PodName, "-c", "worker", "--", "cat", "/leasehold/api/token")
	config := rest.AnonymousClientConfig(s.Config)
	config.BearerToken = strings.TrimSpace(token)
	worker, err := client.New(config, client.Options{Scheme: s.Scheme()})
	s.ok(err)
	return worker
}

// claimOf reads the claim that stands on the task's Lease.
func (s *story) claimOf(task *v1alpha1.LeasedTask) fencing.Claim {
	s.Helper()
	lease := &coordinationv1.Lease{}
	s.ok(s.Get(s.ctx, key(task.Namespace, task.Status.LeaseName), lease))
	return fencing.ParseClaim(lease.Annotations[fencing.ClaimAnnotation])
}
