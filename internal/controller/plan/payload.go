package plan

import (
	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// payloadKey is the payload's file in its volume: the last part of env.PayloadPath.
const payloadKey = "payload"

// payload is the volume that holds the payload in a file, whichever way it comes. What is referenced goes from the API server to
// the kubelet, and nowhere else.
func payload(spec *v1alpha1.LeasedTaskSpec) corev1.VolumeSource {
	from := &spec.PayloadFrom
	switch {
	case from.ConfigMapKeyRef.Name != "":
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: from.ConfigMapKeyRef.Name},
			Items:                []corev1.KeyToPath{{Key: from.ConfigMapKeyRef.Key, Path: payloadKey}},
		}}
	case from.SecretKeyRef.Name != "":
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: from.SecretKeyRef.Name,
			Items:      []corev1.KeyToPath{{Key: from.SecretKeyRef.Key, Path: payloadKey}},
		}}
	}
	return corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		Items: []corev1.DownwardAPIVolumeFile{{
			Path:     payloadKey,
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.annotations['" + v1alpha1.PayloadAnnotation + "']"},
		}},
	}}
}
