package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// Task is what a worker is to do, and how it speaks while it does it. Its methods may be called side by side. One that was made by hand,
// in a test of a [Work], speaks to nobody.
type Task struct {
	// Name and Namespace are those of the LeasedTask.
	Name, Namespace string
	// Attempt is the number of this attempt, from 1; probes are counted too.
	Attempt int64
	// FencingToken is higher for every attempt. Pass it to every store that can compare it; the guards take it as it is.
	FencingToken guard.Token
	// IdempotencyKey is the same for every attempt of the task, and of its replays.
	IdempotencyKey string
	// Payload is what the task was given, byte for byte; empty if it was given nothing.
	Payload []byte
	// Checkpoint is what the attempt before left with SaveCheckpoint; empty: nothing.
	Checkpoint string
	// Deadline is when the worker will be told to stop because its time is over; zero: never. It comes from another clock, and is no
	// deadline of the context: whoever is told to stop is told by the agent.
	Deadline time.Time
	// HeartbeatTimeout is how long the worker may say nothing (lease.heartbeat: Application); 0: as long as it likes. If the agent did not
	// answer when it was asked, it is as short as it can be.
	HeartbeatTimeout time.Duration
	// Probe is set in a probe only.
	Probe *Probe

	agent          *agent // nil: there is no socket
	voice          voice
	resultFile     string
	checkpointFile string
	cancelFile     string
}

// Probe is the attempt that a probe asks about.
type Probe struct {
	Attempt      int64
	FencingToken guard.Token // below the probe's own
}

// ReasonPayloadInvalid is the reason of a payload that cannot be decoded.
const ReasonPayloadInvalid = "PayloadInvalid"

// Decode reads the payload as one JSON value into what into points to, and wants it exactly: no member that into does not know,
// nothing after the value, UTF-8, and not null. (As ever with encoding/json, the case of names does not matter, and a member that is
// missing is left alone.) Its error is a permanent [*Failure]: the next attempt would find the same payload.
func (t *Task) Decode(into any) error {
	if err := decode(t.Payload, into); err != nil {
		return &Failure{Reason: ReasonPayloadInvalid, Permanent: true, Err: fmt.Errorf("the payload is not as wanted: %w", err)}
	}
	return nil
}

func decode(payload []byte, into any) error {
	payload = bytes.TrimSpace(payload)
	switch {
	case len(payload) == 0:
		return errors.New("there is none")
	case !utf8.Valid(payload):
		return errors.New("it is not UTF-8 text")
	case string(payload) == "null":
		return errors.New("it is null")
	}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("it goes on after its value")
	}
	return nil
}
