package v1alpha1

// AdmissionSpec limits how many tasks may be made. A task above a limit is refused as it is made, with the limit, and with the time
// after which it makes sense to try again.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="has(self.rate) || has(self.maxPending) || has(self.maxWaitSeconds) || has(self.tenant) || has(self.whileBreakerOpen)",message="needs a limit: rate, maxPending, maxWaitSeconds, tenant or whileBreakerOpen"
// +kubebuilder:validation:XValidation:rule="has(self.rate) || (!has(self.periodSeconds) && !has(self.burst))",message="is required with periodSeconds or burst: without it there is no limit",fieldPath=".rate"
// +kubebuilder:validation:XValidation:rule="!has(self.maxPending) || !has(self.tenant) || !has(self.tenant.maxPending) || self.tenant.maxPending <= self.maxPending",message="must not be above admission.maxPending: no tenant could ever use it",fieldPath=".tenant.maxPending"
// +kubebuilder:validation:XValidation:rule="!has(self.rate) || !has(self.tenant) || !has(self.tenant.rate) || self.tenant.rate * (has(self.periodSeconds) ? self.periodSeconds : 1) <= self.rate * (has(self.tenant.periodSeconds) ? self.tenant.periodSeconds : 1)",message="must not be above admission.rate, each by its periodSeconds: no tenant could ever use it",fieldPath=".tenant.rate"
// +kubebuilder:validation:XValidation:rule="!has(self.rate) || !has(self.tenant) || !has(self.tenant.burst) || self.tenant.burst <= (has(self.burst) ? self.burst : self.rate)",message="must not be above admission.burst, whose default is the rate: no tenant could ever use it",fieldPath=".tenant.burst"
type AdmissionSpec struct {
	// rate is how many tasks may be made in periodSeconds, on average, with bursts. Default: no limit. Each replica of the operator counts what it
	// accepts and what it sees made, so that all of them together may exceed it for a moment: see docs/guides/admission.md.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Rate int32 `json:"rate,omitempty"`

	// periodSeconds is the time that rate is about, in seconds. Default 1, at most a day.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`

	// burst is how many tasks may be made at once after a pause. Default: rate.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Burst int32 `json:"burst,omitempty"`

	// maxPending is how many tasks of the queue may exist that have not ended and have no attempt or probe under way: those that wait for their
	// turn, for a key, for the end of a pause, or suspended. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxPending int32 `json:"maxPending,omitempty"`

	// maxWaitSeconds is how long a new task may have to wait for its start, in seconds. By Little's law that is the number of tasks that
	// wait, divided by how many leave the queue in a second, as measured since the queue was last empty and at most over this time. As long
	// as little is known, tasks are accepted. Default: no limit; at most a week.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	MaxWaitSeconds int32 `json:"maxWaitSeconds,omitempty"`

	// tenant limits the tasks of each tenant, beside what limits all. Default: no limits of its own.
	// +optional
	Tenant TenantAdmissionSpec `json:"tenant,omitempty,omitzero"`

	// whileBreakerOpen says what becomes of new tasks while the queue's breaker is open, by its own judgement or by override. Accept: they are
	// made, and wait. Refuse: they are refused, as above a limit, until it is half-open. Needs spec.breaker. Default Accept.
	// +optional
	WhileBreakerOpen BreakerAdmission `json:"whileBreakerOpen,omitempty"`

	// refuseWith is the answer to a task above a limit, always with a Retry-After header. TooManyRequests: HTTP 429, which clients of Kubernetes
	// wait out and repeat by themselves. ServiceUnavailable: HTTP 503, for producers that take 429 for a fault of their own.
	// Default TooManyRequests.
	// +optional
	RefuseWith RefusalAnswer `json:"refuseWith,omitempty"`
}

// TenantAdmissionSpec limits how many tasks each tenant may make.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="has(self.rate) || has(self.maxPending)",message="needs a limit: rate or maxPending"
// +kubebuilder:validation:XValidation:rule="has(self.rate) || (!has(self.periodSeconds) && !has(self.burst))",message="is required with periodSeconds or burst: without it there is no limit",fieldPath=".rate"
type TenantAdmissionSpec struct {
	// rate is how many tasks each tenant may make in periodSeconds. Default: no limit of its own.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Rate int32 `json:"rate,omitempty"`

	// periodSeconds is the time that rate is about, in seconds. Default 1, at most a day.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`

	// burst is how many tasks each tenant may make at once after a pause. Default: rate, but not more than admission.burst is, or its default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Burst int32 `json:"burst,omitempty"`

	// maxPending is what admission.maxPending is, for the tasks of each tenant. Default: no limit of its own.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxPending int32 `json:"maxPending,omitempty"`
}

// BreakerAdmission says what becomes of new tasks while a breaker is open.
//
// +kubebuilder:validation:Enum=Accept;Refuse
type BreakerAdmission string

const (
	// BreakerAccept: they are made, and wait.
	BreakerAccept BreakerAdmission = "Accept"
	// BreakerRefuse: they are refused.
	BreakerRefuse BreakerAdmission = "Refuse"
)

// RefusalAnswer says how a task above a limit is refused.
//
// +kubebuilder:validation:Enum=TooManyRequests;ServiceUnavailable
type RefusalAnswer string

const (
	// RefuseTooManyRequests: HTTP 429.
	RefuseTooManyRequests RefusalAnswer = "TooManyRequests"
	// RefuseServiceUnavailable: HTTP 503.
	RefuseServiceUnavailable RefusalAnswer = "ServiceUnavailable"
)
