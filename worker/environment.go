package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/leasehold-io/leasehold/worker/guard"
)

// What the agent sets; docs/agent.md in the repository describes it.
const (
	envTask           = "LEASEHOLD_TASK"
	envNamespace      = "LEASEHOLD_NAMESPACE"
	envAttempt        = "LEASEHOLD_ATTEMPT"
	envFencingToken   = "LEASEHOLD_FENCING_TOKEN"
	envIdempotencyKey = "LEASEHOLD_IDEMPOTENCY_KEY"
	envProbeAttempt   = "LEASEHOLD_PROBE_ATTEMPT"
	envProbeToken     = "LEASEHOLD_PROBE_FENCING_TOKEN"
	envPayloadFile    = "LEASEHOLD_PAYLOAD_FILE"
	envCancelFile     = "LEASEHOLD_CANCEL_FILE"
	envResultFile     = "LEASEHOLD_RESULT_FILE"
	envCheckpointFile = "LEASEHOLD_CHECKPOINT_FILE"
	envSocket         = "LEASEHOLD_SOCKET"
	envDeadline       = "LEASEHOLD_DEADLINE"
)

// open reads the environment and the files. Its error names everything that is wrong; the task is what could be read.
func open(getenv func(string) string) (*Task, error) {
	r := reader{getenv: getenv}
	t := &Task{
		Name:           r.text(envTask),
		Namespace:      r.text(envNamespace),
		Attempt:        r.number(envAttempt),
		FencingToken:   r.token(envFencingToken),
		IdempotencyKey: r.text(envIdempotencyKey),
		Payload:        r.file(r.text(envPayloadFile)),
		Deadline:       r.time(envDeadline),
		resultFile:     r.text(envResultFile), // missed at the end, it would cost what was done
		checkpointFile: r.text(envCheckpointFile),
		cancelFile:     r.text(envCancelFile),
		voice:          newVoice(),
	}
	if getenv(envProbeAttempt) != "" {
		t.Probe = &Probe{Attempt: r.number(envProbeAttempt), FencingToken: r.token(envProbeToken)}
	}
	if socket := getenv(envSocket); socket != "" {
		t.agent = newAgent(socket)
	}
	if _, err := os.Stat(t.checkpointFile); !errors.Is(err, fs.ErrNotExist) {
		t.Checkpoint = string(r.file(t.checkpointFile))
	}
	return t, errors.Join(r.problems...)
}

// reader collects what is wrong.
type reader struct {
	getenv   func(string) string
	problems []error
}

func (r *reader) note(err error) {
	if err != nil {
		r.problems = append(r.problems, err)
	}
}

func (r *reader) text(name string) string {
	value := r.getenv(name)
	if value == "" {
		r.note(fmt.Errorf("%s is not set: this process was not started by the agent", name))
	}
	return value
}

func (r *reader) number(name string) int64 {
	value := r.text(name)
	if value == "" {
		return 0
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < 1 {
		r.note(fmt.Errorf("%s: %q is not a whole number above zero", name, value))
	}
	return n
}

func (r *reader) token(name string) guard.Token {
	value := r.text(name)
	if value == "" {
		return 0
	}
	token, err := guard.Parse(value)
	if err != nil {
		r.note(fmt.Errorf("%s: %w", name, err))
	}
	return token
}

func (r *reader) time(name string) time.Time {
	value := r.getenv(name)
	if value == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		r.note(fmt.Errorf("%s: %w", name, err))
	}
	return at
}

func (r *reader) file(path string) []byte {
	if path == "" { // which is noted already, or need not be there
		return nil
	}
	content, err := os.ReadFile(path)
	r.note(err)
	return content
}

// replacing lets one write its draft at a time: who calls side by side would rename, or take away, the other's half.
var replacing sync.Mutex

// replace makes a file that appears with its content, or replaces one.
func replace(path, content string) error {
	replacing.Lock()
	defer replacing.Unlock()
	draft := path + ".draft"
	if err := os.WriteFile(draft, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(draft, path)
}
