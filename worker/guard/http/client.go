package httpguard

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// tokenLifetime is how long a request may be on its way until the proxy looks at its token.
const tokenLifetime = 5 * time.Minute

// Do signs the request, sends it through the proxy, and reads the guard's answer from the response: a response is returned only if
// the upstream answered. A 502, 503 or 504 in its name, which may be a gateway's, is a [guard.UncertainError]. now is the time at which the
// token is signed.
func Do(client *http.Client, request *http.Request, key Key, resource string, token guard.Token, now time.Time) (*http.Response, error) {
	signed, err := Sign(key, resource, token, now.Add(tokenLifetime))
	if err != nil {
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Header.Set(TokenHeader, signed)
	request.GetBody = nil // no repeat behind our back
	sendOnce(request.Header)
	answer, err := client.Do(request)
	if err != nil {
		if dial, is := errors.AsType[*net.OpError](err); is && dial.Op == "dial" {
			return nil, err
		}
		return nil, &guard.UncertainError{Resource: resource, Token: token, Err: err}
	}
	if answer.Header.Get(OutcomeHeader) == outcomeAnswered {
		return answer, nil
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1024))
	_ = answer.Body.Close()
	said := fmt.Errorf("%s: %s", answer.Status, text)
	if answer.Header.Get(OutcomeHeader) != outcomeRefused { // no answer, or an answer that is not the proxy's
		return nil, &guard.UncertainError{Resource: resource, Token: token, Err: said}
	}
	if mark, err := guard.Parse(answer.Header.Get(MarkHeader)); err == nil {
		return nil, &guard.StaleError{Resource: resource, Token: token, Mark: mark}
	}
	return nil, said
}

// sendOnce spells the names by which http.Transport takes a request for one that it may repeat, if it has no body and its connection breaks,
// in a way that only servers understand. The first try may have been done; a repeat that is refused then would say that it was not.
func sendOnce(header http.Header) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, found := header[name]; found {
			delete(header, name)
			header[strings.ToLower(name)] = values
		}
	}
}
