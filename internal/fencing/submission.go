package fencing

import (
	"bytes"
	"encoding/json"
	"fmt"
)

const (
	// MaxSubmissionBytes bounds an encoded submission; the admission policy holds the same number.
	MaxSubmissionBytes = 48 << 10
	// MaxResultBytes bounds the result inside it.
	MaxResultBytes = 32 << 10
	// MaxMessageBytes bounds the message inside it.
	MaxMessageBytes = 1024
	// maxReasonBytes bounds a reason.
	maxReasonBytes = 64
)

// Outcome is the agent's last word on an attempt. It is closed.
type Outcome string

const (
	// Succeeded: the child exited 0. The controller still verifies the result before it counts.
	Succeeded Outcome = "Succeeded"
	// Failed: the attempt ended by its own fault; it counts against maxAttempts.
	Failed Outcome = "Failed"
	// Interrupted: the Pod was told to stop and the child did not finish; it counts against maxDisruptions.
	Interrupted Outcome = "Interrupted"
	// Cancelled: the Lease told the agent to stop, and the child did not finish before. Whether it counts as stopped is
	// for the Lease to say.
	Cancelled Outcome = "Cancelled"
	// Fenced: the agent could not renew in time and has killed its tree; it counts against maxDisruptions.
	Fenced Outcome = "Fenced"
)

// Reasons that an agent, or a controller that reads a submission, gives with an outcome.
const (
	ReasonCompleted           = "Completed"           // exit code 0
	ReasonNonZeroExit         = "NonZeroExit"         // exit code other than 0
	ReasonSignaled            = "Signaled"            // the child was killed by a signal that the agent did not send
	ReasonOOMKilled           = "OOMKilled"           // the kernel killed a process of the container for memory
	ReasonCommandNotRunnable  = "CommandNotRunnable"  // the command does not exist or cannot be executed
	ReasonResultTooLarge      = "ResultTooLarge"      // result above MaxResultBytes, or its encoding above MaxSubmissionBytes
	ReasonResultInvalid       = "ResultInvalid"       // result is not UTF-8 text, or cannot be read
	ReasonTerminated          = "Terminated"          // SIGTERM from outside, without a result
	ReasonDeadlineExceeded    = "DeadlineExceeded"    // it ran longer than timeouts.attemptSeconds, or was stopped because timeouts.totalSeconds is over
	ReasonProcessesLeft       = "ProcessesLeft"       // something that it left could not be killed; the agent ended without a submission
	ReasonCancelled           = "Cancelled"           // stopped: spec.cancel
	ReasonSuspended           = "Suspended"           // stopped: spec.suspend
	ReasonDrained             = "Drained"             // stopped: spec.paused of the task's queue is Drain
	ReasonSuperseded          = "Superseded"          // stopped: a newer task with the same concurrencyKey replaces this one
	ReasonStopped             = "Stopped"             // stopped by somebody who gave no reason on the Lease
	ReasonRenewalFailed       = "RenewalFailed"       // trust in the term ended
	ReasonMalformedSubmission = "MalformedSubmission" // what stands on the Lease cannot be read
	ReasonTokenMismatch       = "TokenMismatch"       // it names another token than the one granted
	ReasonHeartbeatMissed     = "HeartbeatMissed"     // lease.heartbeat is Application, and the command has not said in time that it works
	ReasonWorkerFailed        = "WorkerFailed"        // the command said by the agent's socket that it has failed, and gave no reason of its own
)

// Submission is what an agent writes once, after its process tree is dead.
type Submission struct {
	Token    Token   `json:"token"`
	Outcome  Outcome `json:"outcome"`
	Reason   string  `json:"reason,omitempty"`
	Message  string  `json:"message,omitempty"`
	ExitCode *int32  `json:"exitCode,omitempty"`
	// Effect is what the worker says of effects outside; empty: it says nothing, so there may have been one.
	Effect Effect `json:"effect,omitempty"`
	// Retryable is what the worker says of another attempt, with a failure alone: false, it cannot succeed. nil: it says nothing.
	Retryable *bool `json:"retryable,omitempty"`
	// RetryAfterSeconds is the pause before the next attempt that the worker asks for, with a failure alone. nil: it asks for none.
	RetryAfterSeconds *int32 `json:"retryAfterSeconds,omitempty"`
	// Result and ResultRef: at most one is set.
	Result    *string    `json:"result,omitempty"`
	ResultRef *ResultRef `json:"resultRef,omitempty"`
}

