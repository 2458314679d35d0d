package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TaskQueue is capacity: how many of the tasks that name it run at the same time, in which order, and how soon one after the
// other. A task names a queue of its own namespace in spec.queueName, and waits with reason QueueMissing while there is none of that
// name. Deleting a queue stops nothing that runs. See docs/guides/queues.md.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tq
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`
// +kubebuilder:printcolumn:name="Concurrency",type=integer,JSONPath=`.spec.concurrency`
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pending`
// +kubebuilder:printcolumn:name="Oldest",type=date,JSONPath=`.status.oldestPendingTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type TaskQueue struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`
	// spec is what the queue allows. All of it may be changed at any time.
	// +optional
	Spec TaskQueueSpec `json:"spec,omitempty,omitzero"`
	// status is what the queue does. The controller alone writes it.
	// +optional
	Status TaskQueueStatus `json:"status,omitempty,omitzero"`
}

// TaskQueueList is a list of TaskQueues.
//
// +kubebuilder:object:root=true
type TaskQueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []TaskQueue `json:"items"`
}

// TaskQueueSpec is what the queue allows, and what it gives to its tasks. Without one everything is allowed, in order of priority and age.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.template) || (has(self.template.spec) && size(self.template.spec.containers) > 0)",message="needs at least one container",fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="!has(self.workerContainer) || has(self.template)",message="needs spec.template: it names one of its containers",fieldPath=".workerContainer"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.spec) || has(self.workerContainer) || size(self.template.spec.containers) == 1",message="is required when the template has more than one container: it names the one that does the work",fieldPath=".workerContainer"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.spec) || !has(self.workerContainer) || self.template.spec.containers.exists(c, c.name == self.workerContainer)",message="names no container of the template",fieldPath=".workerContainer"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.spec) || self.template.spec.containers.all(c, (has(self.workerContainer) && c.name != self.workerContainer) || (has(c.command) && size(c.command) > 0))",message="the worker container needs a command: the agent starts it, and cannot see the image's own ENTRYPOINT; to find that, run `docker inspect --format '{{json .Config.Entrypoint}}' IMAGE` or `crane config IMAGE`",fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="!has(self.template) || !has(self.template.spec) || self.template.spec.containers.all(c, (has(self.workerContainer) && c.name != self.workerContainer) || !has(c.lifecycle))",message="the worker container cannot have lifecycle hooks: they run outside the agent's fence and eat the stop grace",fieldPath=".template"
// +kubebuilder:validation:XValidation:rule="!has(self.concurrency) || !has(self.tenants) || !has(self.tenants.concurrency) || self.tenants.concurrency <= self.concurrency",message="must not be above spec.concurrency: no tenant could ever use it",fieldPath=".tenants.concurrency"
// +kubebuilder:validation:XValidation:rule="!has(self.concurrency) || !has(self.tenants) || !has(self.tenants.overrides) || self.tenants.overrides.all(t, !has(t.concurrency) || t.concurrency <= self.concurrency)",message="no concurrency of a tenant may be above spec.concurrency: the tenant could never use it",fieldPath=".tenants.overrides"
// +kubebuilder:validation:XValidation:rule="!has(self.admission) || !has(self.admission.whileBreakerOpen) || has(self.breaker)",message="needs spec.breaker: there is none that could be open",fieldPath=".admission.whileBreakerOpen"
type TaskQueueSpec struct {
	// concurrency is how many of the queue's tasks may have an attempt, or a probe, under way at the same time: from its grant until
	// its process can no longer run. Lowering it stops nothing. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Concurrency int32 `json:"concurrency,omitempty"`

	// tenants divides the capacity between the tenants of the queue's tasks. Default: equal weights, no limit for one tenant.
	// +optional
	Tenants TenantsSpec `json:"tenants,omitempty,omitzero"`

	// dispatch says how soon attempts may start one after the other, and how waiting raises a task's priority. Default: as soon as
	// there is capacity, and it does not.
	// +optional
	Dispatch DispatchSpec `json:"dispatch,omitempty,omitzero"`

	// breaker stops the starts of the queue while most of them would fail. Default: it has none.
	// +optional
	Breaker BreakerSpec `json:"breaker,omitempty,omitzero"`

	// admission limits how many tasks may be made. Default: every task is accepted, and waits.
	// +optional
	Admission AdmissionSpec `json:"admission,omitempty,omitzero"`

	// paused stops the queue. No: it runs. Hold: no attempt starts; those under way go on. Drain: those under way are told to stop, too,
	// as by suspend: none is charged to a budget, and a success that was submitted first counts. Default No.
	// +optional
	Paused PauseMode `json:"paused,omitempty"`

	// template is the Pod that runs one attempt of a task that has no template itself, under the same rules as that: a task's own
	// replaces it, and the two are not merged. A change is for tasks that have had no grant yet: with its first, what the queue
	// gives a task is fixed for it, as a ControllerRevision. Default: every task needs its own.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.restartPolicy) || self.spec.restartPolicy == 'Never'",message="must be Never: a container restarted in place would run outside its attempt; use spec.defaults.retry",fieldPath=".spec.restartPolicy"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.activeDeadlineSeconds)",message="is the operator's; use spec.defaults.timeouts",fieldPath=".spec.activeDeadlineSeconds"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.terminationGracePeriodSeconds)",message="is the operator's; use spec.defaults.stopGraceSeconds",fieldPath=".spec.terminationGracePeriodSeconds"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.shareProcessNamespace) || !self.spec.shareProcessNamespace",message="cannot be true: the agent must be process 1 of its container to fence it",fieldPath=".spec.shareProcessNamespace"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.hostPID) || !self.spec.hostPID",message="cannot be true: the agent must be process 1 of its container to fence it",fieldPath=".spec.hostPID"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.os) || self.spec.os.name == 'linux'",message="the agent runs on Linux only",fieldPath=".spec.os"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.nodeSelector) || !('kubernetes.io/os' in self.spec.nodeSelector) || self.spec.nodeSelector['kubernetes.io/os'] == 'linux'",message="the agent runs on Linux only",fieldPath=".spec.nodeSelector"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || (self.spec.containers.all(c, !has(c.restartPolicy) && !has(c.restartPolicyRules)) && (!has(self.spec.initContainers) || self.spec.initContainers.all(c, !has(c.restartPolicyRules))))",message="containers cannot have a restart policy of their own: a container restarted in place would run outside its attempt",fieldPath=".spec.containers"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.volumes) || self.spec.volumes.all(v, !v.name.startsWith('leasehold-'))",message="volume names that begin with leasehold- are the operator's",fieldPath=".spec.volumes"
	// +kubebuilder:validation:XValidation:rule="!has(self.spec) || (self.spec.containers.all(c, !c.name.startsWith('leasehold-')) && (!has(self.spec.initContainers) || self.spec.initContainers.all(c, !c.name.startsWith('leasehold-'))))",message="container names that begin with leasehold- are the operator's",fieldPath=".spec"
	Template *corev1.PodTemplateSpec `json:"template,omitempty"`

	// workerContainer names the container of the template that does the work, unless the task names another. Default: the only
	// container. Required with more than one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	WorkerContainer string `json:"workerContainer,omitempty"`

	// defaults are what holds for a task that does not say otherwise; what the task says itself always counts. A change is for
	// tasks that have had no grant yet, as with template. Default: those of the task's own fields.
	// +optional
	Defaults TaskDefaults `json:"defaults,omitempty,omitzero"`
}

