package v1alpha1

// TaskDefaults is what holds for a queue's tasks that do not say otherwise. Each field means what it means in a task, and counts
// where the task leaves it out: lease, timeouts and retry field by field, down to those of retry.backoff; a list, as
// retry.rules, as a whole.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="(has(self.onLostAttempt) && self.onLostAttempt == 'Reconcile') == has(self.reconcile)",message="is required with onLostAttempt Reconcile, and with no other",fieldPath=".reconcile"
type TaskDefaults struct {
	// lease says how a holder proves that it is alive.
	// +optional
	Lease LeaseSpec `json:"lease,omitzero"`

	// timeouts bound waiting and running. A task that has been accepted has its deadline already: a later totalSeconds makes it
	// earlier at most.
	// +optional
	Timeouts TimeoutsSpec `json:"timeouts,omitzero"`

	// retry says how often and how soon a task is tried again.
	// +optional
	Retry RetrySpec `json:"retry,omitzero"`

	// onLostAttempt says what follows an attempt that may have had its effect. It goes with reconcile: a task that has its own has
	// neither from here.
	// +optional
	OnLostAttempt LostAttemptPolicy `json:"onLostAttempt,omitempty"`

	// reconcile says how a probe finds out. Required with onLostAttempt Reconcile, refused otherwise.
	// +optional
	Reconcile ReconcileSpec `json:"reconcile,omitempty,omitzero"`

	// stopGraceSeconds is how long a worker has from SIGTERM to SIGKILL, in seconds. Default 30.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	StopGraceSeconds int32 `json:"stopGraceSeconds,omitempty"`

	// ttlSecondsAfterFinished is how long a finished task stays, in seconds. 0: it is deleted at once. Default: it stays until somebody
	// deletes it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// ttl says how long a task stays after a certain outcome, instead of ttlSecondsAfterFinished. A task with a
	// ttlSecondsAfterFinished of its own has nothing from here: it counts for every outcome.
	// +optional
	TTL TTLSpec `json:"ttl,omitempty,omitzero"`
}
