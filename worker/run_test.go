package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// both runs a test with the agent's socket and without.
func both(t *testing.T, test func(*testing.T, bool)) {
	t.Run("socket", func(t *testing.T) { t.Parallel(); test(t, true) })
	t.Run("files", func(t *testing.T) { t.Parallel(); test(t, false) })
}

func returns(result any, err error) Work {
	return func(context.Context, *Task) (any, error) { return result, err }
}

func TestTheTaskIsWhatTheAgentSays(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, withSocket bool) {
		p := newPlace(t, withSocket)
		p.write("checkpoint", "row 41")
		p.env[envDeadline] = "2026-01-31T09:30:00Z"
		if withSocket {
			p.agent.checkpoint, p.agent.heartbeat, p.agent.silence = "row 41", "Application", 7
		}
		code := p.run(func(_ context.Context, task *Task) (any, error) {
			got := fmt.Sprintln(task.Name, task.Namespace, task.Attempt, task.FencingToken, task.IdempotencyKey, string(task.Payload), task.Checkpoint,
				task.Deadline, task.Probe == nil, task.HeartbeatTimeout)
			want := `ship shop 2 17592186045001 key-1 {"to":"Ghent"} row 41 2026-01-31 09:30:00 +0000 UTC true ` +
				map[bool]string{true: "7s", false: "0s"}[withSocket] + "\n"
			if got != want {
				t.Errorf("got  %swant %s", got, want)
			}
			return nil, nil
		}, nil)
		p.wantCode(code, ExitDone)
	})
}

func TestWhatTheWorkReturnsIsTheResult(t *testing.T) {
	t.Parallel()
	ref := Reference{URI: "s3://bucket/key", Digest: "sha256:" + strings.Repeat("0a", 32), SizeBytes: 7}
	const refWord = `result {"resultRef":{"uri":"s3://bucket/key","digest":"sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","sizeBytes":7}}`
	tests := map[string]struct {
		result any
		word   string // by the socket; empty: none
		file   string // without one; "-": none
	}{
		"text":               {"ünder way", `result {"result":"ünder way"}`, "ünder way"},
		"no text":            {"", `result {"result":""}`, ""},
		"bytes":              {[]byte(`{"a": 1}`), `result {"result":"{\"a\": 1}"}`, `{"a": 1}`},
		"something":          {map[string]int{"rows": 3}, `result {"result":"{\"rows\":3}"}`, `{"rows":3}`},
		"nothing":            {nil, "", "-"},
		"no bytes":           {[]byte(nil), "", "-"},
		"no reference":       {(*Reference)(nil), "", "-"},
		"as large as can be": {strings.Repeat("x", MaxResult), `result {"result":"` + strings.Repeat("x", MaxResult) + `"}`, strings.Repeat("x", MaxResult)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, withSocket bool) {
				p := newPlace(t, withSocket)
				p.wantCode(p.run(returns(tc.result, nil), nil), ExitDone)
				switch {
				case !withSocket && p.read("result") != tc.file:
					t.Errorf("the result file holds %q", p.read("result"))
				case withSocket && tc.word == "":
					p.agent.wantWords()
				case withSocket:
					p.agent.wantWords(tc.word)
				}
			})
		})
	}
	for name, result := range map[string]any{"a reference": ref, "a pointer to one": &ref} {
		p := newPlace(t, true)
		p.wantCode(p.run(returns(result, nil), nil), ExitDone)
		p.agent.wantWords(refWord)
		p = newPlace(t, false)
		p.wantCode(p.run(returns(result, nil), nil), ExitFailed)
		if !strings.Contains(p.read("log"), "there is no socket") {
			t.Errorf("%s: message %q", name, p.read("log"))
		}
	}
}

// TestAResultIsDeliveredAfterTheContextOfTheProgram: a program may end it when it is told to stop.
func TestAResultIsDeliveredAfterTheContextOfTheProgram(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	ctx, cancel := context.WithCancel(p.Context())
	outside := process{getenv: func(name string) string { return p.env[name] }, signals: p.signals, log: &p.log, terminationLog: filepath.Join(p.dir, "log")}
	code := outside.run(ctx, func(context.Context, *Task) (any, error) {
		cancel()
		return Reference{URI: "s3://bucket/key", Digest: "sha256:" + strings.Repeat("0a", 32)}, nil
	}, nil)
	p.wantCode(code, ExitDone)
	p.agent.wantWords(`result {"resultRef":{"uri":"s3://bucket/key","digest":"sha256:` + strings.Repeat("0a", 32) + `","sizeBytes":0}}`)
}

