package v1alpha1

import corev1 "k8s.io/api/core/v1"

// RetrySpec has two budgets. Failures are the attempt's own fault: a non-zero exit, a result that does not verify, memory
// exhausted, a worker that vanished without explanation. Disruptions are not: eviction, preemption, a deleted Pod, a lost node,
// a worker that fenced itself. Waiting counts against neither.
//
// +kubebuilder:validation:MinProperties=1
type RetrySpec struct {
	// maxAttempts is how many failures the task may have in all, the first attempt included: with 1 the first failure is
	// the last. Default 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	MaxAttempts int32 `json:"maxAttempts,omitempty"`

	// maxDisruptions is how many disruptions are forgiven; one more ends the task. 0: none. Default 10.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxDisruptions *int32 `json:"maxDisruptions,omitempty"`

	// backoff is the pause before the next attempt. A worker that fails may ask for another, of 0 to 86400 seconds, by the agent's
	// socket (retryAfterSeconds); that one has no jitter.
	// +optional
	Backoff BackoffSpec `json:"backoff,omitzero"`

	// rules say otherwise for attempts that ended in a certain way, at most 20. They are asked first, and the first that matches
	// decides. Where none does, a failure that its worker called permanent (POST /v1/fail with retryable: false) ends the task, and
	// so does an attempt that could not start; any other failure is charged to maxAttempts, a disruption to maxDisruptions. A
	// success is never judged by them, nor an attempt that was told to stop by cancel or suspend, because the task's queue is drained,
	// because a newer task replaces this one, or because timeouts.totalSeconds is over; no rule brings back a task whose total time is.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	Rules []RetryRule `json:"rules,omitempty"`
}

// RetryRule says what follows an attempt that ended in a certain way. Every requirement that is given must hold.
//
// +kubebuilder:validation:XValidation:rule="has(self.onExitCodes) || has(self.onReasons) || has(self.onPodConditions)",message="needs at least one of onExitCodes, onReasons and onPodConditions"
type RetryRule struct {
	// action is what follows. Retry: the attempt is charged as a failure. Ignore: it is charged as a disruption. DeadLetter:
	// the task ends, whatever budget is left.
	// +required
	Action RetryAction `json:"action,omitempty"`

	// onExitCodes holds for an attempt whose command ended with one of the exit codes, or with none of them.
	// +optional
	OnExitCodes ExitCodeRequirement `json:"onExitCodes,omitempty,omitzero"`

	// onReasons holds for an attempt that ended for one of these reasons, as status.history names them: OOMKilled,
	// LeaseExpired, StartTimeout, ..., or whatever the worker gave; a StartTimeout also by what it was waiting for, as the
	// Waiting condition named it: ImagePull, Unschedulable, ... docs/lifecycle.md lists those of the controller and the
	// agent. At most 20.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z][A-Za-z0-9_.:-]*$`
	OnReasons []string `json:"onReasons,omitempty"`

	// onPodConditions holds for an attempt whose Pod had one of these conditions when the attempt's end was recorded,
	// DisruptionTarget for instance. It never holds for a Pod that was gone by then. At most 20.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=20
	OnPodConditions []PodConditionRequirement `json:"onPodConditions,omitempty"`
}

// RetryAction says what follows an attempt.
//
// +kubebuilder:validation:Enum=Retry;Ignore;DeadLetter
type RetryAction string

const (
	// RetryActionRetry charges the attempt as a failure.
	RetryActionRetry RetryAction = "Retry"
	// RetryActionIgnore charges it as a disruption.
	RetryActionIgnore RetryAction = "Ignore"
	// RetryActionDeadLetter ends the task.
	RetryActionDeadLetter RetryAction = "DeadLetter"
)

// ExitCodeRequirement compares the command's exit code with a list. It holds only for an attempt whose agent submitted one: the exit
// code of a container whose agent was killed, or fenced itself, is not the command's.
type ExitCodeRequirement struct {
	// operator is In (one of the values) or NotIn (none of them).
	// +required
	Operator ExitCodeOperator `json:"operator,omitempty"`

	// values are exit codes, each from 0 to 255. 128+n: killed by signal n. At most 255.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=255
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=255
	Values []int32 `json:"values,omitempty"`
}

// ExitCodeOperator says how an exit code relates to a list.
//
// +kubebuilder:validation:Enum=In;NotIn
type ExitCodeOperator string

const (
	// ExitCodeIn holds for an exit code in the list.
	ExitCodeIn ExitCodeOperator = "In"
	// ExitCodeNotIn holds for an exit code that is not in the list.
	ExitCodeNotIn ExitCodeOperator = "NotIn"
)

// PodConditionRequirement names a condition of a Pod.
type PodConditionRequirement struct {
	// type is the condition's type, DisruptionTarget for instance.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Type string `json:"type,omitempty"`

	// status is the condition's status. Default True.
	// +optional
	// +kubebuilder:validation:Enum="True";"False";Unknown
	Status corev1.ConditionStatus `json:"status,omitempty"`
}

// BackoffSpec is an exponential pause: bound = min(maxSeconds, initialSeconds * factor^(n-1)), with n the number of failures and
// disruptions so far, then jitter.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="(has(self.maxSeconds) ? self.maxSeconds : 300) >= (has(self.initialSeconds) ? self.initialSeconds : 1)",message="must not be below initialSeconds (defaults: initialSeconds 1, maxSeconds 300)",fieldPath=".maxSeconds"
type BackoffSpec struct {
	// initialSeconds is the bound of the first pause, in seconds. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	InitialSeconds int32 `json:"initialSeconds,omitempty"`

	// maxSeconds is the largest bound, in seconds. Not below initialSeconds. Default 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	MaxSeconds int32 `json:"maxSeconds,omitempty"`

	// factor multiplies the bound from one pause to the next; 1 keeps it constant. Default 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	Factor int32 `json:"factor,omitempty"`

	// jitter spreads retries that began together. Full: uniform between 0 and the bound. Equal: half of the bound, and
	// uniform up to as much again. None: the bound. Default Full.
	// +optional
	Jitter Jitter `json:"jitter,omitempty"`
}

// Jitter spreads retries that began together.
//
// +kubebuilder:validation:Enum=Full;Equal;None
type Jitter string

const (
	// JitterFull is uniform between 0 and the bound.
	JitterFull Jitter = "Full"
	// JitterEqual is half of the bound, and uniform up to as much again.
	JitterEqual Jitter = "Equal"
	// JitterNone is the bound.
	JitterNone Jitter = "None"
)
