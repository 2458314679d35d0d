package fencing

import (
	"encoding/json"
	"net/http"
)

// Answer classifies what the API server said to an agent's patch. It is closed: a switch on it lists every value.
type Answer string

const (
	// Accepted: the write stands.
	Accepted Answer = "Accepted"
	// Refused: somebody else's write stands. Final for this process: it is fenced.
	Refused Answer = "Refused"
	// Invalid: the object as patched is refused for its size or form. The fault is in what we wrote, not in the term.
	Invalid Answer = "Invalid"
	// Unauthorized: the token was not recognised. Read its file again, once, then treat it as Unavailable.
	Unauthorized Answer = "Unauthorized"
	// Unavailable: nobody knows whether the write stands. Try again.
	Unavailable Answer = "Unavailable"
)

// Classify reads an HTTP answer to an agent's patch. body is the metav1.Status of an answer that is no success.
//
// A failed `test` is a 422 without causes; a 422 with causes names a field, and is about the object's form. A policy's
// denial is a 403, or a 413 for size. 404: the Lease is gone, and a deleted Lease is a revoked term.
func Classify(code int, body []byte) Answer {
	switch {
	case code >= 200 && code < 300:
		return Accepted
	case code == http.StatusNotFound, code == http.StatusForbidden:
		return Refused
	case code == http.StatusUnprocessableEntity && !hasCauses(body):
		return Refused
	case code == http.StatusUnprocessableEntity, code == http.StatusRequestEntityTooLarge, code == http.StatusBadRequest:
		return Invalid
	case code == http.StatusUnauthorized:
		return Unauthorized
	default:
		return Unavailable
	}
}

func hasCauses(body []byte) bool {
	var status struct {
		Details struct {
			Causes []json.RawMessage `json:"causes"`
		} `json:"details"`
	}
	return json.Unmarshal(body, &status) == nil && len(status.Details.Causes) > 0
}