func TestAResultThatIsNotTakenIsAFailure(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		result any
		refuse int
		want   string
		code   int
	}{
		"too large":        {strings.Repeat("x", MaxResult+1), 0, `fail {"reason":"ResultTooLarge","message":"the result has 32769 bytes, at most 32768 are allowed"}`, ExitFailed},
		"no text":          {"\xff", 0, `fail {"reason":"ResultInvalid","message":"the result is not UTF-8 text"}`, ExitFailed},
		"no JSON":          {func() {}, 0, `fail {"reason":"ResultInvalid","message":"json: unsupported type: func()"}`, ExitFailed},
		"refused":          {"r", 422, `fail {"reason":"ResultInvalid","message":"the result: the agent refuses (422): for the test"}`, ExitFailed},
		"the term is lost": {"r", 410, `fail {"message":"the agent refuses (410): for the test"}`, ExitFailed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, true)
			p.agent.refuse["/v1/result"] = tc.refuse
			p.wantCode(p.run(returns(tc.result, nil), nil), tc.code)
			p.agent.wantWords(tc.want)
		})
	}
}

func TestAnErrorIsAFailure(t *testing.T) {
	t.Parallel()
	cause := errors.New("row 7 is no date")
	tests := map[string]struct {
		err     error
		word    string
		message string
		code    int
	}{
		"an error":          {cause, `fail {"message":"row 7 is no date"}`, "row 7 is no date", ExitFailed},
		"permanent":         {&Failure{Reason: "BadInput", Permanent: true, Err: cause}, `fail {"retryable":false,"reason":"BadInput","message":"row 7 is no date"}`, "row 7 is no date", ExitPermanent},
		"without effect":    {&Failure{NoEffect: true, Err: cause}, `fail {"effect":"None","message":"row 7 is no date"}`, "row 7 is no date", ExitFailed},
		"only a reason":     {&Failure{Reason: "Quota"}, `fail {"reason":"Quota"}`, "", ExitFailed},
		"wrapped":           {fmt.Errorf("ship: %w", &Failure{Reason: "BadInput", Err: cause}), `fail {"reason":"BadInput","message":"ship: BadInput: row 7 is no date"}`, "ship: BadInput: row 7 is no date", ExitFailed},
		"later":             {&Failure{RetryAfter: new(1500 * time.Millisecond)}, `fail {"retryAfterSeconds":2}`, "", ExitFailed},
		"at once":           {&Failure{RetryAfter: new(time.Duration(0))}, `fail {"retryAfterSeconds":0}`, "", ExitFailed},
		"before":            {&Failure{RetryAfter: new(-time.Hour)}, `fail {"retryAfterSeconds":0}`, "", ExitFailed},
		"as late as can be": {&Failure{RetryAfter: new(time.Duration(math.MaxInt64))}, `fail {"retryAfterSeconds":86400}`, "", ExitFailed},
		"much later":        {&Failure{RetryAfter: new(48 * time.Hour)}, `fail {"retryAfterSeconds":86400}`, "", ExitFailed},
		"never and later":   {&Failure{Permanent: true, RetryAfter: new(time.Hour)}, `fail {"retryable":false}`, "", ExitPermanent},
		"two words":         {&Failure{Reason: "bad input", Err: cause}, `fail {"message":"\"bad input\": row 7 is no date"}`, `"bad input": row 7 is no date`, ExitFailed},
		"a long story": {errors.New(strings.Repeat("ü", 600)), `fail {"message":"` + strings.Repeat("ü", 512) + `"}`,
			strings.Repeat("ü", 512), ExitFailed},
		"half a letter at its end": {errors.New("x" + strings.Repeat("ü", 600)), `fail {"message":"x` + strings.Repeat("ü", 511) + `"}`,
			"x" + strings.Repeat("ü", 511), ExitFailed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			both(t, func(t *testing.T, withSocket bool) {
				p := newPlace(t, withSocket)
				p.wantCode(p.run(returns("ignored", tc.err), nil), tc.code)
				if withSocket {
					p.agent.wantWords(tc.word)
				} else if p.read("log") != tc.message || p.read("result") != "-" {
					t.Errorf("message %q, result %q", p.read("log"), p.read("result"))
				}
			})
		})
	}
}

