package v1alpha1

import "time"

// DiscardSpec says that a dead letter will not be replayed.
type DiscardSpec struct {
	// reason is for people: who decided so, and why. At most 1024 bytes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 1024",message="has more than 1024 bytes: the limit counts bytes, not characters"
	Reason string `json:"reason,omitempty"`
}

// IsDiscarded reports whether somebody has decided that the dead letter will not be replayed.
func (s *DeadLetterSpec) IsDiscarded() bool { return s.Discard != DiscardSpec{} }

// Retention is how long a dead letter stays once it is settled, with the operator's default for those that say nothing; false:
// until somebody deletes it. A default of 0 is none.
func (s *DeadLetterSpec) Retention(otherwise time.Duration) (time.Duration, bool) {
	if s.RetentionSeconds != nil {
		return time.Duration(*s.RetentionSeconds) * time.Second, true
	}
	return otherwise, otherwise > 0
}
