package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase is the controller's record of where a task stands. Completed, Cancelled and DeadLettered are final.
// docs/lifecycle.md has every transition. Wait on conditions, not on phases.
//
// +kubebuilder:validation:Enum=Available;Claimed;Running;Expired;Probing;Completed;Cancelled;DeadLettered
type Phase string

const (
	// PhaseAvailable: accepted; waits for its first or next attempt.
	PhaseAvailable Phase = "Available"
	// PhaseClaimed: a term was granted to an attempt, and its token is on record.
	PhaseClaimed Phase = "Claimed"
	// PhaseRunning: the attempt's worker has claimed its term. A task that ends within two seconds may skip this phase.
	PhaseRunning Phase = "Running"
	// PhaseExpired: the term was revoked; the next attempt starts once the old process can no longer run. A task whose last
	// attempt has ended is here until its dead letter is written.
	PhaseExpired Phase = "Expired"
	// PhaseProbing: nobody knows whether the last attempt had its effect; a probe finds out, or is about to, or
	// the task waits for its queue's onLostAttempt, which is lost.
	PhaseProbing Phase = "Probing"
	// PhaseCompleted: a success was submitted and verified, or a probe found an attempt's effect. Final.
	PhaseCompleted Phase = "Completed"
	// PhaseCancelled: spec.cancel ended it, or a newer task superseded it, and nothing of it runs any more. Final.
	PhaseCancelled Phase = "Cancelled"
	// PhaseDeadLettered: it will not be tried again, and its dead letter is written. Final.
	PhaseDeadLettered Phase = "DeadLettered"
)

