package cluster

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWhatIsOurs(t *testing.T) {
	const hash = "0123456789abcdef"
	ofTask := []metav1.OwnerReference{{APIVersion: "leasehold.io/v1alpha1", Kind: "LeasedTask", Name: "t"}}
	tests := map[string]struct {
		resource string // "resource.group"
		object   metav1.ObjectMeta
		want     bool
	}{
		"a task":                          {"leasedtasks.leasehold.io", metav1.ObjectMeta{Namespace: "a", Name: "t"}, true},
		"a role by its name":              {"clusterroles.rbac.authorization.k8s.io", metav1.ObjectMeta{Name: "leasehold-view"}, true},
		"a term by its name":              {"leases.coordination.k8s.io", metav1.ObjectMeta{Namespace: "a", Name: "lh-" + hash}, true},
		"a key by its name":               {"leases.coordination.k8s.io", metav1.ObjectMeta{Namespace: "a", Name: "lh-key-" + hash + hash}, true},
		"a node's heartbeat":              {"leases.coordination.k8s.io", metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "lh-n1"}, false},
		"a worker by its label":           {"pods", metav1.ObjectMeta{Namespace: "a", Name: "t", Labels: map[string]string{"leasehold.io/task": "u"}}, true},
		"a worker by its owner":           {"pods", metav1.ObjectMeta{Namespace: "a", Name: "t", OwnerReferences: ofTask}, true},
		"of the release":                  {"secrets", metav1.ObjectMeta{Namespace: "a", Name: "s", Annotations: map[string]string{"meta.helm.sh/release-name": "leasehold"}}, true},
		"whatever is beside the operator": {"configmaps", metav1.ObjectMeta{Namespace: System, Name: "c"}, true},
		"what every namespace has":        {"configmaps", metav1.ObjectMeta{Namespace: System, Name: "kube-root-ca.crt"}, false},
		"its account, too":                {"serviceaccounts", metav1.ObjectMeta{Namespace: System, Name: "default"}, false},
		"somebody's Pod":                  {"pods", metav1.ObjectMeta{Namespace: "a", Name: "p", Labels: map[string]string{"app": "web"}}, false},
	}
	for name, test := range tests {
		resource := schema.ParseGroupResource(test.resource).WithVersion("v1")
		if got := isOurs(resource, &test.object); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
