package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LeasedTask is one unit of work. Each attempt runs in a Pod of its own, holds a Kubernetes Lease, carries a fencing
// token, and counts only after its submission was checked against that token. Wait for it by condition:
// `kubectl wait --for=condition=Finished`.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=lt,categories=all
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.attempt`
// +kubebuilder:printcolumn:name="Token",type=integer,JSONPath=`.status.fencingToken`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.holder.nodeName`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || has(self.status)",message="status cannot be removed",reason=FieldValueForbidden,fieldPath=".status"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.template) == has(oldSelf.spec.template) && (!has(self.spec.template) || self.spec.template == oldSelf.spec.template))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.template"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.workerContainer) == has(oldSelf.spec.workerContainer) && (!has(self.spec.workerContainer) || self.spec.workerContainer == oldSelf.spec.workerContainer))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.workerContainer"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.payload) == has(oldSelf.spec.payload) && (!has(self.spec.payload) || self.spec.payload == oldSelf.spec.payload))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.payload"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.payloadFrom) == has(oldSelf.spec.payloadFrom) && (!has(self.spec.payloadFrom) || self.spec.payloadFrom == oldSelf.spec.payloadFrom))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.payloadFrom"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.verify) == has(oldSelf.spec.verify) && (!has(self.spec.verify) || self.spec.verify == oldSelf.spec.verify))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.verify"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.lease) == has(oldSelf.spec.lease) && (!has(self.spec.lease) || self.spec.lease == oldSelf.spec.lease))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.lease"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.timeouts) == has(oldSelf.spec.timeouts) && (!has(self.spec.timeouts) || self.spec.timeouts == oldSelf.spec.timeouts))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.timeouts"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.retry) == has(oldSelf.spec.retry) && (!has(self.spec.retry) || self.spec.retry == oldSelf.spec.retry))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.retry"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.stopGraceSeconds) == has(oldSelf.spec.stopGraceSeconds) && (!has(self.spec.stopGraceSeconds) || self.spec.stopGraceSeconds == oldSelf.spec.stopGraceSeconds))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.stopGraceSeconds"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase != 'Cancelled' || (has(self.spec.cancel) == has(oldSelf.spec.cancel) && (!has(self.spec.cancel) || self.spec.cancel == oldSelf.spec.cancel))",message="the task is Cancelled, and that is final",reason=FieldValueForbidden,fieldPath=".spec.cancel"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.startAfter) == has(oldSelf.spec.startAfter) && (!has(self.spec.startAfter) || self.spec.startAfter == oldSelf.spec.startAfter))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.startAfter"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.onLostAttempt) == has(oldSelf.spec.onLostAttempt) && (!has(self.spec.onLostAttempt) || self.spec.onLostAttempt == oldSelf.spec.onLostAttempt))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.onLostAttempt"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.reconcile) == has(oldSelf.spec.reconcile) && (!has(self.spec.reconcile) || self.spec.reconcile == oldSelf.spec.reconcile))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.reconcile"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.idempotencyRetentionSeconds) == has(oldSelf.spec.idempotencyRetentionSeconds) && (!has(self.spec.idempotencyRetentionSeconds) || self.spec.idempotencyRetentionSeconds == oldSelf.spec.idempotencyRetentionSeconds))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.idempotencyRetentionSeconds"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.queueName) == has(oldSelf.spec.queueName) && (!has(self.spec.queueName) || self.spec.queueName == oldSelf.spec.queueName))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.queueName"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || (!has(oldSelf.status.fencingToken) && !has(oldSelf.status.deadLetterName)) || (has(self.spec.tenant) == has(oldSelf.spec.tenant) && (!has(self.spec.tenant) || self.spec.tenant == oldSelf.spec.tenant))",message="immutable after the first grant",reason=FieldValueForbidden,fieldPath=".spec.tenant"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.phase) || (has(self.spec.timeouts) && has(self.spec.timeouts.totalSeconds) ? self.spec.timeouts.totalSeconds : 0) == (has(oldSelf.spec.timeouts) && has(oldSelf.spec.timeouts.totalSeconds) ? oldSelf.spec.timeouts.totalSeconds : 0)",message="immutable once the task is accepted: its clock runs from then on",reason=FieldValueForbidden,fieldPath=".spec.timeouts.totalSeconds"
type LeasedTask struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec is the work to do.
	// +required
	Spec LeasedTaskSpec `json:"spec,omitempty,omitzero"`
	// status is the controller's record of what happened. The controller alone writes it.
	// +optional
	// +default={"observedGeneration":-1}
	Status LeasedTaskStatus `json:"status,omitempty,omitzero"`
}

