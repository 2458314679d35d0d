package fencing

import (
	"fmt"
	"regexp"
)

// Bounds of what a worker may say of its own attempt.
const (
	// MaxRetryAfterSeconds bounds the pause that a worker may ask for: one day.
	MaxRetryAfterSeconds = 86400
	// MaxURIBytes bounds the address of a result that is kept elsewhere.
	MaxURIBytes = 2048
)

var (
	reasonForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.:-]{0,63}$`)
	digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	uriForm    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:[!-~]+$`)
)

// Effect is what a worker says of the effects of its attempt outside.
type Effect string

// EffectNone: the attempt had no effect outside, and another may safely be made.
const EffectNone Effect = "None"

// ResultRef points to a result that is kept elsewhere. Nobody here follows it: whoever reads the result compares the digest.
type ResultRef struct {
	URI       string `json:"uri"`
	Digest    string `json:"digest"` // sha256:<64 hex digits>
	SizeBytes int64  `json:"sizeBytes"`
}

// Problem says what is wrong with the reference; empty: nothing.
func (r *ResultRef) Problem() string {
	switch {
	case len(r.URI) > MaxURIBytes:
		return fmt.Sprintf("uri has %d bytes, allowed are %d", len(r.URI), MaxURIBytes)
	case !uriForm.MatchString(r.URI):
		return "uri is no URI: it needs a scheme, and has printable ASCII characters only"
	case !digestForm.MatchString(r.Digest):
		return "digest is not sha256: and 64 lower-case hex digits"
	case r.SizeBytes < 0:
		return fmt.Sprintf("sizeBytes is %d, and cannot be below 0", r.SizeBytes)
	}
	return ""
}

// IsReason reports whether a word may be the reason of a failure, in the form that retry rules can name.
func IsReason(word string) bool { return reasonForm.MatchString(word) }

// refProblem says what is wrong with the reference to a result; empty: nothing.
func (s Submission) refProblem() string {
	if s.Result != nil {
		return "there is a result and a reference to one: one of the two is the result"
	}
	if problem := s.ResultRef.Problem(); problem != "" {
		return "resultRef: " + problem
	}
	return ""
}

// bounded is a submission without what its writer, who may be the child, must not say: a class or a pause for anything but a
// failure, and words and numbers that are not in the language.
func (s Submission) bounded() Submission {
	if s.Effect != EffectNone {
		s.Effect = ""
	}
	if s.Outcome != Failed {
		s.Retryable, s.RetryAfterSeconds = nil, nil
	}
	if after := s.RetryAfterSeconds; after != nil {
		s.RetryAfterSeconds = new(min(max(*after, 0), MaxRetryAfterSeconds))
	}
	return s
}
