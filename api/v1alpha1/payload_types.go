package v1alpha1

// PayloadSource names where a payload is kept. Exactly one of its fields is set.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="has(self.configMapKeyRef) != has(self.secretKeyRef)",message="needs exactly one of configMapKeyRef and secretKeyRef"
type PayloadSource struct {
	// configMapKeyRef is a key of a ConfigMap in the task's namespace, in its data or its binaryData.
	// +optional
	ConfigMapKeyRef PayloadKeyReference `json:"configMapKeyRef,omitempty,omitzero"`

	// secretKeyRef is a key of a Secret in the task's namespace. The operator never reads it.
	// +optional
	SecretKeyRef PayloadKeyReference `json:"secretKeyRef,omitempty,omitzero"`
}

// PayloadKeyReference names a key of a ConfigMap or a Secret.
type PayloadKeyReference struct {
	// name is the object's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`

	// key is the key in it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +kubebuilder:validation:XValidation:rule="self != '.' && !self.startsWith('..')",message="cannot be . or begin with two dots: no ConfigMap or Secret has such a key"
	Key string `json:"key,omitempty"`
}
