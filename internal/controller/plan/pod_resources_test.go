package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// amounts reads pairs of a resource and its amount.
func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// qualityOf is the class that Kubernetes puts a Pod in: it looks at all containers, the init containers too, and at CPU and memory.
func qualityOf(spec *corev1.PodSpec) corev1.PodQOSClass {
	isGuaranteed, isBestEffort := true, true
	for _, c := range append(append([]corev1.Container{}, spec.InitContainers...), spec.Containers...) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
			isBestEffort = isBestEffort && request.IsZero() && limit.IsZero()
			isGuaranteed = isGuaranteed && !limit.IsZero() && request.Cmp(limit) == 0
		}
	}
	switch {
	case isBestEffort:
		return corev1.PodQOSBestEffort
	case isGuaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// exceeds names what an init container asks for beyond what all containers do together: that is what it adds to the Pod.
func exceeds(spec *corev1.PodSpec) (names []corev1.ResourceName) {
	for name, asked := range spec.InitContainers[0].Resources.Requests {
		sum := resource.Quantity{}
		for _, c := range spec.Containers {
			sum.Add(c.Resources.Requests[name])
		}
		if asked.Cmp(sum) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// TestTheAgentAddsNothingToWhatAPodAsksFor: a Pod is of the class that its template is of, counts in a quota as its template does, and
// passes the limit ranges that the worker's container passes.
func TestTheAgentAddsNothingToWhatAPodAsksFor(t *testing.T) {
	small := amounts("cpu", "10m", "memory", "16Mi")
	tests := map[string]struct {
		worker, sidecar corev1.ResourceRequirements
		want            corev1.PodQOSClass
	}{
		"requests are limits": {worker: corev1.ResourceRequirements{Requests: amounts("cpu", "2", "memory", "4Gi"), Limits: amounts("cpu", "2", "memory", "4Gi")},
			sidecar: corev1.ResourceRequirements{Requests: small, Limits: small}, want: corev1.PodQOSGuaranteed},
		"with a device": {worker: corev1.ResourceRequirements{Requests: amounts("cpu", "2", "memory", "4Gi", "example.com/gpu", "1"), Limits: amounts("cpu", "2", "memory", "4Gi", "example.com/gpu", "1")},
			sidecar: corev1.ResourceRequirements{Requests: small, Limits: small}, want: corev1.PodQOSGuaranteed},
		"no limits": {worker: corev1.ResourceRequirements{Requests: small}, want: corev1.PodQOSBurstable},
		"less":      {worker: corev1.ResourceRequirements{Requests: amounts("cpu", "1m")}, want: corev1.PodQOSBurstable},
		"nothing":   {want: corev1.PodQOSBestEffort},
	}
	for name, test := range tests {
		task := fullTask()
		task.Spec.Template.Spec.InitContainers = nil
		task.Spec.Template.Spec.Containers[0].Resources, task.Spec.Template.Spec.Containers[1].Resources = test.sidecar, test.worker
		spec := &Pod(task, AgentImage{Name: "agent"}).Spec
		installed := spec.InitContainers[0].Resources
		if got := qualityOf(spec); got != test.want {
			t.Errorf("%s: the Pod is %s, want %s: the agent's init container has %+v", name, got, test.want, installed)
		}
		if more := exceeds(spec); len(more) > 0 {
			t.Errorf("%s: the Pod asks for more %v than its template", name, more)
		}
		if device := installed.Limits["example.com/gpu"]; !device.IsZero() {
			t.Errorf("%s: a device is taken to copy a file", name)
		}
	}
}

// TestAProbesAgentAsksForWhatTheProbeDoes: not for what its task's worker does.
func TestAProbesAgentAsksForWhatTheProbeDoes(t *testing.T) {
	task := fullTask()
	task.Spec.Template.Spec.Containers[1].Resources.Requests = amounts("cpu", "8")
	probe := task.Spec.Template.DeepCopy()
	probe.Spec.Containers[1].Resources.Requests = amounts("cpu", "20m")
	task.Spec.Reconcile = v1alpha1.ReconcileSpec{Template: probe, WorkerContainer: "main"}
	task.Status.Holder.ProbeFor, task.Status.Uncertain = 1, v1alpha1.UncertainAttempt{Attempt: 1}
	got := Pod(task, AgentImage{Name: "agent"}).Spec.InitContainers[0].Resources.Requests
	if cpu := got[corev1.ResourceCPU]; cpu.String() != "20m" {
		t.Errorf("requests %v", got)
	}
}
