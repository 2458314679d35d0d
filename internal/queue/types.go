package queue

import "time"

// Limits is what a queue allows. The zero value allows everything, in order of priority and age.
type Limits struct {
	Concurrency int              // how many hold capacity at the same time; 0: no limit
	Default     Share            // of a tenant that is not among the overrides
	Overrides   map[string]Share // by tenant; what is 0 is as in Default
	Rate        Rate             // how soon starts may follow one another
	Ageing      time.Duration    // the time of waiting that raises a priority by one; 0: waiting does not
	Paused      bool             // nothing starts
}

// Share is what one tenant has of a queue.
type Share struct {
	Concurrency int // how many of its tasks hold capacity at the same time; 0: no limit
	Weight      int // of its starts, in relation to the other tenants that wait; 0: 1
}

// Rate is how many starts there may be in a period. Count 0: no limit.
type Rate struct {
	Algorithm Algorithm     // "": TokenBucket
	Count     int           // so many starts
	Period    time.Duration // in so long; 0: a second
	Burst     int           // TokenBucket alone: so many at once after a pause; 0: Count
}

// Algorithm says what a rate means. The values are those of the API.
type Algorithm string

const (
	// TokenBucket is the rate on average, with bursts.
	TokenBucket Algorithm = "TokenBucket"
	// LeakyBucket is the rate evenly: one each Period/Count.
	LeakyBucket Algorithm = "LeakyBucket"
	// SlidingWindow is never more than Count in any Period.
	SlidingWindow Algorithm = "SlidingWindow"
)

// Task is what the queue needs to know of one that waits.
type Task struct {
	ID, Name, Tenant string // ID is its UID
	Priority         int32
	Created          time.Time // since when it waits: its creation, or the end of its pause; see Join
}

// Turn is where a task stands. The zero value: the queue does not know it.
type Turn struct {
	Admitted bool     // it may start, or holds capacity already
	Waiting  *Waiting // what it waits for
}

// Waiting says what a task waits for.
type Waiting struct {
	Reason   Reason
	Limit    int           // the value of the limit that Reason names, the count of a rate; 0 if it has none
	Period   time.Duration // of the rate that Reason names
	Position int           // approximate, 1 is next: among the tenant's tasks for TenantConcurrency, else among all
	HeldBy   int           // how many hold capacity under the limit
	Holders  []string      // at most three of them, the first by name
}

// Reason names what a task waits for. The values are those of the condition Waiting, but for Queued.
type Reason string

const (
	// Queued: there is room, and the next Dispatch will use it.
	Queued Reason = "Queued"
	// QueuePaused: the queue is paused.
	QueuePaused Reason = "QueuePaused"
	// BreakerOpen: the queue's breaker lets nothing start, or nothing more than its probes.
	BreakerOpen Reason = "BreakerOpen"
	// TenantConcurrency: the tenant's concurrency is used up.
	TenantConcurrency Reason = "TenantConcurrency"
	// QueueConcurrency: the queue's concurrency is used up.
	QueueConcurrency Reason = "QueueConcurrency"
	// RateLimited: the rate lets nothing start yet.
	RateLimited Reason = "RateLimited"
)

// Counts is what a queue does at one time.
type Counts struct {
	Pending   int           // tasks that wait
	Running   int           // tasks that hold capacity, the admitted ones among them
	Oldest    time.Time     // since when the task that has waited longest waits; zero: none waits
	OldestAge time.Duration // how long that is
	Tenants   []TenantCount // those with most pending and running tasks, at most TopTenants
}

// TopTenants is how many tenants Counts names.
const TopTenants = 10

// TenantCount is what one tenant has of a queue.
type TenantCount struct {
	Name             string
	Pending, Running int
}
