package v1alpha1

// KeyPolicy says what a task does whose concurrency key is not free.
//
// +kubebuilder:validation:Enum=Queue;Replace;Reject
type KeyPolicy string

const (
	// KeyPolicyQueue: it waits.
	KeyPolicyQueue KeyPolicy = "Queue"
	// KeyPolicyReplace: it waits, and older tasks with the key end.
	KeyPolicyReplace KeyPolicy = "Replace"
	// KeyPolicyReject: it does not run.
	KeyPolicyReject KeyPolicy = "Reject"
)

// DeadLetterPolicy says what becomes of the keys of a dead-lettered task.
//
// +kubebuilder:validation:Enum=Continue;BlockKey
type DeadLetterPolicy string

const (
	// DeadLetterContinue: the next task with the key runs.
	DeadLetterContinue DeadLetterPolicy = "Continue"
	// DeadLetterBlockKey: none does, while the dead letter is there and was not replayed with success.
	DeadLetterBlockKey DeadLetterPolicy = "BlockKey"
)