// LeasedTaskList is a list of LeasedTasks.
//
// +kubebuilder:object:root=true
type LeasedTaskList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []LeasedTask `json:"items"`
}

// LeasedTaskSpec is the work to do. Everything but suspend, cancel, priority, ttlSecondsAfterFinished and ttl is immutable after the
// first grant, and once it is on record that there will be none: what the dead letter keeps is what was given up.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.payload) || size(bytes(self.payload)) <= 65536",message="has more than 65536 bytes: the limit counts bytes, not characters",fieldPath=".payload"
// +kubebuilder:validation:XValidation:rule="!has(self.payload) || !has(self.payloadFrom)",message="excludes spec.payload: set one of the two",fieldPath=".payloadFrom"
// +kubebuilder:validation:XValidation:rule="has(self.template) || has(self.queueName)",message="is required unless spec.queueName names a queue that has one",reason=FieldValueRequired,fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || (has(self.template.spec) && size(self.template.spec.containers) > 0)",message="needs at least one container",fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.spec) || has(self.workerContainer) || size(self.template.spec.containers) == 1",message="is required when the template has more than one container: it names the one that does the work",fieldPath=".workerContainer"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.spec) || !has(self.workerContainer) || self.template.spec.containers.exists(c, c.name == self.workerContainer)",message="names no container of the template",fieldPath=".workerContainer"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.spec) || self.template.spec.containers.all(c, (has(self.workerContainer) && c.name != self.workerContainer) || (has(c.command) && size(c.command) > 0))",message="the worker container needs a command: the agent starts it, and cannot see the image's own ENTRYPOINT; to find that, run `docker inspect --format '{{json .Config.Entrypoint}}' IMAGE` or `crane config IMAGE`",fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.spec) || self.template.spec.containers.all(c, (has(self.workerContainer) && c.name != self.workerContainer) || !has(c.lifecycle))",message="the worker container cannot have lifecycle hooks: they run outside the agent's fence and eat the stop grace",fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="has(self.replayOf) == has(oldSelf.replayOf) && (!has(self.replayOf) || self.replayOf == oldSelf.replayOf)",message="immutable",reason=FieldValueForbidden,fieldPath=".replayOf"
// +kubebuilder:validation:XValidation:rule="(has(self.onLostAttempt) && self.onLostAttempt == 'Reconcile') == has(self.reconcile)",message="is required with onLostAttempt Reconcile, and with no other",fieldPath=".reconcile"
// +kubebuilder:validation:XValidation:rule="has(self.idempotencyKey) == has(oldSelf.idempotencyKey) && (!has(self.idempotencyKey) || self.idempotencyKey == oldSelf.idempotencyKey)",message="immutable",reason=FieldValueForbidden,fieldPath=".idempotencyKey"
// +kubebuilder:validation:XValidation:rule="has(self.concurrencyKey) == has(oldSelf.concurrencyKey) && (!has(self.concurrencyKey) || self.concurrencyKey == oldSelf.concurrencyKey)",message="immutable",reason=FieldValueForbidden,fieldPath=".concurrencyKey"
// +kubebuilder:validation:XValidation:rule="has(self.keyPolicy) == has(oldSelf.keyPolicy) && (!has(self.keyPolicy) || self.keyPolicy == oldSelf.keyPolicy)",message="immutable",reason=FieldValueForbidden,fieldPath=".keyPolicy"
// +kubebuilder:validation:XValidation:rule="!has(self.keyPolicy) || has(self.concurrencyKey)",message="needs concurrencyKey: there is no key that another task could have",fieldPath=".keyPolicy"
// +kubebuilder:validation:XValidation:rule="has(self.onDeadLetter) == has(oldSelf.onDeadLetter) && (!has(self.onDeadLetter) || self.onDeadLetter == oldSelf.onDeadLetter)",message="immutable",reason=FieldValueForbidden,fieldPath=".onDeadLetter"
// +kubebuilder:validation:XValidation:rule="!has(self.idempotencyRetentionSeconds) || has(self.idempotencyKey)",message="needs idempotencyKey: without one no answer is kept",fieldPath=".idempotencyRetentionSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.onDeadLetter) || self.onDeadLetter != 'BlockKey' || has(self.idempotencyKey) || has(self.concurrencyKey)",message="BlockKey needs idempotencyKey or concurrencyKey: there is no key to block",fieldPath=".onDeadLetter"
type LeasedTaskSpec struct {
	// suspend holds the task: no attempt starts while it is true, and one that is under way is told to stop, as by cancel,
	// its cancel file saying Suspended; not with onLostAttempt DeadLetter, where a claimed attempt is left to end by itself. The
	// stopped attempt uses neither budget; a success that it submits first completes
	// the task. When suspend is false or unset again, the next attempt starts at once, or after what is left of the pause
	// that an earlier attempt's end had begun, under a higher token. Suspended time counts for no timeout: startSeconds and
	// attemptSeconds begin anew with the next attempt, totalSeconds goes on with what was left of it. A task made with true has no Lease, no Pod and no attempt until then. Default false. May be changed
	// at any time.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// cancel ends the task: Cancelled at once where no worker has claimed, else once the worker has submitted or can no longer
	// run. The worker finds the reason in $LEASEHOLD_CANCEL_FILE, gets SIGTERM, and has the stop grace. If it succeeds
	// all the same, the task is Completed. May be set at any time, too late included (condition CancelRequested says
	// so), and changed or removed until the task is Cancelled; a worker that was told to stop stops all the same.
	// +optional
	Cancel CancelSpec `json:"cancel,omitempty,omitzero"`

	// startAfter is the earliest time of the first attempt, on the operator's clock. Until then the task waits, with no Lease and
	// no Pod. Default: now. Immutable after the first grant.
	// +optional
	StartAfter *metav1.Time `json:"startAfter,omitempty"`

	// queueName is a TaskQueue of the task's namespace: the task starts when its turn has come there. Its attempts after the first, and
	// probes, wait for their turn, too. Default: none, and it starts at once. Immutable after the first grant.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	QueueName string `json:"queueName,omitempty"`

	// tenant is on whose behalf the task runs, for what the queue gives each tenant. It is not checked against anything: who may
	// make tasks may name any. Default: the namespace. Immutable after the first grant.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Tenant string `json:"tenant,omitempty"`

	// priority orders the tasks of a queue: those of a higher one start first. It stops nothing that runs, and has nothing to do with the
	// PriorityClass of the Pod. From -1000 to 1000. Default 0. May be changed at any time.
	// +optional
	// +kubebuilder:validation:Minimum=-1000
	// +kubebuilder:validation:Maximum=1000
	Priority *int32 `json:"priority,omitempty"`

	// idempotencyKey names the work, so that it is done once, however often a task is made for it. Of the tasks in a namespace
	// with the same key one runs; the others wait, and once it has succeeded they are Completed with its result, without a
	// Pod (condition reason Attached). A task with another payload than the one that runs or has succeeded is dead-lettered
	// with reason IdempotencyConflict. The result is kept for idempotencyRetentionSeconds. A key of a task that ended otherwise
	// is free for the next; see onDeadLetter. Workers find it in $LEASEHOLD_IDEMPOTENCY_KEY. At most 253 characters. Default:
	// the task's UID, which no other task has, so that nothing is waited for or kept. Immutable. See docs/keys.md.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	IdempotencyKey string `json:"idempotencyKey,omitempty"`

	// idempotencyRetentionSeconds is for how long the success of this task answers later tasks with the same idempotencyKey, in
	// seconds from its completion, also after the task itself is gone. Default 86400, a day; at most a year. That of the task that
	// ran counts. Needs idempotencyKey. Immutable after the first grant.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	IdempotencyRetentionSeconds int32 `json:"idempotencyRetentionSeconds,omitempty"`

	// concurrencyKey names what at most one task of the namespace may work on at a time. A task takes the key before its first
	// attempt and has it until it has finished, also between attempts and while it is suspended. The others wait, and follow about
	// in the order of their creation. It has nothing to do with an idempotencyKey of the same text. At most 253 characters.
	// Default: no other task is waited for. Immutable. See docs/keys.md.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ConcurrencyKey string `json:"concurrencyKey,omitempty"`

	// keyPolicy says what the task does if its concurrencyKey is not free when it would start: another task has it, or waits for it
	// with a claim that comes first, or a dead letter blocks it. Queue: it waits. Reject: it is dead-lettered, reason KeyRejected, and
	// never runs. Replace: it waits, and every older task with the key that has it, or waits for it, whatever its own keyPolicy, is
	// superseded: it ends Cancelled, reason Superseded, as by cancel: at once where nothing of it runs, else once its worker has
	// stopped; if that submits a success first, it is Completed. Older is by creationTimestamp, within one second by name.
	// A replay waits, with each of them. Needs concurrencyKey. Default Queue. Immutable. See docs/keys.md.
	// +optional
	KeyPolicy KeyPolicy `json:"keyPolicy,omitempty"`

	// onDeadLetter says what becomes of the task's keys if it is dead-lettered. Continue: the next task with the key runs.
	// BlockKey: none runs until the dead letter is replayed with success, discarded, or deleted; tasks that wait say KeyBlocked, and
	// name it.
	// Needs idempotencyKey or concurrencyKey for BlockKey. Default Continue. Immutable.
	// +optional
	OnDeadLetter DeadLetterPolicy `json:"onDeadLetter,omitempty"`

	// template is the Pod that runs one attempt. The worker container needs a command; the agent becomes its parent.
	// restartPolicy must be Never or unset: retries are the task's, each with a new Pod and a new fencing token.
	// terminationGracePeriodSeconds and activeDeadlineSeconds are set by the operator; see stopGraceSeconds. So are the
	// worker container's terminationMessagePath and terminationMessagePolicy, to their defaults: the agent reports there.
	// Of the metadata, labels, annotations and finalizers are used.
	// Init containers and sidecars are not fenced. Default: that of the queue; required unless queueName names one that has one.
	// Immutable after the first grant.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.restartPolicy) || self.spec.restartPolicy == 'Never'",message="must be Never: a container restarted in place would run outside its attempt; use spec.retry",fieldPath=".spec.restartPolicy"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.activeDeadlineSeconds)",message="is the operator's; use spec.timeouts of the task",fieldPath=".spec.activeDeadlineSeconds"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.terminationGracePeriodSeconds)",message="is the operator's; use spec.stopGraceSeconds of the task",fieldPath=".spec.terminationGracePeriodSeconds"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.shareProcessNamespace) || !self.spec.shareProcessNamespace",message="cannot be true: the agent must be process 1 of its container to fence it",fieldPath=".spec.shareProcessNamespace"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.hostPID) || !self.spec.hostPID",message="cannot be true: the agent must be process 1 of its container to fence it",fieldPath=".spec.hostPID"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.os) || self.spec.os.name == 'linux'",message="the agent runs on Linux only",fieldPath=".spec.os"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.nodeSelector) || !('kubernetes.io/os' in self.spec.nodeSelector) || self.spec.nodeSelector['kubernetes.io/os'] == 'linux'",message="the agent runs on Linux only",fieldPath=".spec.nodeSelector"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || (self.spec.containers.all(c, !has(c.restartPolicy) && !has(c.restartPolicyRules)) && (!has(self.spec.initContainers) || self.spec.initContainers.all(c, !has(c.restartPolicyRules))))",message="containers cannot have a restart policy of their own: a container restarted in place would run outside its attempt",fieldPath=".spec.containers"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.volumes) || self.spec.volumes.all(v, !v.name.startsWith('leasehold-'))",message="volume names that begin with leasehold- are the operator's",fieldPath=".spec.volumes"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || (self.spec.containers.all(c, !c.name.startsWith('leasehold-')) && (!has(self.spec.initContainers) || self.spec.initContainers.all(c, !c.name.startsWith('leasehold-'))))",message="container names that begin with leasehold- are the operator's",fieldPath=".spec"
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// workerContainer names the container of the template that does the work, the task's or the queue's. Default: the queue's, with
	// its template, or the only container. Required with more than one. Immutable after the first grant.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	WorkerContainer string `json:"workerContainer,omitempty"`

	// payload is the input of the task, usually JSON, at most 65536 bytes. The worker finds it, byte for byte, in the file
	// $LEASEHOLD_PAYLOAD_FILE. Default: an empty file. It is visible to whoever may read Pods or tasks in the
	// namespace: put no secrets here, but see payloadFrom. Immutable after the first grant.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Payload *string `json:"payload,omitempty"`

	// payloadFrom names a key of a ConfigMap or a Secret that holds the payload, of any bytes. The kubelet puts it into the same
	// file, byte for byte, when an attempt's Pod starts: each attempt sees what the key holds then. While it is missing the
	// task waits to start, and says so, at most timeouts.startSeconds. Whoever may create tasks may so read every Secret of the
	// namespace, as whoever may create Pods. Default: none. Excludes payload. Immutable after the first grant.
	// +optional
	PayloadFrom PayloadSource `json:"payloadFrom,omitempty,omitzero"`

	// verify are conditions on the result, at most 10. An attempt that ends with exit code 0 succeeds if all of them hold; they are
	// asked in order. The first that does not hold, or cannot be evaluated, makes the attempt a failure with reason
	// VerificationFailed, and its result is not kept. A task with an expression that does not compile waits, with reason SpecInvalid,
	// until it is repaired. Default: none; exit code 0 is enough. Immutable after the first grant.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	Verify []ResultCheck `json:"verify,omitempty"`

	// lease says how a holder proves that it is alive. Immutable after the first grant; a holder is judged by what
	// stands on its own Lease.
	// +optional
	Lease LeaseSpec `json:"lease,omitzero"`

	// timeouts bound waiting and running. Immutable after the first grant.
	// +optional
	Timeouts TimeoutsSpec `json:"timeouts,omitzero"`

	// retry says how often and how soon the task is tried again. Immutable after the first grant.
	// +optional
	Retry RetrySpec `json:"retry,omitzero"`

	// onLostAttempt says what follows an attempt that was claimed and ended without a success: it may have had its effect
	// outside, also when it exited with 1, unless its worker submitted that it had none (effect None). Retry: another attempt, as
	// retry says; an effect may be repeated, and the idempotency key, which is the same for every attempt, is what keeps it from
	// that. Reconcile: a probe finds out first, and there is no other attempt unless it says that there was no effect; retry
	// follows after its answer. DeadLetter: the task ends, whatever budget is left and whatever a rule of retry.rules says; then
	// suspend does not stop an attempt, it keeps the first or next one from starting. An attempt that nobody claimed is
	// retried with all three. Default Retry. Immutable after the first grant.
	// +optional
	OnLostAttempt LostAttemptPolicy `json:"onLostAttempt,omitempty"`

	// reconcile says how a probe finds out whether an attempt had its effect. Required with onLostAttempt Reconcile, refused
	// otherwise. Immutable after the first grant.
	// +optional
	Reconcile ReconcileSpec `json:"reconcile,omitempty,omitzero"`

	// stopGraceSeconds is how long the worker has from SIGTERM to SIGKILL when its Pod is told to stop, in seconds.
	// The Pod's terminationGracePeriodSeconds is this plus 5, in which the agent submits. Default 30. Not used when the
	// worker is fenced: then its lease leaves less. Immutable after the first grant.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	StopGraceSeconds int32 `json:"stopGraceSeconds,omitempty"`

	// ttlSecondsAfterFinished is how long a finished task stays, in seconds from status.completionTime; then it is
	// deleted, with its Pods. 0: at once. ttl says otherwise for some outcomes. Default: it stays until somebody deletes
	// it. May be changed at any time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`

	// ttl says how long the task stays after a certain outcome, instead of ttlSecondsAfterFinished. Default: that field, for
	// every outcome. May be changed at any time, also after the end: what stands there when the time has passed counts.
	// +optional
	TTL TTLSpec `json:"ttl,omitempty,omitzero"`

	// replayOf says which dead letter this task replays. The operator sets it on the tasks that it makes for replays, and
	// nobody else may. Default: the task is no replay. Immutable.
	// +optional
	ReplayOf ReplayOf `json:"replayOf,omitempty,omitzero"`
}

