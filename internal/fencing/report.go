package fencing

import (
	"bytes"
	"encoding/json"
)

// MaxReportBytes bounds an encoded report. The kubelet keeps 4096 bytes of one container's termination message and 12 KiB
// of a whole Pod's, and cuts what is above: a report that was cut is no report, so it stays well below.
const MaxReportBytes = 1024

// Delivery is what became of a submission, as far as its agent knows. It is closed.
type Delivery string

const (
	// DeliveryAccepted: the API server said that the submission stands.
	DeliveryAccepted Delivery = "Accepted"
	// DeliveryRefused: somebody else's write stands. The controller records a late submission.
	DeliveryRefused Delivery = "Refused"
	// DeliveryUnknown: the agent ended, or was killed, before it had an answer.
	DeliveryUnknown Delivery = "Unknown"
	// DeliveryNone: nothing was submitted, because nothing was claimed.
	DeliveryNone Delivery = "None"
)

// Report is the agent's termination message: evidence for the case that its network went first, and the place where a
// refused submission becomes visible. It never completes a task, because it does not pass the Lease. Child and agent
// share a user, so a child may have written it.
type Report struct {
	Token    Token    `json:"token"`
	Outcome  Outcome  `json:"outcome"`
	Reason   string   `json:"reason,omitempty"`
	Delivery Delivery `json:"submission"`
	Message  string   `json:"message,omitempty"`
}

// Encode writes the report in at most MaxReportBytes, and shortens the message to fit.
func (r Report) Encode() []byte {
	r.Outcome = Outcome(Truncate(string(r.Outcome), 16))
	r.Delivery = Delivery(Truncate(string(r.Delivery), 16))
	r.Reason = Truncate(r.Reason, maxReasonBytes)
	r.Message = Truncate(r.Message, MaxReportBytes/2)
	for {
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(r); err != nil {
			panic("a report of strings cannot fail to encode: " + err.Error()) // programming error
		}
		if raw := bytes.TrimSpace(buf.Bytes()); len(raw) <= MaxReportBytes || r.Message == "" {
			return raw
		}
		r.Message = r.Message[:len(r.Message)/2] // control characters grow sixfold; a rune cut in two becomes U+FFFD
	}
}

// ParseReport reads a termination message. It is false for anything that no agent wrote: a command's own message, one
// that was cut, or nothing.
func ParseReport(message string) (Report, bool) {
	if len(message) > MaxReportBytes {
		return Report{}, false
	}
	var r Report
	if err := json.Unmarshal([]byte(message), &r); err != nil || !isOutcome(r.Outcome) || r.Token < 1 {
		return Report{}, false
	}
	switch r.Delivery {
	case DeliveryAccepted, DeliveryRefused, DeliveryUnknown, DeliveryNone:
		r.Reason = Truncate(r.Reason, maxReasonBytes)
		r.Message = Truncate(r.Message, MaxReportBytes/2)
		return r, true
	default:
		return Report{}, false
	}
}
