package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BreakerSpec is what opens the queue's breaker, and closes it again. While it is open nothing starts; what runs goes on. After
// openSeconds it is half-open: a few attempts start, and it closes when so many have succeeded, or is open again when one fails.
// Attempts that succeeded or failed count; those that were disrupted or stopped say nothing, and neither do probes of spec.reconcile.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="has(self.failurePercent) || has(self.sameFailures) || (has(self.override) && self.override != 'Auto')",message="is required, or sameFailures, unless override is Open or Closed: nothing would ever open the breaker",fieldPath=".failurePercent"
// +kubebuilder:validation:XValidation:rule="has(self.failurePercent) || !has(self.minSamples)",message="belongs to failurePercent",fieldPath=".minSamples"
type BreakerSpec struct {
	// failurePercent opens the breaker: when so many percent of the attempts that ended within windowSeconds have failed, and there were
	// minSamples. Default: their share does not open it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	FailurePercent int32 `json:"failurePercent,omitempty"`

	// minSamples is how many attempts must have ended within windowSeconds before their share counts. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MinSamples int32 `json:"minSamples,omitempty"`

	// sameFailures opens the breaker, too: when so many attempts have failed in the same way within windowSeconds, whatever others did.
	// What is the same way, the fingerprint of a dead letter says. Default: it does not.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	SameFailures int32 `json:"sameFailures,omitempty"`

	// windowSeconds is how far back ends count, in seconds. Default 60, at most an hour.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	WindowSeconds int32 `json:"windowSeconds,omitempty"`

	// openSeconds is how long the breaker is open before a few attempts may try, in seconds. Default 60, at most a day.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	OpenSeconds int32 `json:"openSeconds,omitempty"`

	// probes is how many attempts may be under way while the breaker is half-open, and have to succeed to close it. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Probes int32 `json:"probes,omitempty"`

	// override is the word of a person. Auto: what ended decides. Open: nothing starts; when that is over, a few try first. Closed:
	// everything starts; when that is over, counting begins afresh. Default Auto, which needs failurePercent or sameFailures.
	// +optional
	Override BreakerOverride `json:"override,omitempty"`
}

// BreakerOverride is the word of a person about a breaker.
//
// +kubebuilder:validation:Enum=Auto;Open;Closed
type BreakerOverride string

const (
	// BreakerAuto leaves it to what ended.
	BreakerAuto BreakerOverride = "Auto"
	// BreakerForcedOpen lets nothing start.
	BreakerForcedOpen BreakerOverride = "Open"
	// BreakerForcedClosed lets everything start.
	BreakerForcedClosed BreakerOverride = "Closed"
)

// BreakerStatus is the state of a breaker.
//
// +kubebuilder:validation:MinProperties=1
type BreakerStatus struct {
	// state is Closed: everything starts, Open: nothing does, or HalfOpen: a few attempts try.
	// +optional
	// +kubebuilder:validation:Enum=Closed;Open;HalfOpen
	State string `json:"state,omitempty"`

	// since is when the state began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`

	// cause is what opened the breaker last: FailurePercent, SameFailures, ProbeFailed or Override; empty while it is closed.
	// +optional
	// +kubebuilder:validation:Enum=FailurePercent;SameFailures;ProbeFailed;Override
	Cause string `json:"cause,omitempty"`

	// fingerprint is that of the failure that opened it, as in the label of dead letters.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Fingerprint string `json:"fingerprint,omitempty"`

	// successes is how many attempts have succeeded since it is half-open.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Successes *int32 `json:"successes,omitempty"`
}
