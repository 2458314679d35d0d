package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeadLetter keeps a task that will not be tried again: its exact spec and payload, how it failed, and the switch that
// replays it. The operator makes it before the task becomes DeadLettered. It outlives the task, and stays until somebody
// deletes it, or, once it is replayed or discarded, for its retention. See docs/dead-letters.md.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dl
// +kubebuilder:printcolumn:name="Task",type=string,JSONPath=`.spec.task.name`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="Failure",type=string,JSONPath=`.spec.history[-1:].reason`
// +kubebuilder:printcolumn:name="Replay",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Fingerprint",type=string,JSONPath=`.spec.fingerprint`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.spec.replay)",optionalOldSelf=true,message="a dead letter is made without a replay; set it afterwards",reason=FieldValueForbidden,fieldPath=".spec.replay"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.replay) || has(self.spec.replay)",message="cannot be removed: the number of the last request is kept",reason=FieldValueForbidden,fieldPath=".spec.replay"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.replay) || !has(self.spec.replay) || self.spec.replay.request >= oldSelf.spec.replay.request",message="only rises",reason=FieldValueForbidden,fieldPath=".spec.replay.request"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.replay) || !has(self.spec.replay) || self.spec.replay.request != oldSelf.spec.replay.request || self.spec.replay == oldSelf.spec.replay",message="payload and templatePatch change with a new request number only",reason=FieldValueForbidden,fieldPath=".spec.replay"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.replay) || !has(self.spec.replay) || self.spec.replay.request == oldSelf.spec.replay.request || (has(oldSelf.status) && has(oldSelf.status.lastRequest) && oldSelf.status.lastRequest >= oldSelf.spec.replay.request)",message="rises once the last request was answered; see status",reason=FieldValueForbidden,fieldPath=".spec.replay.request"
// +kubebuilder:validation:XValidation:rule="oldSelf.hasValue() || !has(self.spec.discard)",optionalOldSelf=true,message="a dead letter is made without a discard; set it afterwards",reason=FieldValueForbidden,fieldPath=".spec.discard"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.discard) || (has(self.spec.discard) && self.spec.discard == oldSelf.spec.discard)",message="is final: it cannot be changed or removed",reason=FieldValueForbidden,fieldPath=".spec.discard"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec.discard) || (has(self.spec.replay) == has(oldSelf.spec.replay) && (!has(self.spec.replay) || self.spec.replay == oldSelf.spec.replay))",message="the dead letter is discarded, and that is final",reason=FieldValueForbidden,fieldPath=".spec.replay"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.discard) || has(oldSelf.spec.discard) || !has(self.spec.replay) || (has(self.status) && has(self.status.lastRequest) && self.status.lastRequest >= self.spec.replay.request)",message="a replay was asked for and is not answered yet; see status",reason=FieldValueForbidden,fieldPath=".spec.discard"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || has(self.status)",message="status cannot be removed",reason=FieldValueForbidden,fieldPath=".status"
type DeadLetter struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec is the task as it was given up, and the switch that replays it.
	// +required
	Spec DeadLetterSpec `json:"spec,omitempty,omitzero"`
	// status is what became of replay requests. The controller alone writes it.
	// +optional
	Status DeadLetterStatus `json:"status,omitempty,omitzero"`
}

// DeadLetterList is a list of DeadLetters.
//
// +kubebuilder:object:root=true
type DeadLetterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []DeadLetter `json:"items"`
}

