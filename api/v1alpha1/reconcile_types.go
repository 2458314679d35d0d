package v1alpha1

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// LostAttemptPolicy says what follows an uncertain attempt.
//
// +kubebuilder:validation:Enum=Retry;Reconcile;DeadLetter
type LostAttemptPolicy string

const (
	// LostAttemptRetry makes another attempt.
	LostAttemptRetry LostAttemptPolicy = "Retry"
	// LostAttemptReconcile lets a probe find out first.
	LostAttemptReconcile LostAttemptPolicy = "Reconcile"
	// LostAttemptDeadLetter ends the task.
	LostAttemptDeadLetter LostAttemptPolicy = "DeadLetter"
)

// ReconcileSpec says how a probe finds out whether an attempt had its effect.
//
// +kubebuilder:validation:XValidation:rule="has(self.template.spec) && size(self.template.spec.containers) > 0",message="needs at least one container",fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || has(self.workerContainer) || size(self.template.spec.containers) == 1",message="is required when the template has more than one container: it names the one that does the work",fieldPath=".workerContainer"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || !has(self.workerContainer) || self.template.spec.containers.exists(c, c.name == self.workerContainer)",message="names no container of the template",fieldPath=".workerContainer"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || self.template.spec.containers.all(c, (has(self.workerContainer) && c.name != self.workerContainer) || (has(c.command) && size(c.command) > 0))",message="the worker container needs a command: the agent starts it, and cannot see the image's own ENTRYPOINT; to find that, run `docker inspect --format '{{json .Config.Entrypoint}}' IMAGE` or `crane config IMAGE`",fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="!has(self.template.spec) || self.template.spec.containers.all(c, (has(self.workerContainer) && c.name != self.workerContainer) || !has(c.lifecycle))",message="the worker container cannot have lifecycle hooks: they run outside the agent's fence and eat the stop grace",fieldPath=".template"
type ReconcileSpec struct {
	// template is the Pod that runs one probe, under the same rules as spec.template. It gets what an attempt gets, the same
	// payload and idempotency key, a fencing token of its own, which is higher than the attempt's, and in
	// $LEASEHOLD_PROBE_ATTEMPT and $LEASEHOLD_PROBE_FENCING_TOKEN the attempt that it probes for. It answers with its exit
	// code. 0: the effect happened, and the task is Completed with the probe's result. 1: it did not, and will not: the next
	// attempt may start. Anything else, and a probe that is lost: not known. A program that ends with 1 when it breaks, as a
	// Python exception does, must be given another exit code for that. Immutable after the first grant.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.restartPolicy) || self.spec.restartPolicy == 'Never'",message="must be Never: a container restarted in place would run outside its term",fieldPath=".spec.restartPolicy"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.activeDeadlineSeconds)",message="is the operator's; use spec.timeouts of the task",fieldPath=".spec.activeDeadlineSeconds"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.terminationGracePeriodSeconds)",message="is the operator's; use spec.stopGraceSeconds of the task",fieldPath=".spec.terminationGracePeriodSeconds"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.shareProcessNamespace) || !self.spec.shareProcessNamespace",message="cannot be true: the agent must be process 1 of its container to fence it",fieldPath=".spec.shareProcessNamespace"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.hostPID) || !self.spec.hostPID",message="cannot be true: the agent must be process 1 of its container to fence it",fieldPath=".spec.hostPID"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.os) || self.spec.os.name == 'linux'",message="the agent runs on Linux only",fieldPath=".spec.os"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.nodeSelector) || !('kubernetes.io/os' in self.spec.nodeSelector) || self.spec.nodeSelector['kubernetes.io/os'] == 'linux'",message="the agent runs on Linux only",fieldPath=".spec.nodeSelector"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || (self.spec.containers.all(c, !has(c.restartPolicy) && !has(c.restartPolicyRules)) && (!has(self.spec.initContainers) || self.spec.initContainers.all(c, !has(c.restartPolicyRules))))",message="containers cannot have a restart policy of their own: a container restarted in place would run outside its term",fieldPath=".spec.containers"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.volumes) || self.spec.volumes.all(v, !v.name.startsWith('leasehold-'))",message="volume names that begin with leasehold- are the operator's",fieldPath=".spec.volumes"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || (self.spec.containers.all(c, !c.name.startsWith('leasehold-')) && (!has(self.spec.initContainers) || self.spec.initContainers.all(c, !c.name.startsWith('leasehold-'))))",message="container names that begin with leasehold- are the operator's",fieldPath=".spec"
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// workerContainer names the container of the template that does the work. Default: the only container.
	// Required with more than one. Immutable after the first grant.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	WorkerContainer string `json:"workerContainer,omitempty"`

	// settleSeconds is how long the first probe for an attempt waits once the attempt's process can no longer run, in seconds.
	// What was asked may take that long to show: give it the longest time in which a request that was sent can still have its
	// effect, where the place of the effect does not compare fencing tokens. 0: no wait. Default 0. Immutable after the
	// first grant.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	SettleSeconds *int32 `json:"settleSeconds,omitempty"`

	// maxProbes is how many probes for one attempt may end without an answer; with the last of them the task is dead-lettered,
	// reason OutcomeUnknown. Between them are the pauses of retry.backoff. A probe that spec.suspend stopped does not count.
	// Default 5. Immutable after the first grant.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxProbes int32 `json:"maxProbes,omitempty"`
}

// DefaultMaxProbes is the default of reconcile.maxProbes.
const DefaultMaxProbes = 5

// OnLost is what follows an uncertain attempt.
func (s *LeasedTaskSpec) OnLost() LostAttemptPolicy { return cmp.Or(s.OnLostAttempt, LostAttemptRetry) }

// Settle is how long the first probe for an attempt waits.
func (r *ReconcileSpec) Settle() time.Duration {
	if r.SettleSeconds == nil { // 0 is the default
		return 0
	}
	return time.Duration(*r.SettleSeconds) * time.Second
}

// Probes is how many probes for one attempt may end without an answer.
func (r *ReconcileSpec) Probes() int32 { return cmp.Or(r.MaxProbes, DefaultMaxProbes) }

// HolderTemplate is the template of the holder's Pod: the task's, or its probe's.
func (t *LeasedTask) HolderTemplate() *corev1.PodTemplateSpec {
	if t.Status.Holder.ProbeFor > 0 {
		return t.Spec.Reconcile.Template
	}
	return t.Spec.Template
}

// HolderWorker is the container of the template that does the work, of an attempt or of a probe; nil if there is none.
func (s *LeasedTaskSpec) HolderWorker(isProbe bool) *corev1.Container {
	if isProbe {
		return workerOf(s.Reconcile.Template, s.Reconcile.WorkerContainer)
	}
	return workerOf(s.Template, s.WorkerContainer)
}

// UncertainAttempt is an attempt of which nobody knows whether it had its effect.
type UncertainAttempt struct {
	// attempt is its number.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`

	// fencingToken is its token.
	// +required
	// +kubebuilder:validation:Minimum=1
	FencingToken int64 `json:"fencingToken,omitempty"`

	// probes is how many probes for it have ended without an answer. Unset: none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Probes int32 `json:"probes,omitempty"`
}