// PauseMode says whether a queue is stopped.
//
// +kubebuilder:validation:Enum=No;Hold;Drain
type PauseMode string

const (
	// PauseNo: the queue runs.
	PauseNo PauseMode = "No"
	// PauseHold: nothing starts.
	PauseHold PauseMode = "Hold"
	// PauseDrain: nothing starts, and what runs is told to stop.
	PauseDrain PauseMode = "Drain"
)

// TenantsSpec divides a queue's capacity between tenants. Of tasks of equal priority, tenants that wait get starts in proportion to
// their weights.
//
// +kubebuilder:validation:MinProperties=1
type TenantsSpec struct {
	// concurrency is what spec.concurrency is, for the tasks of each tenant: a bulkhead. Default: no limit of its own.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Concurrency int32 `json:"concurrency,omitempty"`

	// weight is the share of a tenant that is not among the overrides, in relation to the others. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Weight int32 `json:"weight,omitempty"`

	// overrides are tenants with a share of their own, at most 100, each named once.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Overrides []TenantOverride `json:"overrides,omitempty"`
}

// TenantOverride is the share of one tenant.
//
// +kubebuilder:validation:XValidation:rule="has(self.concurrency) || has(self.weight)",message="needs concurrency or weight: it overrides nothing"
type TenantOverride struct {
	// name is the tenant, as spec.tenant of tasks has it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// concurrency is this tenant's limit. Default: tenants.concurrency.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Concurrency int32 `json:"concurrency,omitempty"`

	// weight is this tenant's share. Default: tenants.weight.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Weight int32 `json:"weight,omitempty"`
}