// DeadLetterSpec is the task as it was given up, and the switch that replays it. Everything but
// replay, discard and retentionSeconds is immutable.
//
// +kubebuilder:validation:XValidation:rule="self.task == oldSelf.task",message="immutable",reason=FieldValueForbidden,fieldPath=".task"
// +kubebuilder:validation:XValidation:rule="self.idempotencyKey == oldSelf.idempotencyKey",message="immutable",reason=FieldValueForbidden,fieldPath=".idempotencyKey"
// +kubebuilder:validation:XValidation:rule="self.reason == oldSelf.reason",message="immutable",reason=FieldValueForbidden,fieldPath=".reason"
// +kubebuilder:validation:XValidation:rule="has(self.message) == has(oldSelf.message) && (!has(self.message) || self.message == oldSelf.message)",message="immutable",reason=FieldValueForbidden,fieldPath=".message"
// +kubebuilder:validation:XValidation:rule="self.fingerprint == oldSelf.fingerprint",message="immutable",reason=FieldValueForbidden,fieldPath=".fingerprint"
// +kubebuilder:validation:XValidation:rule="has(self.attempts) == has(oldSelf.attempts) && (!has(self.attempts) || self.attempts == oldSelf.attempts)",message="immutable",reason=FieldValueForbidden,fieldPath=".attempts"
// +kubebuilder:validation:XValidation:rule="has(self.failures) == has(oldSelf.failures) && (!has(self.failures) || self.failures == oldSelf.failures)",message="immutable",reason=FieldValueForbidden,fieldPath=".failures"
// +kubebuilder:validation:XValidation:rule="has(self.disruptions) == has(oldSelf.disruptions) && (!has(self.disruptions) || self.disruptions == oldSelf.disruptions)",message="immutable",reason=FieldValueForbidden,fieldPath=".disruptions"
// +kubebuilder:validation:XValidation:rule="has(self.fencingToken) == has(oldSelf.fencingToken) && (!has(self.fencingToken) || self.fencingToken == oldSelf.fencingToken)",message="immutable",reason=FieldValueForbidden,fieldPath=".fencingToken"
// +kubebuilder:validation:XValidation:rule="has(self.history) == has(oldSelf.history) && (!has(self.history) || self.history == oldSelf.history)",message="immutable",reason=FieldValueForbidden,fieldPath=".history"
type DeadLetterSpec struct {
	// task is the task that was given up. Immutable.
	// +required
	Task DeadLetterTask `json:"task,omitempty,omitzero"`

	// idempotencyKey is the value that the task's worker had in $LEASEHOLD_IDEMPOTENCY_KEY; a replay's worker has the same.
	// Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	IdempotencyKey string `json:"idempotencyKey,omitempty"`

	// reason says why the task was given up, in one word: BudgetExceeded, RetryRule, NotRetryable, StartTimeout, CannotStart,
	// DeadlineExceeded, LostAttempt, OutcomeUnknown, IdempotencyConflict, KeyRejected. Why its last attempt failed stands in history.
	// Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message is one sentence for people. Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// fingerprint is the same for tasks that failed in the same way: a hash of the last attempt's reason, exit code, and message
	// without what differs from one task to the next (names, numbers). It is also the value of the label
	// leasehold.io/fingerprint, so that a flood of one failure can be counted and deleted as one. Immutable.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	// +kubebuilder:validation:MinLength=16
	// +kubebuilder:validation:MaxLength=16
	Fingerprint string `json:"fingerprint,omitempty"`

	// attempts is the number of the last attempt or probe. Unset: there was none. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Attempts int32 `json:"attempts,omitempty"`

	// failures is how many attempts ended by their own fault. Unset: none. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Failures int32 `json:"failures,omitempty"`

	// disruptions is how many attempts ended by no fault of their own. Unset: none. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Disruptions int32 `json:"disruptions,omitempty"`

	// fencingToken is the token of the last attempt or probe. A replay's attempts have higher ones. Immutable.
	// +optional
	// +kubebuilder:validation:Minimum=1
	FencingToken int64 `json:"fencingToken,omitempty"`

	// history is the task's, oldest first; the latest 20 attempts and probes. Immutable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	History []AttemptRecord `json:"history,omitempty"`

	// replay makes a new task of this dead letter. Default: none. May be set and raised at any time after the last request was
	// answered, unless the dead letter is discarded, and not be removed.
	// +optional
	Replay ReplaySpec `json:"replay,omitempty,omitzero"`

	// discard says that somebody has decided not to replay this dead letter, or not again. It stays, for the record, for its
	// retention. Default: nobody has. May be set once, while no replay request is open, and is final.
	// +optional
	Discard DiscardSpec `json:"discard,omitempty,omitzero"`

	// retentionSeconds is how long the dead letter stays once it is settled, in seconds from when it was discarded or, if it was
	// not, last replayed; then it is deleted. 0: at once. One that is neither stays until somebody deletes it. Default: the
	// operator's, which without its flag --dead-letter-retention is to keep it. May be changed at any time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	RetentionSeconds *int32 `json:"retentionSeconds,omitempty"`
}

