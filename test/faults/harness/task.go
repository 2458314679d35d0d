package harness

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
	"github.com/leasehold-io/leasehold/test/faults/order"
)

// Task is a task whose worker follows an order.
func (h *Harness) Task(name string, o order.Order) (*v1alpha1.LeasedTask, error) {
	payload, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	task := cluster.Task(h.Namespace, name, "")
	task.Spec.Payload = new(string(payload))
	pod := &task.Spec.Template.Spec
	pod.Volumes = []corev1.Volume{{Name: "journals", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: h.Journals, Type: new(corev1.HostPathDirectory)}}}}
	worker := &pod.Containers[0]
	worker.Image, worker.Command = workerImage, []string{"/worker"}
	worker.VolumeMounts = []corev1.VolumeMount{{Name: "journals", MountPath: "/journals"}}
	worker.Env = []corev1.EnvVar{{Name: order.JournalDirEnv, Value: "/journals"}, {Name: order.StoreEnv, Value: h.database.URL(hostAddress)}}
	return task, nil
}

// Submit creates a task, however often it takes. With goOn its workers keep their children through an outage, if the CRD knows that.
func (h *Harness) Submit(ctx context.Context, task *v1alpha1.LeasedTask, goOn bool) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(task)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("LeasedTask"))
	unstructured.RemoveNestedField(object.Object, "status")
	if goOn && h.canGoOn {
		if err := unstructured.SetNestedField(object.Object, "Continue", "spec", "lease", "onRenewalFailure"); err != nil {
			return err
		}
	}
	return h.Try(ctx, func() error { return h.Create(ctx, object.DeepCopy()) })
}

// knowsOnRenewalFailure looks for the field in the CRD that is installed.
func (h *Harness) knowsOnRenewalFailure(ctx context.Context) (bool, error) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := h.Get(ctx, types.NamespacedName{Name: "leasedtasks." + v1alpha1.GroupVersion.Group}, crd); err != nil {
		return false, err
	}
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if err != nil {
		return false, err
	}
	for _, version := range versions {
		fields, ok := version.(map[string]any)
		if !ok {
			continue
		}
		_, found, err := unstructured.NestedMap(fields, "schema", "openAPIV3Schema", "properties", "spec", "properties",
			"lease", "properties", "onRenewalFailure")
		if err != nil || found {
			return found, err
		}
	}
	return false, nil
}
