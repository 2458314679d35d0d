package gate

import "time"

// Limits is what a queue takes. What is zero does not limit.
type Limits struct {
	// Queue is for the queue as a whole, Tenant for each of its tenants.
	Queue, Tenant Share
	// MaxWait is how long a new task may have to wait, by the measured flow.
	MaxWait time.Duration
	// Closed: the queue takes no tasks. Reopens is when that may change; zero: nobody knows.
	Closed  bool
	Reopens time.Time
}

// Share limits a queue or a tenant.
type Share struct {
	Rate       Rate
	MaxPending int // tasks that wait
}

// Rate limits how many tasks are taken in a time.
type Rate struct {
	Count  int
	Period time.Duration
	Burst  int // at once, after a pause; 0: Count
}

// Task is a new task.
type Task struct {
	UID    string
	Tenant string
}

// Reason says which limit a task was refused by.
type Reason string

// The reasons, in the order in which they are looked at.
const (
	Admitted      Reason = ""
	Closed        Reason = "Closed"
	Pending       Reason = "Pending"
	TenantPending Reason = "TenantPending"
	Wait          Reason = "Wait"
	RateLimit     Reason = "Rate"
	TenantRate    Reason = "TenantRate"
)

// Verdict is the answer to one task.
type Verdict struct {
	Reason  Reason
	Message string // what limits, in words; for a refusal
	// RetryAfter is when it makes sense to ask again: whole seconds, from 1 to 60.
	RetryAfter time.Duration
}

// maxRetryAfter bounds how long a producer is sent away: what it waits for may have changed by then.
const maxRetryAfter = time.Minute

// refuse rounds up what a producer is told to wait.
func refuse(reason Reason, message string, after time.Duration) Verdict {
	whole := (after + time.Second - 1).Truncate(time.Second)
	return Verdict{Reason: reason, Message: message, RetryAfter: min(max(whole, time.Second), maxRetryAfter)}
}
