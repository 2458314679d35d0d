package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"
)

// problem is an error as the socket gives it (RFC 9457).
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

func problemf(status int, format string, args ...any) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// write answers with a value, or with a problem in its own media type.
func write(w http.ResponseWriter, status int, value any) {
	kind := "application/json"
	if _, isProblem := value.(*problem); isProblem {
		kind = "application/problem+json"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // whoever has hung up is not told
}

// decode reads one JSON object without unknown members. An empty body is an empty object.
func decode(w http.ResponseWriter, r *http.Request, limit int64, into any) *problem {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if _, isTooLarge := errors.AsType[*http.MaxBytesError](err); isTooLarge {
		return problemf(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", limit)
	}
	switch body = bytes.TrimSpace(body); {
	case err != nil:
		return problemf(http.StatusBadRequest, "the body cannot be read")
	case !utf8.Valid(body):
		return problemf(http.StatusBadRequest, "the body is not UTF-8 text")
	case len(body) == 0:
		body = []byte("{}")
	case body[0] != '{':
		return problemf(http.StatusBadRequest, "the body is not a JSON object")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return problemf(http.StatusBadRequest, "the body is not as wanted: %v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return problemf(http.StatusBadRequest, "the body goes on after its JSON object")
	}
	return nil
}
