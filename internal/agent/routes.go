package agent

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
)

const (
	maxBody       = 16 << 10
	maxResultBody = 256 << 10 // a result of control characters grows sixfold

	defaultWaitSeconds = 30
	maxWaitSeconds     = 300
)

// route is one thing that the command can ask or say.
type route struct {
	Method string
	handle func(*socket, http.ResponseWriter, *http.Request) *problem
}

// routes is all that the socket serves; docs/agent-socket.openapi.yaml describes it, and a test compares the two.
var routes = map[string]route{
	"/v1/task":       {http.MethodGet, (*socket).task},
	"/v1/cancel":     {http.MethodGet, (*socket).cancel},
	"/v1/heartbeat":  {http.MethodPost, (*socket).heartbeat},
	"/v1/progress":   {http.MethodPost, (*socket).progress},
	"/v1/checkpoint": {http.MethodPost, (*socket).checkpoint},
	"/v1/result":     {http.MethodPost, (*socket).result},
	"/v1/fail":       {http.MethodPost, (*socket).fail},
}

// ServeHTTP implements [http.Handler].
func (s *socket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, ok := routes[r.URL.Path]
	var p *problem
	switch {
	case !ok:
		p = problemf(http.StatusNotFound, "there is nothing here; see docs/agent-socket.openapi.yaml")
	case r.Method != found.Method:
		w.Header().Set("Allow", found.Method)
		p = problemf(http.StatusMethodNotAllowed, "only %s is served here", found.Method)
	default:
		p = found.handle(s, w, r)
	}
	if p != nil {
		write(w, p.Status, p)
	}
}

