package controller

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func account(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: "default"}
}

func TestAddSubject(t *testing.T) {
	tests := map[string]struct {
		subjects []rbacv1.Subject
		want     []rbacv1.Subject
	}{
		"the first": {nil, []rbacv1.Subject{account("new")}},
		"another":   {[]rbacv1.Subject{account("old")}, []rbacv1.Subject{account("old"), account("new")}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: WorkerRole, ResourceVersion: "7"}, Subjects: test.subjects}
			got, err := applyTo(t, binding, addSubject(binding, account("new")))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Subjects); diff != "" {
				t.Errorf("subjects (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAddSubjectLosesNoOther: a patch made from an older read is refused, so that two controllers do not drop each other's.
func TestAddSubjectLosesNoOther(t *testing.T) {
	read := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: WorkerRole, ResourceVersion: "7"}}
	stands := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: WorkerRole, ResourceVersion: "8"}, Subjects: []rbacv1.Subject{account("other")}}
	if got, err := applyTo(t, stands, addSubject(read, account("new"))); err == nil {
		t.Errorf("applied: %+v", got.Subjects)
	}
}

// applyTo applies a JSON patch as the API server does.
func applyTo(t *testing.T, binding *rbacv1.RoleBinding, raw []byte) (*rbacv1.RoleBinding, error) {
	t.Helper()
	patch, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(binding)
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = patch.Apply(doc); err != nil {
		return nil, err
	}
	next := &rbacv1.RoleBinding{}
	if err := json.Unmarshal(doc, next); err != nil {
		t.Fatal(err)
	}
	return next, nil
}
