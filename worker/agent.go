package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

const (
	// callTimeout bounds a call that does not wait for anything. The agent is on the other side of a Unix socket.
	callTimeout = 10 * time.Second
	// longestWait is for how long one call waits for a stop; the agent allows no more.
	longestWait = 300 * time.Second
	// idleTimeout is shorter than the agent's: a connection that it is about to close is not used any more.
	idleTimeout = time.Minute
	// maxAnswer bounds what is read of an answer: a checkpoint of 1 KiB is the most that there is in one.
	maxAnswer = 64 << 10
)

// Refusal is an answer of the agent that is no yes.
type Refusal struct {
	Status int    // of HTTP: 400 and above
	Detail string // what the agent says about it
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("the agent refuses (%d): %s", r.Status, r.Detail)
}

// agent speaks HTTP on the agent's socket; docs/agent-socket.openapi.yaml describes it.
type agent struct{ http http.Client }

func newAgent(socket string) *agent {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &agent{http.Client{
		Transport:     &http.Transport{DialContext: dial, IdleConnTimeout: idleTimeout},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// hello is what the socket knows beyond the environment.
type hello struct {
	Checkpoint              string `json:"checkpoint"`
	Heartbeat               string `json:"heartbeat"`
	HeartbeatTimeoutSeconds int64  `json:"heartbeatTimeoutSeconds"`
}

func (a *agent) task(ctx context.Context) (h hello, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = a.call(ctx, http.MethodGet, "/v1/task", nil, &h)
	return h, err
}

func (a *agent) tell(ctx context.Context, path string, body any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := a.call(ctx, http.MethodPost, path, body, nil)
	return err
}

// awaitStop waits until the worker is told to stop; nil: it was not, while this waited.
func (a *agent) awaitStop(ctx context.Context, wait time.Duration) (*Stop, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+callTimeout)
	defer cancel()
	var told struct {
		Reason       string `json:"reason"`
		Message      string `json:"message"`
		GraceSeconds int64  `json:"graceSeconds"`
	}
	status, err := a.call(ctx, http.MethodGet, "/v1/cancel?waitSeconds="+strconv.Itoa(int(wait/time.Second)), nil, &told)
	if err != nil || status == http.StatusNoContent {
		return nil, err
	}
	return &Stop{Reason: told.Reason, Message: told.Message, Grace: time.Duration(told.GraceSeconds) * time.Second}, nil
}

// call makes one request. An answer that is no yes is a [*Refusal].
func (a *agent) call(ctx context.Context, method, path string, body, answer any) (status int, err error) {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return 0, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, &content)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := a.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	said, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	switch {
	case err != nil:
		return 0, err
	case response.StatusCode >= http.StatusBadRequest:
		var problem struct {
			Detail string `json:"detail"`
		}
		_ = json.Unmarshal(said, &problem) // without one, the status has to do
		return response.StatusCode, &Refusal{Status: response.StatusCode, Detail: problem.Detail}
	case answer != nil && response.StatusCode == http.StatusOK:
		return response.StatusCode, json.Unmarshal(said, answer)
	}
	return response.StatusCode, nil
}

func isRefusal(err error) bool {
	_, is := errors.AsType[*Refusal](err)
	return is
}
