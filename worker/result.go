package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"
)

// MaxResult is the largest result, in bytes. What is larger belongs into a store, with a [Reference] as the result.
const MaxResult = 32 << 10

// Reference is a result that is kept elsewhere. Nobody follows it; whoever reads the result compares the digest.
type Reference struct {
	URI       string `json:"uri"`       // up to 2048 bytes
	Digest    string `json:"digest"`    // sha256: and 64 hexadecimal digits in lower case
	SizeBytes int64  `json:"sizeBytes"` // of what is there
}

// deliver gives the result to the agent: by the socket, or by the file if that does not answer. A string and bytes are given as they are, a
// Reference as one, everything else as JSON, and nil not at all.
func (t *Task) deliver(ctx context.Context, result any) error {
	switch r := result.(type) { // a nil of a type is no result either
	case []byte:
		if r == nil {
			return nil
		}
	case *Reference:
		if r == nil {
			return nil
		}
		result = *r
	}
	if ref, isReference := result.(Reference); isReference {
		return t.deliverReference(ctx, ref)
	}
	text, isThere, err := textOf(result)
	if err != nil || !isThere {
		return err
	}
	if t.agent != nil {
		err := t.agent.tell(ctx, "/v1/result", map[string]string{"result": text})
		if err == nil || isRefusal(err) {
			return refused(err)
		}
	}
	return replace(t.resultFile, text)
}

func (t *Task) deliverReference(ctx context.Context, ref Reference) error {
	if t.agent == nil {
		return fmt.Errorf("a reference as the result: %w", errNoSocket)
	}
	return refused(t.agent.tell(ctx, "/v1/result", map[string]Reference{"resultRef": ref}))
}

func textOf(result any) (text string, isThere bool, err error) {
	switch r := result.(type) {
	case nil:
		return "", false, nil
	case string:
		text = r
	case []byte:
		text = string(r)
	default:
		encoded, err := json.Marshal(result)
		if err != nil {
			return "", false, &Failure{Reason: reasonNoText, Err: err}
		}
		text = string(encoded)
	}
	switch {
	case len(text) > MaxResult:
		return "", false, &Failure{Reason: reasonTooLarge, Err: fmt.Errorf("the result has %d bytes, at most %d are allowed", len(text), MaxResult)}
	case !utf8.ValidString(text):
		return "", false, &Failure{Reason: reasonNoText, Err: errors.New("the result is not UTF-8 text")}
	}
	return text, true, nil
}

// refused makes a failure of a result that the agent does not take. That the term is lost is none: nobody hears of it any more.
func refused(err error) error {
	refusal, is := errors.AsType[*Refusal](err)
	if !is || refusal.Status == http.StatusGone {
		return err
	}
	return &Failure{Reason: reasonNoText, Err: fmt.Errorf("the result: %w", err)}
}