// TestWithoutTheSocketThereAreStillFiles: it was there at the start, and goes.
func TestWithoutTheSocketThereAreStillFiles(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	code := p.run(func(_ context.Context, task *Task) (any, error) {
		_ = p.agent.server.Close()
		return "r", task.SaveCheckpoint("row 7")
	}, nil)
	p.wantCode(code, ExitDone)
	if p.read("result") != "r" || p.read("checkpoint") != "row 7" {
		t.Errorf("result %q, checkpoint %q", p.read("result"), p.read("checkpoint"))
	}
	p = newPlace(t, true)
	_ = p.agent.server.Close()
	p.wantCode(p.run(returns(nil, &Failure{Permanent: true, Err: errors.New("no")}), nil), ExitPermanent)
	if p.read("log") != "no" {
		t.Errorf("message %q", p.read("log"))
	}
}

// TestAReadThatFailsDoesNotCostTheSocket: neither what it says of the task, nor what it is told later.
func TestAReadThatFailsDoesNotCostTheSocket(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		hangUps    int
		checkpoint string
		silence    time.Duration
	}{
		"once":      {1, "of the socket", 22 * time.Second},
		"and again": {2, "of the socket", 22 * time.Second},
		"for good":  {1000, "of the file", 7 * time.Second}, // somebody may listen for heartbeats
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, true)
			p.write("checkpoint", "of the file")
			p.agent.checkpoint, p.agent.heartbeat, p.agent.silence, p.agent.hangUps = "of the socket", "Application", 22, tc.hangUps
			code := p.run(func(_ context.Context, task *Task) (any, error) {
				if task.Checkpoint != tc.checkpoint || task.HeartbeatTimeout != tc.silence {
					t.Errorf("checkpoint %q, silence %v", task.Checkpoint, task.HeartbeatTimeout)
				}
				task.Heartbeat()
				return "r", task.SaveCheckpoint("row 7")
			}, nil)
			p.wantCode(code, ExitDone)
			words := p.agent.words()
			slices.Sort(words) // the heartbeat goes on its own
			if want := []string{`checkpoint {"checkpoint":"row 7"}`, "heartbeat", `result {"result":"r"}`}; !slices.Equal(words, want) {
				t.Errorf("said %q, want %q", words, want)
			}
		})
	}
}

// TestAPlaceForTheResultIsNeededFromTheStart: without one, what was done would be lost.
func TestAPlaceForTheResultIsNeededFromTheStart(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, withSocket bool) {
		p := newPlace(t, withSocket)
		delete(p.env, envResultFile)
		p.wantCode(p.run(func(context.Context, *Task) (any, error) { t.Error("it works"); return "r", nil }, nil), ExitUsage)
	})
}

func TestAProgramThatTheAgentHasNotStarted(t *testing.T) {
	t.Parallel()
	p := newPlace(t, false)
	p.env = map[string]string{envAttempt: "0", envFencingToken: "1e9", envDeadline: "soon", envProbeAttempt: "1", envPayloadFile: "/nowhere"}
	p.wantCode(p.run(func(context.Context, *Task) (any, error) { t.Error("it works"); return nil, nil }, nil), ExitUsage)
	for _, want := range []string{envTask, envNamespace, envAttempt, envFencingToken, envIdempotencyKey, envDeadline, envProbeToken, envResultFile, "/nowhere"} {
		if !strings.Contains(p.log.text(), want) {
			t.Errorf("the log does not name %s:\n%s", want, p.log.text())
		}
	}
}

// TestTheVariablesAreThoseOfTheAgent compares with api/env, which is another module's.
func TestTheVariablesAreThoseOfTheAgent(t *testing.T) {
	agents, err := os.ReadFile("../api/env/env.go")
	if os.IsNotExist(err) {
		t.Skip("it is in the repository only")
	}
	own, ownErr := os.ReadFile("environment.go")
	if err != nil || ownErr != nil {
		t.Fatal(err, ownErr)
	}
	names := regexp.MustCompile(`"LEASEHOLD_[A-Z_]+"`)
	known := map[string]bool{}
	for _, name := range names.FindAllString(string(agents), -1) {
		known[name] = true
	}
	used := names.FindAllString(string(own), -1)
	if len(used) != 13 {
		t.Errorf("%d variables", len(used))
	}
	for _, name := range used {
		if !known[name] {
			t.Errorf("%s is none of the agent's", name)
		}
	}
}
