package worker

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Failure is an error that says what follows it. Where spec.retry.rules know its reason, they decide; then it does.
type Failure struct {
	// Reason is one word for rules and metrics: a letter, then up to 63 letters, digits and _.:- ; empty: WorkerFailed.
	Reason string
	// Err says for people what happened.
	Err error
	// Permanent: another attempt cannot succeed, and the task ends.
	Permanent bool
	// NoEffect: the attempt had no effect outside, so that another is safe whatever spec.onLostAttempt says. Only if it is certain.
	NoEffect bool
	// RetryAfter is the pause before the next attempt, in place of the back-off's: whole seconds, up to a day. nil: the back-off's.
	RetryAfter *time.Duration
}

func (f *Failure) Error() string {
	switch {
	case f.Err == nil:
		return cmp.Or(f.Reason, reasonFailed)
	case f.Reason == "":
		return f.Err.Error()
	}
	return f.Reason + ": " + f.Err.Error()
}

// Unwrap returns what happened.
func (f *Failure) Unwrap() error { return f.Err }

// ErrNoEffect is the answer of a probe that the attempt had no effect, and will have none: nothing that it sent can still arrive. Another
// attempt follows. Wrap it to say how that is known. Every other error of a probe says that it cannot tell.
var ErrNoEffect = errors.New("the attempt had no effect, and will have none")

const (
	reasonFailed    = "WorkerFailed"
	maxMessage      = 1 << 10 // bytes
	longestRetry    = 24 * time.Hour
	reasonTooLarge  = "ResultTooLarge"
	reasonNoText    = "ResultInvalid"
	reasonWrongKind = "WrongKind"
)

var isReason = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.:-]{0,63}$`).MatchString

// word is a failure as the socket takes it.
type word struct {
	Retryable         *bool  `json:"retryable,omitempty"`
	Effect            string `json:"effect,omitempty"`
	Reason            string `json:"reason,omitempty"`
	Message           string `json:"message,omitempty"`
	RetryAfterSeconds *int64 `json:"retryAfterSeconds,omitempty"`
}

// wordOf says an error in the agent's words. What would be refused is made to fit: a failure has to get through.
func wordOf(err error) word {
	failure, isFailure := errors.AsType[*Failure](err)
	if !isFailure {
		return word{Message: message(err.Error())}
	}
	w := word{Reason: failure.Reason, Message: message(messageOf(err, failure))}
	if w.Reason != "" && !isReason(w.Reason) {
		w.Reason, w.Message = "", message(fmt.Sprintf("%q: %s", failure.Reason, w.Message))
	}
	if failure.NoEffect {
		w.Effect = "None"
	}
	switch {
	case failure.Permanent:
		w.Retryable = new(false)
	case failure.RetryAfter != nil:
		pause := min(max(*failure.RetryAfter, 0), longestRetry)
		w.RetryAfterSeconds = new(int64((pause + time.Second - 1) / time.Second))
	}
	return w
}

// messageOf is without the reason, which has a place of its own, unless somebody has wrapped the failure and said more.
func messageOf(err error, failure *Failure) string {
	if failure.Err == nil && err.Error() == failure.Error() {
		return ""
	}
	return strings.TrimPrefix(err.Error(), failure.Reason+": ")
}

// message cuts a text to what is taken.
func message(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage], "")
}