// heard notes a word of the command, and answers that.
func (s *socket) heard(w http.ResponseWriter, take func(*words)) *problem {
	words := s.agent.words
	if !words.hear(s.agent.Clock.Boot(), func() { take(words) }) {
		return problemf(http.StatusGone, "the term is lost: nothing that is said now counts")
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// task says what the environment says, and what the attempt before left.
func (s *socket) task(w http.ResponseWriter, _ *http.Request) *problem {
	cfg := &s.agent.Config
	checkpoint, _ := readCheckpoint(cfg.CheckpointPath) // none, or none that will be taken
	write(w, http.StatusOK, struct {
		Task                    string `json:"task"`
		Namespace               string `json:"namespace"`
		Attempt                 int64  `json:"attempt"`
		FencingToken            int64  `json:"fencingToken"`
		IdempotencyKey          string `json:"idempotencyKey"`
		Checkpoint              string `json:"checkpoint"`
		Heartbeat               string `json:"heartbeat"`
		HeartbeatTimeoutSeconds int64  `json:"heartbeatTimeoutSeconds"`
		LeaseDurationSeconds    int64  `json:"leaseDurationSeconds"`
	}{cfg.Task, cfg.Namespace, cfg.Attempt, int64(cfg.Token), cfg.IdempotencyKey, checkpoint, string(cfg.Heartbeat),
		int64(cfg.Timing.Trust() / time.Second), int64(cfg.Timing.Duration / time.Second)})
	return nil
}

// cancel waits until the command is told to stop, or as long as was asked.
func (s *socket) cancel(w http.ResponseWriter, r *http.Request) *problem {
	seconds, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("waitSeconds"), strconv.Itoa(defaultWaitSeconds)))
	if err != nil || seconds < 0 || seconds > maxWaitSeconds {
		return problemf(http.StatusBadRequest, "waitSeconds is not a whole number from 0 to %d", maxWaitSeconds)
	}
	wait := time.Duration(seconds) * time.Second
	if err := http.NewResponseController(w).SetWriteDeadline(s.agent.Clock.Wall().Add(wait + writeTimeout)); err != nil {
		return problemf(http.StatusInternalServerError, "the time for the answer cannot be set: %v", err)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-s.agent.words.isTold:
	case <-timer.C:
	case <-r.Context().Done():
		return nil
	}
	if why := s.agent.words.why(); why != nil {
		write(w, http.StatusOK, why)
		return nil
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *socket) heartbeat(w http.ResponseWriter, r *http.Request) *problem {
	if p := decode(w, r, maxBody, &struct{}{}); p != nil {
		return p
	}
	if why := s.agent.words.why(); why != nil && why.Reason == fencing.ReasonHeartbeatMissed {
		return problemf(http.StatusConflict, "too late: the command is being ended because it was silent for too long")
	}
	return s.heard(w, func(*words) {})
}

func (s *socket) progress(w http.ResponseWriter, r *http.Request) *problem {
	var body struct {
		Current *int64 `json:"current"`
		Total   int64  `json:"total"`
		Message string `json:"message"`
	}
	if p := decode(w, r, maxBody, &body); p != nil {
		return p
	}
	if body.Current == nil {
		return problemf(http.StatusUnprocessableEntity, "current is required")
	}
	progress := &fencing.Progress{Current: *body.Current, Total: body.Total, Message: body.Message}
	if wrong := progress.Problem(); wrong != "" {
		return problemf(http.StatusUnprocessableEntity, "%s", wrong)
	}
	return s.heard(w, func(said *words) { said.progress = progress })
}

// checkpoint writes the file that the command could have written itself: there is one checkpoint, and the last writer's counts.
func (s *socket) checkpoint(w http.ResponseWriter, r *http.Request) *problem {
	var body struct {
		Checkpoint *string `json:"checkpoint"`
	}
	if p := decode(w, r, maxBody, &body); p != nil {
		return p
	}
	switch {
	case body.Checkpoint == nil:
		return problemf(http.StatusUnprocessableEntity, "checkpoint is required")
	case len(*body.Checkpoint) > fencing.MaxCheckpointBytes:
		return problemf(http.StatusRequestEntityTooLarge, "checkpoint has %d bytes, allowed are %d", len(*body.Checkpoint), fencing.MaxCheckpointBytes)
	}
	s.writing.Lock()
	err := replaceFile(s.agent.Config.CheckpointPath, *body.Checkpoint)
	s.writing.Unlock()
	if err != nil {
		return problemf(http.StatusInternalServerError, "the checkpoint file cannot be written: %v", err)
	}
	return s.heard(w, func(*words) {})
}

func (s *socket) result(w http.ResponseWriter, r *http.Request) *problem {
	var body struct {
		Result    *string `json:"result"`
		ResultRef *struct {
			URI       string `json:"uri"`
			Digest    string `json:"digest"`
			SizeBytes *int64 `json:"sizeBytes"`
		} `json:"resultRef"`
	}
	if p := decode(w, r, maxResultBody, &body); p != nil {
		return p
	}
	said := result{Written: true}
	switch {
	case (body.Result == nil) == (body.ResultRef == nil):
		return problemf(http.StatusUnprocessableEntity, "one of result and resultRef is required, and not both")
	case body.Result != nil && len(*body.Result) > fencing.MaxResultBytes:
		return problemf(http.StatusRequestEntityTooLarge, "%s", fencing.ResultTooLarge(len(*body.Result), 0))
	case body.Result != nil:
		said.Content = *body.Result
	case body.ResultRef.SizeBytes == nil:
		return problemf(http.StatusUnprocessableEntity, "resultRef.sizeBytes is required")
	default:
		said.Ref = &fencing.ResultRef{URI: body.ResultRef.URI, Digest: body.ResultRef.Digest, SizeBytes: *body.ResultRef.SizeBytes}
		if wrong := said.Ref.Problem(); wrong != "" {
			return problemf(http.StatusUnprocessableEntity, "resultRef: %s", wrong)
		}
	}
	return s.heard(w, func(w *words) { w.result, w.failure = said, nil })
}

func (s *socket) fail(w http.ResponseWriter, r *http.Request) *problem {
	var body struct {
		Retryable         *bool          `json:"retryable"`
		Effect            fencing.Effect `json:"effect"`
		Reason            string         `json:"reason"`
		Message           string         `json:"message"`
		RetryAfterSeconds *int32         `json:"retryAfterSeconds"`
	}
	if p := decode(w, r, maxBody, &body); p != nil {
		return p
	}
	after := body.RetryAfterSeconds
	switch {
	case body.Effect != "" && body.Effect != fencing.EffectNone:
		return problemf(http.StatusUnprocessableEntity, "effect is %s, or absent", fencing.EffectNone)
	case body.Reason != "" && !fencing.IsReason(body.Reason):
		return problemf(http.StatusUnprocessableEntity, "reason is no word of at most 64 letters, digits and _.:- that begins with a letter")
	case len(body.Message) > fencing.MaxMessageBytes:
		return problemf(http.StatusUnprocessableEntity, "message has %d bytes, allowed are %d", len(body.Message), fencing.MaxMessageBytes)
	case after != nil && (*after < 0 || *after > fencing.MaxRetryAfterSeconds):
		return problemf(http.StatusUnprocessableEntity, "retryAfterSeconds is %d, allowed are 0 to %d", *after, fencing.MaxRetryAfterSeconds)
	case after != nil && body.Retryable != nil && !*body.Retryable:
		return problemf(http.StatusUnprocessableEntity, "retryAfterSeconds means nothing where retryable is false")
	}
	said := &failure{Retryable: body.Retryable, RetryAfterSeconds: after, Effect: body.Effect, Reason: body.Reason, Message: body.Message}
	return s.heard(w, func(w *words) { w.result, w.failure = result{}, said })
}
