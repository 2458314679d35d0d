package controller

import (
	appsv1 "k8s.io/api/apps/v1"
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

// CacheOptions keeps what is not ours out of memory: Pods, Leases and what queues gave by label, RoleBindings by name, no managed fields, and no payloads.
func CacheOptions() cache.Options {
	isOurs, err := labels.NewRequirement(v1alpha1.TaskLabel, selection.Exists, nil)
	if err != nil {
		panic(err) // programming error: a constant label
	}
	ours := labels.NewSelector().Add(*isOurs)
	isQueues, err := labels.NewRequirement(v1alpha1.QueueLabel, selection.Exists, nil)
	if err != nil {
		panic(err) // programming error: a constant label
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.LeasedTask{}:       {Transform: stripTask},
			&v1alpha1.DeadLetter{}:       {Transform: stripDeadLetter},
			&corev1.Pod{}:                {Label: ours, Transform: stripPod},
			&coordinationv1.Lease{}:      {Label: ours},
			&appsv1.ControllerRevision{}: {Label: labels.NewSelector().Add(*isQueues)},
			&rbacv1.RoleBinding{}:        {Field: fields.OneTermEqualSelector("metadata.name", WorkerRole)},
		},
	}
}

// stripPod keeps of a Pod what decisions read. The payload and the spec are most of its size; a Pod is made from the task, and
// patched by difference.
func stripPod(obj any) (any, error) {
	if pod, ok := obj.(*corev1.Pod); ok {
		pod.ManagedFields = nil
		delete(pod.Annotations, v1alpha1.PayloadAnnotation)
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, ActiveDeadlineSeconds: pod.Spec.ActiveDeadlineSeconds}
	}
	return obj, nil
}

// stripDeadLetter drops what makes a dead letter large. Who replays it has read it live.
func stripDeadLetter(obj any) (any, error) {
	if dead, ok := obj.(*v1alpha1.DeadLetter); ok {
		dead.ManagedFields = nil
		dead.Spec.Task.Spec.Raw = nil
		dead.Spec.History = nil
		dead.Spec.Replay.Payload, dead.Spec.Replay.TemplatePatch = nil, ""
	}
	return obj, nil
}

// stripTask drops a task's payload. Who makes a Pod has read the task live.
func stripTask(obj any) (any, error) {
	if task, ok := obj.(*v1alpha1.LeasedTask); ok {
		task.ManagedFields = nil
		task.Spec.Payload = nil
	}
	return obj, nil
}
