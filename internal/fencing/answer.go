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
// A policy's denial is a 403, or a 413 for size. 404: the Lease is gone, and a deleted Lease is a revoked term. A 400 is a webhook's
// that denies without a code: our patches are well-formed.
func Classify(code int, body []byte) Answer {
	switch {
	case code >= 200 && code < 300:
		return Accepted
	case code == http.StatusNotFound, code == http.StatusForbidden:
		return Refused
	case code == http.StatusUnprocessableEntity:
		return unprocessable(body)
	case code == http.StatusRequestEntityTooLarge:
		return Invalid
	case code == http.StatusUnauthorized:
		return Unauthorized
	default:
		return Unavailable
	}
}

// unprocessable reads a 422. A failed `test` has no causes. What is wrong with the object's form has causes, and they name a field.
// Causes that name none come from a policy of somebody else's that denies without a reason, or cannot be evaluated: like an API
// server that fails, it says nothing about the term, nor about what we wrote. Time ends the trust of whom it keeps from renewing.
func unprocessable(body []byte) Answer {
	var status struct {
		Details struct {
			Causes []struct {
				Field string `json:"field"`
			} `json:"causes"`
		} `json:"details"`
	}
	if err := json.Unmarshal(body, &status); err != nil || len(status.Details.Causes) == 0 {
		return Refused
	}
	for _, cause := range status.Details.Causes {
		if cause.Field != "" {
			return Invalid
		}
	}
	return Unavailable
}