// DispatchSpec says how soon attempts may start one after the other.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="has(self.rate) || (!has(self.periodSeconds) && !has(self.burst) && !has(self.algorithm))",message="is required with periodSeconds, burst or algorithm: without it there is no limit",fieldPath=".rate"
// +kubebuilder:validation:XValidation:rule="!has(self.burst) || !has(self.algorithm) || self.algorithm == 'TokenBucket'",message="belongs to the algorithm TokenBucket: LeakyBucket has none, and SlidingWindow's is the rate",fieldPath=".burst"
type DispatchSpec struct {
	// rate is how many attempts may start in periodSeconds. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Rate int32 `json:"rate,omitempty"`

	// periodSeconds is the time that rate is about, in seconds. Default 1, at most a day.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`

	// burst is how many attempts may start at once after a pause, with the algorithm TokenBucket. Default: rate.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Burst int32 `json:"burst,omitempty"`

	// algorithm says what rate means. TokenBucket: on average, with bursts. LeakyBucket: evenly, one each periodSeconds/rate.
	// SlidingWindow: never more than rate in any periodSeconds. Default TokenBucket. A new operator, or a new leader, begins with an
	// empty bucket, or a full window.
	// +optional
	Algorithm RateAlgorithm `json:"algorithm,omitempty"`

	// ageingSeconds is the time of waiting that raises a task's priority by one, in seconds, so that no task of low priority
	// waits for ever. Default: waiting does not raise it; between tasks of equal priority the older one of a tenant is first.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	AgeingSeconds int32 `json:"ageingSeconds,omitempty"`
}

// RateAlgorithm says what a rate means.
//
// +kubebuilder:validation:Enum=TokenBucket;LeakyBucket;SlidingWindow
type RateAlgorithm string

const (
	// RateTokenBucket: on average, with bursts.
	RateTokenBucket RateAlgorithm = "TokenBucket"
	// RateLeakyBucket: evenly.
	RateLeakyBucket RateAlgorithm = "LeakyBucket"
	// RateSlidingWindow: never more in any period.
	RateSlidingWindow RateAlgorithm = "SlidingWindow"
)

// TaskQueueStatus is what the queue does, at most a few seconds old.
//
// +kubebuilder:validation:MinProperties=1
type TaskQueueStatus struct {
	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration *int64 `json:"observedGeneration,omitempty"`

	// pending is how many tasks wait for their turn: nothing but the queue keeps them from starting.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pending *int32 `json:"pending,omitempty"`

	// running is how many tasks have an attempt or a probe under way.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Running *int32 `json:"running,omitempty"`

	// oldestPendingTime is since when the task that has waited longest waits.
	// +optional
	OldestPendingTime *metav1.Time `json:"oldestPendingTime,omitempty"`

	// tenants are those with most pending and running tasks, at most 10.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=10
	Tenants []TenantStatus `json:"tenants,omitempty"`

	// breaker is the state of the queue's breaker, which the next operator goes on from.
	// +optional
	Breaker BreakerStatus `json:"breaker,omitempty,omitzero"`

	// conditions are Ready, Reconciling, Stalled, as kstatus has them, Paused, and BreakerOpen if the queue has a breaker.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +patchStrategy=merge
	// +patchMergeKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

// TenantStatus is what one tenant has of a queue.
type TenantStatus struct {
	// name is the tenant.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// pending is how many of its tasks wait for their turn.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Pending *int32 `json:"pending,omitempty"`

	// running is how many of its tasks have an attempt or a probe under way.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Running *int32 `json:"running,omitempty"`
}
