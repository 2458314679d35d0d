package controller

import (
	"context"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// epochs answers one reading after the other; the last one stays.
type epochs []int64

func (e *epochs) Read(context.Context, int64) (int64, error) {
	now := (*e)[0]
	if len(*e) > 1 {
		*e = (*e)[1:]
	}
	return now, nil
}

// TestAnEpochRaisedDuringAGrantMakesNoTokenOfThePast: the Lease is written in a process that froze after it had read the epoch.
func TestAnEpochRaisedDuringAGrantMakesNoTokenOfThePast(t *testing.T) {
	for name, tc := range map[string]struct {
		epochs epochs
		isLost bool
	}{"raised": {epochs{1, 2}, true}, "not raised": {epochs{1}, false}} {
		t.Run(name, func(t *testing.T) {
			task := taskNamed("a", "uid-a")
			task.Spec.Template = &corev1.PodTemplateSpec{}
			bound := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: WorkerRole},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: WorkerRole},
				Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: defaultAccount, Namespace: "default"}}}
			w := newWatcher()
			r := &Reconciler{Client: clientWith(t, bound), Observer: w.Observer, Epoch: &tc.epochs}
			s := &plan.Snapshot{Task: task, Now: start, Revision: "1"}
			p := plan.Plan{Grant: &mailbox.Grant{Holder: "a-1-x", Attempt: 1, Duration: fencing.MinDuration, Time: start}}
			problem, err := r.grant(t.Context(), s, &p)
			if problem != nil || isLost(err) != tc.isLost || (p.Status == nil) != tc.isLost {
				t.Errorf("problem %v, error %v, recorded %t", problem, err, p.Status != nil)
			}
			lease := &coordinationv1.Lease{}
			if err := r.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: mailbox.Name("uid-a")}, lease); err != nil {
				t.Errorf("the Lease was not written: %v", err)
			}
		})
	}
}
