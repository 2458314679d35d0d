// Command ship is a worker that asks a carrier to ship, and the probe that asks what became of it: one program, two templates.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/leasehold-io/leasehold/worker"
)

// Order is the payload: {"to": "Ghent"}.
type Order struct {
	To string `json:"to"`
}

func main() {
	api := carrier{url: os.Getenv("CARRIER_URL"), http: &http.Client{Timeout: time.Minute}}
	if api.url == "" {
		fmt.Fprintln(os.Stderr, "CARRIER_URL is not set")
		os.Exit(worker.ExitUsage)
	}
	worker.RunWithProbe(worker.JSON(api.ship), api.find)
}

type carrier struct {
	url  string
	http *http.Client
}

// ship makes the call. When its answer is lost nobody here knows whether there is a shipment: that is an error like any other, and
// spec.onLostAttempt says what follows. Only what is certain is said: this will never work.
func (c carrier) ship(ctx context.Context, task *worker.Task, order Order) (any, error) {
	body, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	status, answer, err := c.call(ctx, task, http.MethodPost, "/shipments", body)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusCreated:
		return answer, nil
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		return nil, &worker.Failure{Reason: "OrderRefused", Permanent: true, Err: errors.New(string(answer))}
	}
	return nil, fmt.Errorf("the carrier answers %d: %s", status, answer)
}

// find is the probe. Only a 404 is a no. The carrier compares tokens, and the probe's is higher, so it will stay one.
func (c carrier) find(ctx context.Context, task *worker.Task) (any, error) {
	status, answer, err := c.call(ctx, task, http.MethodGet, "/shipments/"+url.PathEscape(task.IdempotencyKey), nil)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusOK:
		return answer, nil
	case status == http.StatusNotFound:
		return nil, fmt.Errorf("%w: %s", worker.ErrNoEffect, answer)
	}
	return nil, fmt.Errorf("the carrier answers %d: %s", status, answer)
}

// call carries the key, the same for every attempt, and the token, higher with each.
func (c carrier) call(ctx context.Context, task *worker.Task, method, path string, body []byte) (status int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Idempotency-Key", task.IdempotencyKey)
	request.Header.Set("Fencing-Token", task.FencingToken.String())
	response, err := c.http.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it is read
	answer, err = io.ReadAll(io.LimitReader(response.Body, worker.MaxResult))
	return response.StatusCode, bytes.TrimSpace(answer), err
}
