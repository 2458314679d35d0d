package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResultRef points to a result that is kept elsewhere.
type ResultRef struct {
	// uri is where the result is, at most 2048 bytes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	URI string `json:"uri,omitempty"`

	// digest is sha256: and 64 hex digits, of the result's bytes.
	// +required
	// +kubebuilder:validation:MinLength=71
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:Pattern=`^sha256:[0-9a-f]{64}$`
	Digest string `json:"digest,omitempty"`

	// sizeBytes is how many bytes the result has.
	// +required
	// +kubebuilder:validation:Minimum=0
	SizeBytes *int64 `json:"sizeBytes,omitempty"`
}

// Progress is how far a worker has come, in units of its own.
type Progress struct {
	// current is what is done.
	// +required
	// +kubebuilder:validation:Minimum=0
	Current *int64 `json:"current,omitempty"`

	// total is what there is to do, as the worker estimates it; current may pass it. Unset: not known.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Total int64 `json:"total,omitempty"`

	// message is for people. At most 256 bytes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`

	// recordTime is when this was put on record.
	// +optional
	RecordTime *metav1.Time `json:"recordTime,omitempty"`
}

// FailureClass is what a worker says of its failure.
//
// +kubebuilder:validation:Enum=Permanent;Transient
type FailureClass string

const (
	// FailurePermanent: another attempt cannot succeed.
	FailurePermanent FailureClass = "Permanent"
	// FailureTransient: another attempt may succeed.
	FailureTransient FailureClass = "Transient"
)
