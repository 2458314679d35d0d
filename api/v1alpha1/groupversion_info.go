package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types in this package.
var GroupVersion = schema.GroupVersion{Group: "leasehold.io", Version: "v1alpha1"}

// AddToScheme adds the types in this package to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &LeasedTask{}, &LeasedTaskList{}, &DeadLetter{}, &DeadLetterList{}, &TaskQueue{}, &TaskQueueList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