// Encode writes the submission in its one canonical form, so that an identical repeat is a no-op at the API server.
func (s Submission) Encode() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false) // a result full of '<' must not grow sixfold
	if err := enc.Encode(s); err != nil {
		return nil, fmt.Errorf("encode submission: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// ParseSubmission reads a stored submission. It never fails: the term is over whatever stands there, and what cannot be
// read is a failure with a name. Child and agent share a user, so a child may have written it.
func ParseSubmission(raw string) Submission {
	var s Submission
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		return Submission{Outcome: Failed, Reason: ReasonMalformedSubmission, Message: "the submission is no valid JSON"}
	}
	if !isOutcome(s.Outcome) {
		return Submission{Token: s.Token, Outcome: Failed, Reason: ReasonMalformedSubmission,
			Message: fmt.Sprintf("unknown outcome %.64q", string(s.Outcome))}
	}
	s.Message = Truncate(s.Message, MaxMessageBytes)
	s.Reason = Truncate(s.Reason, maxReasonBytes)
	return s.bounded()
}

func isOutcome(o Outcome) bool {
	switch o {
	case Succeeded, Failed, Interrupted, Cancelled, Fenced:
		return true
	default:
		return false
	}
}

// Verify checks a submission against the token on record: who speaks must name the term that it speaks for, and a
// success must keep to the limits. What fails verification comes back as a failure that says why.
func (s Submission) Verify(want Token) Submission {
	switch {
	case s.Outcome == Failed && s.Reason == ReasonMalformedSubmission:
		return Submission{Token: s.Token, Outcome: Failed, Reason: s.Reason, Message: s.Message} // it may name no token, and classifies nothing
	case s.Token != want:
		return Submission{Token: s.Token, Outcome: Failed, Reason: ReasonTokenMismatch, ExitCode: s.ExitCode,
			Message: fmt.Sprintf("the submission names token %d, the term has %d", s.Token, want)}
	case s.Outcome == Succeeded && s.Result != nil && len(*s.Result) > MaxResultBytes:
		return Submission{Token: s.Token, Outcome: Failed, Reason: ReasonResultTooLarge, ExitCode: s.ExitCode,
			Message: ResultTooLarge(len(*s.Result), 0)}
	case s.Outcome == Succeeded && s.ResultRef != nil:
		if problem := s.refProblem(); problem != "" {
			return Submission{Token: s.Token, Outcome: Failed, Reason: ReasonResultInvalid, ExitCode: s.ExitCode, Message: problem}
		}
	}
	return s
}

// ResultTooLarge is the message for a result above a limit; it names what there is and what is allowed. encoded is the size of the
// submission that holds the result, as JSON: quotes, backslashes and control characters grow there; 0: it was not encoded.
func ResultTooLarge(size, encoded int) string {
	if encoded == 0 {
		return fmt.Sprintf("the result has %d bytes, allowed are %d", size, MaxResultBytes)
	}
	return fmt.Sprintf("the result has %d bytes, allowed are %d, and the submission that holds it %d once encoded as JSON, allowed are %d",
		size, MaxResultBytes, encoded, MaxSubmissionBytes)
}

// Truncate cuts s to at most limit bytes at a rune boundary and marks the cut.
func Truncate(s string, limit int) string {
	const mark = "..."
	if len(s) <= limit {
		return s
	}
	if limit < len(mark) {
		return mark[:max(limit, 0)]
	}
	cut := limit - len(mark)
	for cut > 0 && s[cut]&0xC0 == 0x80 {
		cut--
	}
	return s[:cut] + mark
}