// DeadLetterTask is a task as it was given up.
type DeadLetterTask struct {
	// name is the task's name. Another task may bear it by now.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// uid is the task's UID.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`

	// spec is the spec of the LeasedTask, its payload byte for byte. References to Secrets and ConfigMaps stay references. It has
	// no schema of its own: the task was checked when it was made, and a replay is checked again. At most what the policy
	// leasehold-task-size lets through.
	// +required
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec runtime.RawExtension `json:"spec,omitempty,omitzero"`
}

// ReplaySpec asks for a replay: one new LeasedTask, with the spec of the old one as changed here, the same idempotency key,
// and fencing tokens above all earlier ones.
//
// +kubebuilder:validation:XValidation:rule="!has(self.payload) || size(bytes(self.payload)) <= 65536",message="has more than 65536 bytes: the limit counts bytes, not characters",fieldPath=".payload"
type ReplaySpec struct {
	// request numbers the requests. Each number makes one task, once: setting the same number again does nothing, also after the
	// task it made is gone. It only rises; numbers may be left out.
	// +required
	// +kubebuilder:validation:Minimum=1
	Request int64 `json:"request,omitempty"`

	// payload replaces the task's payload, or its payloadFrom, at most 65536 bytes. Default: the old one; what payloadFrom names is
	// read anew. Who sets it needs the right to create
	// LeasedTasks, too.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Payload *string `json:"payload,omitempty"`

	// templatePatch changes the task's template: a strategic merge patch of the PodTemplateSpec, in YAML or JSON, as `kubectl patch`
	// takes it. Containers merge by name, so that a new image needs no copy of the rest. Default: no change. One that makes no
	// valid task is refused, and makes nothing. Who sets it needs the right to create LeasedTasks, too.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	TemplatePatch string `json:"templatePatch,omitempty"`
}

// DeadLetterStatus is what became of replay requests.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.lastRequest) || (has(self.lastRequest) && self.lastRequest >= oldSelf.lastRequest)",message="never gets lower",reason=FieldValueForbidden,fieldPath=".lastRequest"
type DeadLetterStatus struct {
	// observedGeneration is the metadata.generation that this status was computed from.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastRequest is the highest request number that was answered. Unset: none was. It only rises.
	// +optional
	// +kubebuilder:validation:Minimum=1
	LastRequest int64 `json:"lastRequest,omitempty"`

	// replays has one entry for each request that was answered, oldest first; the latest 20.
	// +optional
	// +listType=map
	// +listMapKey=request
	// +kubebuilder:validation:MaxItems=20
	Replays []ReplayRecord `json:"replays,omitempty"`

	// discardTime is when the discard was put on record. Unset: the dead letter is not discarded.
	// +optional
	DiscardTime *metav1.Time `json:"discardTime,omitempty"`

	// conditions are Replayed, Discarded, Ready, Reconciling, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReplayRecord is the answer to a replay request.
type ReplayRecord struct {
	// request is its number.
	// +required
	// +kubebuilder:validation:Minimum=1
	Request int64 `json:"request,omitempty"`

	// outcome is Created (one task was made) or Refused (none was, and none will be for this number).
	// +required
	Outcome ReplayOutcome `json:"outcome,omitempty"`

	// taskName is the LeasedTask that was made. Unset if Refused.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	TaskName string `json:"taskName,omitempty"`

	// taskUID is its UID.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TaskUID string `json:"taskUID,omitempty"`

	// time is when the request was answered.
	// +required
	Time *metav1.Time `json:"time,omitempty"`

	// message says why the request was refused, in the words of whoever refused it. Unset if Created.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
}

// ReplayOutcome says what a replay request made.
//
// +kubebuilder:validation:Enum=Created;Refused
type ReplayOutcome string

const (
	// ReplayCreated: one task was made.
	ReplayCreated ReplayOutcome = "Created"
	// ReplayRefused: none was made.
	ReplayRefused ReplayOutcome = "Refused"
)

// ReplayOf says which dead letter a task replays.
type ReplayOf struct {
	// deadLetterName is the DeadLetter, in the task's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DeadLetterName string `json:"deadLetterName,omitempty"`

	// deadLetterUID is its UID.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	DeadLetterUID string `json:"deadLetterUID,omitempty"`

	// request is the number of the request that this task answers.
	// +required
	// +kubebuilder:validation:Minimum=1
	Request int64 `json:"request,omitempty"`

	// idempotencyKey is the dead letter's: the worker finds it in $LEASEHOLD_IDEMPOTENCY_KEY, as its ancestor's worker did.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	IdempotencyKey string `json:"idempotencyKey,omitempty"`
}