// CancelSpec says why, and how soon, a task ends.
type CancelSpec struct {
	// reason is for people, and for the worker, which finds it in its cancel file. At most 1024 bytes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 1024",message="has more than 1024 bytes: the limit counts bytes, not characters"
	Reason string `json:"reason,omitempty"`

	// gracePeriodSeconds is how long the worker has from SIGTERM to SIGKILL, in seconds, if that is less than stopGraceSeconds;
	// it cannot be more. Default: stopGraceSeconds. It may be lowered while the worker is stopping.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	GracePeriodSeconds int32 `json:"gracePeriodSeconds,omitempty"`
}

// LeaseSpec says how a holder proves that it is alive.
//
// +kubebuilder:validation:MinProperties=1
type LeaseSpec struct {
	// durationSeconds is D, the time without a renewal after which a worker is judged dead, in seconds. The agent renews
	// every D/4 and ends its process tree before D has passed. Shorter finds a dead worker sooner and writes more
	// often. Default 30.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=3600
	DurationSeconds int32 `json:"durationSeconds,omitempty"`

	// heartbeat says what keeps the lease renewed. Process: that the worker's command runs. Application: that the command says, by
	// the agent's socket ($LEASEHOLD_SOCKET), that it works: with POST /v1/heartbeat, or with anything else that it posts there.
	// Once it has been silent for three quarters of durationSeconds, counted from its start or from when it was last heard, the
	// lease is not renewed any more; the command's cancel file says HeartbeatMissed, it gets SIGTERM, and is killed with all that
	// it started, as by a fence: before durationSeconds have passed since it was last heard. The attempt is a failure with reason
	// HeartbeatMissed, unless the command wrote its result and exited with 0 meanwhile. A command that is told to stop need not say
	// anything. Have it say so every durationSeconds/4, or more often. Default Process.
	// +optional
	Heartbeat HeartbeatSource `json:"heartbeat,omitempty"`

	// onRenewalFailure says what a worker does that cannot renew its lease in time. Fence: it ends its process tree before
	// D has passed, and attempts do not overlap; the lost attempt is a disruption. Continue: it works on and keeps trying,
	// through an outage of the API server say, until it is told that its term was revoked; after a partition it may
	// therefore run beside its successor, and only the check of the fencing token at the store tells them apart. Choose
	// Continue only if every effect of the worker is guarded by its token. Default Fence.
	// +optional
	OnRenewalFailure RenewalFailurePolicy `json:"onRenewalFailure,omitempty"`
}

