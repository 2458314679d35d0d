package v1alpha1

import "time"

// TTLSpec says how long a finished task stays, by its outcome, in seconds from status.completionTime. A DeadLetter does not go
// with its task.
//
// +kubebuilder:validation:MinProperties=1
type TTLSpec struct {
	// completedSeconds is for a Completed task. 0: it is deleted at once. Default: ttlSecondsAfterFinished.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	CompletedSeconds *int32 `json:"completedSeconds,omitempty"`

	// cancelledSeconds is for a Cancelled task. 0: it is deleted at once. Default: ttlSecondsAfterFinished.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	CancelledSeconds *int32 `json:"cancelledSeconds,omitempty"`

	// deadLetteredSeconds is for a DeadLettered task; its DeadLetter exists by then, and stays. 0: it is deleted at once.
	// Default: ttlSecondsAfterFinished.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	DeadLetteredSeconds *int32 `json:"deadLetteredSeconds,omitempty"`
}

// TimeToLive is how long a task stays that has finished in the given phase; false: until somebody deletes it.
func (s *LeasedTaskSpec) TimeToLive(phase Phase) (time.Duration, bool) {
	ttl := s.TTLSecondsAfterFinished
	override := map[Phase]*int32{
		PhaseCompleted: s.TTL.CompletedSeconds, PhaseCancelled: s.TTL.CancelledSeconds, PhaseDeadLettered: s.TTL.DeadLetteredSeconds,
	}[phase]
	if override != nil {
		ttl = override
	}
	if ttl == nil {
		return 0, false
	}
	return time.Duration(*ttl) * time.Second, true
}
