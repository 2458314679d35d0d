package v1alpha1

// ResultCheck is a condition on the result of an attempt.
type ResultCheck struct {
	// expression is a CEL expression of type bool, in the dialect of Kubernetes 1.31. It sees
	//   result: the result as JSON; null unless there is one and it is one JSON value. Integers that 64 bits hold are int,
	//   all other numbers double.
	//   raw: the same as a string, as the worker wrote it; empty if it wrote none.
	//   resultRef: the reference to a result that is kept elsewhere, with uri, digest and sizeBytes; null if there is none.
	// Which functions are not available, and what an evaluation may cost, is in docs/results.md. At most 1024 bytes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 1024",message="has more than 1024 bytes: the limit counts bytes, not characters"
	Expression string `json:"expression,omitempty"`

	// message says, for people, what is wrong when the condition does not hold. At most 256 bytes. Default: the expression is quoted.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 256",message="has more than 256 bytes: the limit counts bytes, not characters"
	Message string `json:"message,omitempty"`
}