// HeartbeatSource says what keeps a lease renewed.
//
// +kubebuilder:validation:Enum=Process;Application
type HeartbeatSource string

const (
	// HeartbeatProcess: that the worker's command runs.
	HeartbeatProcess HeartbeatSource = "Process"
	// HeartbeatApplication: that the command says that it works.
	HeartbeatApplication HeartbeatSource = "Application"
)

// RenewalFailurePolicy says what a worker does that cannot renew its lease in time.
//
// +kubebuilder:validation:Enum=Fence;Continue
type RenewalFailurePolicy string

const (
	// RenewalFailureFence ends the worker's processes before anybody may take it for dead.
	RenewalFailureFence RenewalFailurePolicy = "Fence"
	// RenewalFailureContinue lets the worker run until it is told that its term was revoked.
	RenewalFailureContinue RenewalFailurePolicy = "Continue"
)

// TimeoutsSpec bounds waiting and running, by three clocks. Suspended time counts for none of them.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.totalSeconds) || !has(self.attemptSeconds) || self.totalSeconds >= self.attemptSeconds",message="must not be below attemptSeconds: no attempt could ever use its time",fieldPath=".totalSeconds"
type TimeoutsSpec struct {
	// startSeconds bounds, for each attempt, the time from the grant to the worker's claim, in seconds: scheduling, image
	// pull, volumes, init containers. After it the Pod is deleted and the task is dead-lettered with the cause: what
	// cannot start the first time is not tried again, unless a rule of retry.rules on reason StartTimeout says so.
	// Default 3600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	StartSeconds int32 `json:"startSeconds,omitempty"`

	// attemptSeconds bounds, for each attempt, the time from the worker's claim to its end, in seconds, on the worker's node. Then
	// the worker is told to stop (its cancel file says DeadlineExceeded, and it gets SIGTERM), has stopGraceSeconds, and is
	// killed. The attempt is a failure with reason DeadlineExceeded, unless the worker wrote its result and exited with 0
	// meanwhile. Heartbeats do not extend it. Default: no bound.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=31536000
	AttemptSeconds int32 `json:"attemptSeconds,omitempty"`

	// totalSeconds bounds the task, over all attempts, pauses and waiting, in seconds from its acceptance, or from startAfter
	// if that is later, on the operator's clock; see status.deadline. Then no attempt starts any more, one that is under
	// way is told to stop, as by cancel, its cancel file saying DeadlineExceeded, and the task is dead-lettered with reason
	// DeadlineExceeded, whatever budgets or rules would say. A success that the worker submits first completes the task.
	// Suspended time does not count: what is left goes on when the task is resumed. Not below attemptSeconds.
	// Default: no bound. Immutable once the task is accepted.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=315360000
	TotalSeconds int32 `json:"totalSeconds,omitempty"`
}
