package kstatus

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// Of is what the library makes of an object of our API, as the API server serves it.
func Of(t *testing.T, kind string, object runtime.Object) *status.Result {
	t.Helper()
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	served := &unstructured.Unstructured{Object: raw}
	served.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	result, err := status.Compute(served)
	if err != nil {
		t.Fatal(err)
	}
	return result
}
