package v1alpha1

// Condition types of a LeasedTask. All of them are present once a task has a phase.
const (
	// ConditionFinished is True once the phase is final, whatever the outcome. Wait for this one.
	ConditionFinished = "Finished"
	// ConditionSucceeded is True or False once finished, Unknown before.
	ConditionSucceeded = "Succeeded"
	// ConditionWaiting is True while nothing runs yet; its reason says what the task waits for.
	ConditionWaiting = "Waiting"
	// ConditionLeaseHeld is True while a worker holds the term.
	ConditionLeaseHeld = "LeaseHeld"
	// ConditionCancelRequested is True once spec.cancel is set; its reason says what became of that.
	ConditionCancelRequested = "CancelRequested"
	// ConditionReady, ConditionReconciling and ConditionStalled are kstatus: Completed and Cancelled are Ready, DeadLettered is
	// Stalled, and so is a task that waits for its spec to be repaired.
	ConditionReady       = "Ready"
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
)

// Condition types that a TaskQueue has beside Ready, Reconciling and Stalled. It is Ready unless it is being drained, or its
// breaker is open.
const (
	// ConditionPaused is True while nothing of the queue starts because spec.paused says so; its reason says what becomes of what runs.
	ConditionPaused = "Paused"
	// ConditionBreakerOpen is True while the queue's breaker is open or half-open. Only a queue with a breaker has it.
	ConditionBreakerOpen = "BreakerOpen"
)

// Reasons of a TaskQueue's conditions.
const (
	ReasonServing  = "Serving"  // tasks start as their turn comes
	ReasonHeldBack = "HeldBack" // spec.paused is Hold
	ReasonDraining = "Draining" // spec.paused is Drain, and tasks still run
	ReasonDrained  = "Drained"  // spec.paused is Drain, and none does

	ReasonBreakerClosed   = "Closed"   // of BreakerOpen; while it is open, the cause
	ReasonBreakerHalfOpen = "HalfOpen" // a few attempts try
)

// Reasons of ConditionWaiting while it is True. The list is closed.
const (
	WaitingSuspended         = "Suspended"         // spec.suspend is true
	WaitingSpecInvalid       = "SpecInvalid"       // the spec asks for what cannot be done; the message says what to repair. Also Stalled
	WaitingStartAfter        = "StartAfter"        // until spec.startAfter
	WaitingBackoff           = "Backoff"           // until status.nextAttemptTime
	WaitingSettling          = "Settling"          // until status.nextAttemptTime, by reconcile.settleSeconds; a probe follows
	WaitingAwaitingRelease   = "AwaitingRelease"   // the last attempt's process may still run
	WaitingEpochMissing      = "EpochMissing"      // the epoch ConfigMap is missing or unusable: no grants
	WaitingWorkerRole        = "WorkerRole"        // the worker role cannot be bound to the Pod's service account
	WaitingPodRefused        = "PodRefused"        // the API server does not take the Pod; the message quotes it
	WaitingQuotaExceeded     = "QuotaExceeded"     // a ResourceQuota has no room for the Pod
	WaitingUnschedulable     = "Unschedulable"     // the scheduler finds no node
	WaitingSchedulingGated   = "SchedulingGated"   // a scheduling gate is on the Pod: another system, Kueue say, has not admitted it yet
	WaitingImagePull         = "ImagePull"         // an image is not there yet
	WaitingContainerConfig   = "ContainerConfig"   // a ConfigMap, Secret or key that a container's environment needs is missing
	WaitingVolumeMount       = "VolumeMount"       // a volume cannot be mounted: the ConfigMap or Secret of spec.payloadFrom, say; the message quotes the kubelet
	WaitingPodStarting       = "PodStarting"       // the Pod was made, its worker has not claimed yet
	WaitingDeadLetterPending = "DeadLetterPending" // the task is over; its dead letter is not written yet, and the message says why
	WaitingKeyBusy           = "KeyBusy"           // another task has the idempotencyKey or concurrencyKey; the message names it
	WaitingKeyBlocked        = "KeyBlocked"        // a dead letter with onDeadLetter: BlockKey has the key; the message names it
	WaitingKeyRefused        = "KeyRefused"        // the API server does not take the key's Lease; the message quotes it
	WaitingQueueMissing      = "QueueMissing"      // there is no TaskQueue of the name spec.queueName
	WaitingQueueRevision     = "QueueRevision"     // the ControllerRevision of what the queue gives the task cannot be written, or is gone; the message says which
	WaitingQueuePaused       = "QueuePaused"       // the queue is paused
	WaitingQueueConcurrency  = "QueueConcurrency"  // the queue's concurrency is used up
	WaitingTenantConcurrency = "TenantConcurrency" // the tenant's concurrency in the queue is used up
	WaitingBreakerOpen       = "BreakerOpen"       // the queue's breaker is open, or half-open and others try
	WaitingRateLimited       = "RateLimited"       // the queue lets attempts start at a bounded rate
	WaitingAgentUnreachable  = "AgentUnreachable"  // the worker container runs, and its agent has not reached the API server
)

