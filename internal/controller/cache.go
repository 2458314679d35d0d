package controller

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// CacheOptions keeps what is not ours out of memory: Pods and Leases by label, RoleBindings by name, no managed fields.
func CacheOptions() cache.Options {
	isOurs, err := labels.NewRequirement(v1alpha1.TaskLabel, selection.Exists, nil)
	if err != nil {
		panic(err) // programming error: a constant label
	}
	ours := labels.NewSelector().Add(*isOurs)
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:           {Label: ours},
			&coordinationv1.Lease{}: {Label: ours},
			&rbacv1.RoleBinding{}:   {Field: fields.OneTermEqualSelector("metadata.name", WorkerRole)},
		},
	}
}
