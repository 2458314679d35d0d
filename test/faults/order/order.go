// Package order is what a task of test/faults asks of its worker: the task's payload, and the environment that its template sets.
package order

// Order is the payload.
type Order struct {
	// Seconds is how long the work takes.
	Seconds float64 `json:"seconds"`
	// Mode is how attempts up to Bad behave; those after them work.
	Mode Mode `json:"mode,omitempty"`
	Bad  int  `json:"bad,omitempty"`
	// Stubborn workers ignore SIGTERM.
	Stubborn bool `json:"stubborn,omitempty"`
}

// Mode is a way to behave badly.
type Mode string

// The modes.
const (
	Work  Mode = ""      // none: work, write the result, exit 0
	Fail  Mode = "fail"  // exit 1 in the middle of the work
	Crash Mode = "crash" // be killed by SIGKILL in the middle of the work
	Hang  Mode = "hang"  // write nothing and never end
)

// Variables of the worker container.
const (
	JournalDirEnv = "FAULTS_JOURNAL_DIR"
	StoreEnv      = "FAULTS_STORE_URL" // empty: there is no store
)
