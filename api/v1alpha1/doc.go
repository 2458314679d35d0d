// Package v1alpha1 is the API group leasehold.io/v1alpha1.
//
// Start with [LeasedTask]; one that is given up becomes a [DeadLetter]. Spec fields that are unset stay unset; what applies then is stated in the field's comment and
// computed by the getters in defaults.go. The controller alone writes status, by patch; nobody writes spec but the user.
//
// +kubebuilder:object:generate=true
// +groupName=leasehold.io
package v1alpha1
