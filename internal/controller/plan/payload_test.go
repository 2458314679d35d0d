package plan

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/leasehold-io/leasehold/api/env"
	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// payloadVolumeOf is the volume that the worker of a rendered Pod finds its payload in.
func payloadVolumeOf(t *testing.T, pod *corev1.Pod) corev1.VolumeSource {
	t.Helper()
	name := ""
	for _, m := range pod.Spec.Containers[len(pod.Spec.Containers)-1].VolumeMounts {
		if m.MountPath == env.PayloadDir {
			name = m.Name
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.Name == name {
			return v.VolumeSource
		}
	}
	t.Fatalf("no volume at %s", env.PayloadDir)
	return corev1.VolumeSource{}
}

// TestCase32APayloadThatIsReferencedStaysAReference: in the Pod, too, and nothing of an inline payload is left there.
func TestCase32APayloadThatIsReferencedStaysAReference(t *testing.T) {
	ref := v1alpha1.PayloadKeyReference{Name: "orders", Key: "order.bin"}
	items := []corev1.KeyToPath{{Key: "order.bin", Path: strings.TrimPrefix(env.PayloadPath, env.PayloadDir+"/")}}
	tests := map[string]struct {
		from v1alpha1.PayloadSource
		want corev1.VolumeSource
	}{
		"a Secret": {v1alpha1.PayloadSource{SecretKeyRef: ref}, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "orders", Items: items}}},
		"a ConfigMap": {v1alpha1.PayloadSource{ConfigMapKeyRef: ref}, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "orders"}, Items: items}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			task := fullTask()
			task.Spec.Payload, task.Spec.PayloadFrom = nil, test.from
			pod := Pod(task, AgentImage{Name: "agent"})
			if diff := cmp.Diff(test.want, payloadVolumeOf(t, pod)); diff != "" {
				t.Errorf("volume (-want +got):\n%s", diff)
			}
			if value, ok := pod.Annotations[v1alpha1.PayloadAnnotation]; ok {
				t.Errorf("annotation %q", value)
			}
		})
	}
}

// TestAnInlinePayloadIsInThePodByteForByte: whatever it holds, and nothing in it is expanded.
func TestAnInlinePayloadIsInThePodByteForByte(t *testing.T) {
	for name, payload := range map[string]string{
		"unicode":        "\U0001F600 é ü \u2028",
		"a NUL escape":   `{"s": "\u0000"}`,
		"a NUL":          "a\x00b",
		"a reference":    "$(HOME) $$(HOME) ${HOME}",
		"64 KiB":         strings.Repeat("é", 32768),
		"line ends":      "a\r\n\n\tb ",
		"nothing at all": "",
	} {
		task := fullTask()
		task.Spec.Payload = &payload
		pod := Pod(task, AgentImage{Name: "agent"})
		if got := pod.Annotations[v1alpha1.PayloadAnnotation]; got != payload {
			t.Errorf("%s: %q becomes %q", name, payload, got)
		}
		if field := payloadVolumeOf(t, pod).DownwardAPI.Items[0].FieldRef.FieldPath; field != "metadata.annotations['leasehold.io/payload']" {
			t.Errorf("%s: the file has %s", name, field)
		}
	}
}