// LeasedTaskStatus is the controller's record of what happened on the task's Lease. The rules below are the table
// plan.Transitions and the protocol's promises, kept by the API server whoever writes; a test compares the two.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.phase) || (has(self.phase) && (self.phase == oldSelf.phase || (oldSelf.phase + '>' + self.phase) in ['Available>Claimed', 'Available>Completed', 'Available>DeadLettered', 'Claimed>Running', 'Claimed>Completed', 'Running>Completed', 'Claimed>Available', 'Running>Available', 'Claimed>Expired', 'Running>Expired', 'Expired>Available', 'Expired>DeadLettered', 'Claimed>Probing', 'Running>Probing', 'Expired>Probing', 'Probing>Completed', 'Probing>Available', 'Probing>Expired', 'Available>Cancelled', 'Claimed>Cancelled', 'Running>Cancelled', 'Expired>Cancelled', 'Probing>Cancelled']))",message="changes only as docs/lifecycle.md says",messageExpression="'illegal change from ' + oldSelf.phase + ' to ' + (has(self.phase) ? self.phase : '(none)')",reason=FieldValueForbidden,fieldPath=".phase"
// +kubebuilder:validation:XValidation:rule="(oldSelf.hasValue() && has(oldSelf.value().phase)) || ((!has(self.phase) || self.phase == 'Available') && !has(self.fencingToken) && !has(self.attempt) && !has(self.result) && !has(self.resultRef))",optionalOldSelf=true,message="the first phase is Available, without attempt, token and result",reason=FieldValueForbidden,fieldPath=".phase"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.fencingToken) || (has(self.fencingToken) && self.fencingToken >= oldSelf.fencingToken)",message="never gets lower",reason=FieldValueForbidden,fieldPath=".fencingToken"
// +kubebuilder:validation:XValidation:rule="!(has(self.phase) && self.phase == 'Claimed' && (!has(oldSelf.phase) || oldSelf.phase != 'Claimed')) || (has(self.fencingToken) && (!has(oldSelf.fencingToken) || self.fencingToken > oldSelf.fencingToken))",message="rises with every grant",reason=FieldValueForbidden,fieldPath=".fencingToken"
// +kubebuilder:validation:XValidation:rule="(has(self.fencingToken) == has(oldSelf.fencingToken) && (!has(self.fencingToken) || self.fencingToken == oldSelf.fencingToken)) || (has(self.phase) && (self.phase == 'Claimed' || self.phase == 'Probing') && has(oldSelf.phase) && (oldSelf.phase == 'Available' || oldSelf.phase == 'Probing'))",message="changes with a grant only",reason=FieldValueForbidden,fieldPath=".fencingToken"
// +kubebuilder:validation:XValidation:rule="!(has(self.phase) && self.phase == 'Probing' && has(oldSelf.phase) && oldSelf.phase == 'Probing') || !has(self.attempt) || !has(oldSelf.attempt) || (self.attempt > oldSelf.attempt) == (has(self.fencingToken) && has(oldSelf.fencingToken) && self.fencingToken > oldSelf.fencingToken)",message="rises with every probe, and with nothing else",reason=FieldValueForbidden,fieldPath=".fencingToken"
// +kubebuilder:validation:XValidation:rule="!(has(self.phase) && self.phase == 'Claimed') || !has(self.uncertain)",message="no attempt is granted while it is not known whether an earlier one had its effect",reason=FieldValueForbidden,fieldPath=".phase"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.uncertain) || (has(self.uncertain) && self.uncertain.attempt == oldSelf.uncertain.attempt) || (has(oldSelf.phase) && oldSelf.phase == 'Probing')",message="is settled by a probe only",reason=FieldValueForbidden,fieldPath=".uncertain"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.attempt) || (has(self.attempt) && self.attempt >= oldSelf.attempt)",message="never gets lower",reason=FieldValueForbidden,fieldPath=".attempt"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.result) || (has(self.result) && self.result == oldSelf.result)",message="immutable once set",reason=FieldValueForbidden,fieldPath=".result"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.resultRef) || (has(self.resultRef) && self.resultRef == oldSelf.resultRef)",message="immutable once set",reason=FieldValueForbidden,fieldPath=".resultRef"
// +kubebuilder:validation:XValidation:rule="!has(self.result) || !has(self.resultRef)",message="there is a result already: one of the two is the result",fieldPath=".resultRef"
// +kubebuilder:validation:XValidation:rule="(!has(oldSelf.fencingToken) && !has(oldSelf.deadLetterName) && !has(oldSelf.queueRevision)) || (has(self.queueRevision) == has(oldSelf.queueRevision) && (!has(self.queueRevision) || self.queueRevision == oldSelf.queueRevision))",message="is fixed with the first grant",reason=FieldValueForbidden,fieldPath=".queueRevision"
type LeasedTaskStatus struct {
	// phase is where the task stands.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// observedGeneration is the metadata.generation that this status was computed from. -1: the operator has not seen the task
	// yet, which kstatus, and with it Flux and Helm, would take for done without this number.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`

	// attempt is the 1-based number of the current or last attempt. Probes are numbered with the attempts: after attempt 1 and its
	// probe 2 comes attempt 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`

	// failures counts attempts that ended by their own fault; see spec.retry.maxAttempts. Unset: none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Failures int32 `json:"failures,omitempty"`

	// disruptions counts attempts that ended by no fault of their own; see spec.retry.maxDisruptions. Unset: none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Disruptions int32 `json:"disruptions,omitempty"`

	// fencingToken is the token of the current or last attempt or probe. It only rises. Stores that check it refuse every attempt
	// but the latest.
	// +optional
	// +kubebuilder:validation:Minimum=1
	FencingToken int64 `json:"fencingToken,omitempty"`

	// holder is the Pod of the current or last attempt or probe.
	// +optional
	Holder Holder `json:"holder,omitempty,omitzero"`

	// uncertain is the attempt of which nobody knows whether it had its effect: from its end until a probe has answered, and for
	// good if none did, or none was to. Unset with onLostAttempt Retry, unless that is the queue's, and the revision on record is gone:
	// then until it is back.
	// +optional
	Uncertain UncertainAttempt `json:"uncertain,omitempty,omitzero"`

	// leaseName names the Lease in the task's namespace that is its term.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	LeaseName string `json:"leaseName,omitempty"`

	// leaseUID is the UID of that Lease. One that was deleted and made again is another Lease, and its terms are not on record.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	LeaseUID string `json:"leaseUID,omitempty"`

	// queueRevision names the ControllerRevision that keeps what the task's queue gave it: template and defaults, as they were at the
	// first grant. They count together with the spec from then on, whatever becomes of the queue. Unset: nothing is fixed yet,
	// or the queue gave nothing.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	QueueRevision string `json:"queueRevision,omitempty"`

	// result is what the worker gave as its result, in $LEASEHOLD_RESULT_FILE or by the agent's socket, verified; at most 32 KiB.
	// Unset unless Completed.
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Result *string `json:"result,omitempty"`

	// resultRef is where the result is kept, where the worker gave such a reference instead of a result. It is recorded as given:
	// nobody has followed it, so whoever reads it compares the digest. Unset unless Completed.
	// +optional
	ResultRef ResultRef `json:"resultRef,omitempty,omitzero"`

	// progress is how far the worker of the current or last attempt has come, by its own account. It is recorded at most every 10
	// seconds, and when the attempt ends; a new attempt begins without, and a finished task keeps the last.
	// +optional
	Progress Progress `json:"progress,omitempty,omitzero"`

	// checkpoint is what the worker left for the next attempt, at most 1024 bytes. The worker's is on its Lease; it is recorded here
	// when the attempt ends, and with progress. If somebody deletes the Lease of a running attempt, what is recorded here is
	// what the next one gets. Unset: it left nothing. It is visible to whoever may read tasks or Leases in the namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Checkpoint string `json:"checkpoint,omitempty"`

	// nextAttemptTime is when the pause before the next attempt or probe ends. Unset while one is under way.
	// +optional
	NextAttemptTime *metav1.MicroTime `json:"nextAttemptTime,omitempty"`

	// deadline is when spec.timeouts.totalSeconds will be over. Unset while that clock stands still, because the task is suspended,
	// and where there is none.
	// +optional
	Deadline *metav1.Time `json:"deadline,omitempty"`

	// remainingSeconds is what is left of spec.timeouts.totalSeconds, in seconds, while the task is suspended; the deadline is set
	// from it when the task is resumed. Unset while that clock runs.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	RemainingSeconds *int32 `json:"remainingSeconds,omitempty"`

	// startTime is when the first attempt's worker claimed its term.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// completionTime is when the task reached its final phase.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`

	// deadLetterName names the DeadLetter that keeps the task, from when it is decided that there will be no further attempt. It
	// exists once the task is DeadLettered.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DeadLetterName string `json:"deadLetterName,omitempty"`

	// history has one entry for each attempt and probe that has ended, oldest first; the latest 20, one of which is the attempt
	// that is uncertain. That the task attached to another one's result, is in conflict with it, was superseded by another one, or rejected, is an
	// entry too, the last, without Pod and token.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	History []AttemptRecord `json:"history,omitempty"`

	// conditions are Finished, Succeeded, Waiting, LeaseHeld, CancelRequested, Ready, Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Holder is the Pod of an attempt.
type Holder struct {
	// podName is the Pod's name, and the Lease's holderIdentity while the term is open.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PodName string `json:"podName,omitempty"`

	// nodeName is the node that the Pod's worker claimed from. Unset before the claim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName,omitempty"`

	// podUID is the UID of the Pod that claimed. Unset before the claim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	PodUID string `json:"podUID,omitempty"`

	// claimTime is when the worker claimed its term, as far as it could be seen. Unset before the claim.
	// +optional
	ClaimTime *metav1.Time `json:"claimTime,omitempty"`

	// probeFor is the number of the attempt that the Pod probes for. Unset: it runs an attempt.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProbeFor int32 `json:"probeFor,omitempty"`
}

// AttemptOutcome says how an attempt ended.
//
// +kubebuilder:validation:Enum=Succeeded;Failed;Disrupted;Stopped
type AttemptOutcome string

const (
	// AttemptSucceeded: submitted, verified, counted; of a probe: it answered.
	AttemptSucceeded AttemptOutcome = "Succeeded"
	// AttemptFailed: ended by its own fault.
	AttemptFailed AttemptOutcome = "Failed"
	// AttemptDisrupted: ended by no fault of its own.
	AttemptDisrupted AttemptOutcome = "Disrupted"
	// AttemptStopped: told to stop by spec.cancel or spec.suspend, because the task's queue is drained, because a newer task replaces
	// this one, or because timeouts.totalSeconds is over; or it was about to be made, and is not, because a newer task replaces this
	// one. It uses neither budget.
	AttemptStopped AttemptOutcome = "Stopped"
)

// AttemptRecord is what is known of one attempt or probe that has ended.
type AttemptRecord struct {
	// attempt is its 1-based number.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`

	// fencingToken is its token.
	// +optional
	// +kubebuilder:validation:Minimum=1
	FencingToken int64 `json:"fencingToken,omitempty"`

	// podName is its Pod.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PodName string `json:"podName,omitempty"`

	// nodeName is the node that its worker ran on. Unset if no worker claimed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	NodeName string `json:"nodeName,omitempty"`

	// startTime is when its worker claimed. Unset if none did.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// endTime is when the controller recorded its end.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`

	// outcome says whose fault the end was.
	// +required
	Outcome AttemptOutcome `json:"outcome,omitempty"`

	// reason is one word for programs, from a closed list; see docs/lifecycle.md.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message is one sentence for people.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// exitCode is the worker's exit code, where one is known. 128+n: killed by signal n.
	// +optional
	ExitCode *int32 `json:"exitCode,omitempty"`

	// evidence says what the record rests on: Submission (the agent's own word), Pod (the kubelet's), Observation
	// (the controller saw no renewal), Key (the Lease of the task's idempotencyKey or concurrencyKey).
	// +optional
	Evidence Evidence `json:"evidence,omitempty"`

	// action is what a rule of spec.retry.rules made of this end. Unset: no rule matched.
	// +optional
	Action RetryAction `json:"action,omitempty"`

	// effect is what the worker submitted of its effect outside. None: it had none, and another attempt may safely be made. Unset:
	// it said nothing, so there may have been one.
	// +optional
	Effect Effect `json:"effect,omitempty"`

	// probeFor is the number of the attempt that this was a probe for; its exit code is its answer, and it uses neither budget.
	// Unset: this was an attempt.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ProbeFor int32 `json:"probeFor,omitempty"`

	// failureClass is what the worker said of its failure by the agent's socket: Permanent (retryable: false; the task ends, unless
	// a rule of spec.retry.rules says otherwise), or Transient (retryable: true). Unset: it said neither.
	// +optional
	FailureClass FailureClass `json:"failureClass,omitempty"`

	// retryAfterSeconds is the pause before the next attempt that the worker asked for, in seconds, in place of the back-off's.
	// Unset: it asked for none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	RetryAfterSeconds *int32 `json:"retryAfterSeconds,omitempty"`

	// lateSubmission is set when the attempt's agent submitted after its term had been revoked, and was refused.
	// +optional
	LateSubmission LateSubmission `json:"lateSubmission,omitempty,omitzero"`
}

// Effect is what a worker says of its effect outside.
//
// +kubebuilder:validation:Enum=None
type Effect string

// EffectNone: there was none.
const EffectNone Effect = "None"

// Evidence says what a record rests on.
//
// +kubebuilder:validation:Enum=Submission;Pod;Observation;Key
type Evidence string

const (
	// EvidenceSubmission: the agent's own word.
	EvidenceSubmission Evidence = "Submission"
	// EvidencePod: the kubelet's account of the Pod.
	EvidencePod Evidence = "Pod"
	// EvidenceObservation: the controller saw no renewal, or no Lease.
	EvidenceObservation Evidence = "Observation"
	// EvidenceKey: the Lease of one of the task's keys.
	EvidenceKey Evidence = "Key"
)

// LateSubmission is what a worker wanted to submit after its term had been revoked.
type LateSubmission struct {
	// outcome is the refused submission's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Outcome string `json:"outcome,omitempty"`

	// fencingToken is the token that it named.
	// +optional
	// +kubebuilder:validation:Minimum=1
	FencingToken int64 `json:"fencingToken,omitempty"`

	// time is when the worker's container ended.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
}