// Other reasons of conditions.
const (
	ReasonNotWaiting     = "NotWaiting"
	ReasonRunning        = "Running"
	ReasonPending        = "Pending"
	ReasonHeld           = "Held"
	ReasonNotHeld        = "NotHeld"
	ReasonCompleted      = "Completed"
	ReasonAttached       = "Attached" // Completed with the result of another task with the same idempotencyKey
	ReasonNotStalled     = "NotStalled"
	ReasonBudgetExceeded = "BudgetExceeded"
	ReasonStartTimeout   = "StartTimeout"
	ReasonCannotStart    = "CannotStart"
	// ReasonDeadlineExceeded: timeouts.totalSeconds is over.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	ReasonRetryRule        = "RetryRule"      // a rule of spec.retry.rules says DeadLetter
	ReasonNotRetryable     = "NotRetryable"   // the worker says that another attempt cannot succeed
	ReasonLostAttempt      = "LostAttempt"    // an attempt may have had its effect, and onLostAttempt is DeadLetter
	ReasonOutcomeUnknown   = "OutcomeUnknown" // no probe could tell whether an attempt had its effect
	ReasonProbing          = "Probing"        // a probe runs
	// ReasonIdempotencyConflict: another task with the same idempotencyKey runs, or has succeeded, with another payload.
	ReasonIdempotencyConflict = "IdempotencyConflict"
	// ReasonKeyRejected: the concurrencyKey was not free, and keyPolicy is Reject.
	ReasonKeyRejected = "KeyRejected"
	// ReasonSuperseded: Cancelled, because a newer task with the same concurrencyKey, and with keyPolicy Replace, came.
	ReasonSuperseded   = "Superseded"
	ReasonStopping     = "Stopping" // an attempt is told to stop
	ReasonCancelled    = "Cancelled"
	ReasonNotRequested = "NotRequested"
	ReasonRequested    = "Requested" // spec.cancel is set, and the task has not ended yet
	ReasonTooLate      = "TooLate"   // the task had ended otherwise by then
)

// ConditionReplayed of a DeadLetter is True once a replay was made. Its other conditions are Discarded, Ready, Reconciling and Stalled: a
// refused replay is Stalled until the next request.
const ConditionReplayed = "Replayed"

// ConditionDiscarded of a DeadLetter is True once somebody has decided that it will not be replayed; then it is Ready, whatever
// came of earlier replays.
const ConditionDiscarded = "Discarded"

// Reasons of a DeadLetter's conditions.
const (
	ReasonNotReplayed    = "NotReplayed"    // no replay was asked for
	ReasonReplayed       = "Replayed"       // the last request made a task
	ReasonReplayRefused  = "ReplayRefused"  // the last request made nothing; the message quotes who refused it
	ReasonReplayPending  = "ReplayPending"  // the request is not answered yet
	ReasonDiscarded      = "Discarded"      // spec.discard is set
	ReasonNotDiscarded   = "NotDiscarded"   // it is not
	ReasonNotReconciling = "NotReconciling" // nothing is to be done
)

// Labels and annotations of what the operator makes for a task.
const (
	// TaskLabel is on every Pod and Lease of a task, and on its dead letter; its value is the task's UID.
	TaskLabel = "leasehold.io/task"
	// FingerprintLabel is on every dead letter; its value is the fingerprint of the failure.
	FingerprintLabel = "leasehold.io/fingerprint"
	// QueueLabel is on every ControllerRevision of what a queue gives to its tasks; its value is the queue's name, shortened if it must be.
	QueueLabel = "leasehold.io/queue"
	// QueueNameAnnotation is the queue's name, there. It may be longer than a label's value can be.
	QueueNameAnnotation = "leasehold.io/queue-name"
	// RetiringAnnotation is on a ControllerRevision that nobody needed when it was marked. It is deleted, unless somebody needs it before that.
	RetiringAnnotation = "leasehold.io/retiring"
	// TaskNameAnnotation is the task's name. It may be longer than a label's value can be.
	TaskNameAnnotation = "leasehold.io/task-name"
	// AttemptAnnotation is the attempt's number, on its Pod.
	AttemptAnnotation = "leasehold.io/attempt"
	// TokenAnnotation is the attempt's fencing token, on its Pod.
	TokenAnnotation = "leasehold.io/fencing-token"
	// ProbeForAnnotation is the number of the attempt that it probes for, on a probe's Pod.
	ProbeForAnnotation = "leasehold.io/probe-for"
	// PayloadAnnotation carries the payload to the downward API, on the Pod.
	PayloadAnnotation = "leasehold.io/payload"
)
