package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// newTalker is a fixture whose command talks to its agent: do runs once it was started, and what it returns is its exit code.
func newTalker(t *testing.T, timing fencing.Timing, do func(*talker) int) *talker {
	t.Helper()
	f := &talker{fixture: newFixture(t, timing, nil)}
	dir, err := os.MkdirTemp("", "lh") // the path of a socket has at most 107 bytes
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f.agent.Config.SocketPath = filepath.Join(dir, "s")
	f.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", f.agent.Config.SocketPath)
	}}}
	t.Cleanup(f.client.CloseIdleConnections)
	f.tree.onStart = func(tree *fakeTree) { tree.end(holder.Exit{Code: do(f)}) }
	return f
}

type talker struct {
	*fixture
	client *http.Client
}

// say makes one request, and returns the status and the body; 0: there is nobody.
func (f *talker) say(method, path, body string) (int, string) {
	request, err := http.NewRequest(method, "http://agent"+path, strings.NewReader(body))
	must(f.t, err)
	response, err := f.client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close() //nolint:errcheck // read
	content, err := io.ReadAll(response.Body)
	must(f.t, err)
	f.add(strings.TrimPrefix(path, "/v1/"))
	return response.StatusCode, string(content)
}

func (f *talker) tell(path, body string) {
	f.t.Helper()
	if code, answer := f.say(http.MethodPost, path, body); code != http.StatusNoContent {
		f.t.Errorf("POST %s %s: %d %s", path, body, code, answer)
	}
}

const ref = `{"uri":"s3://bucket/key","digest":"sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","sizeBytes":7}`

func TestTheLastWordOfTheCommandCounts(t *testing.T) {
	t.Parallel()
	const retry, never = `{"reason":"Quota","message":"full","retryAfterSeconds":60}`, `{"retryable":false,"effect":"None"}`
	tests := map[string]struct {
		do      func(*talker) int
		outcome fencing.Outcome
		reason  string
		is      func(*fencing.Submission) bool
	}{
		"a result": {func(f *talker) int { f.tell("/v1/result", `{"result":"r"}`); return 0 },
			fencing.Succeeded, "Completed", func(s *fencing.Submission) bool { return *s.Result == "r" }},
		"a result, over the file": {func(f *talker) int { f.writeResult("file"); f.tell("/v1/result", `{"result":"r"}`); return 0 },
			fencing.Succeeded, "Completed", func(s *fencing.Submission) bool { return *s.Result == "r" }},
		"an empty result": {func(f *talker) int { f.writeResult("file"); f.tell("/v1/result", `{"result":""}`); return 0 },
			fencing.Succeeded, "Completed", func(s *fencing.Submission) bool { return *s.Result == "" }},
		"a reference": {func(f *talker) int { f.tell("/v1/result", `{"resultRef":`+ref+`}`); return 0 },
			fencing.Succeeded, "Completed", func(s *fencing.Submission) bool {
				return s.Result == nil && s.ResultRef.URI == "s3://bucket/key" && s.ResultRef.SizeBytes == 7
			}},
		"a result, and it exits badly": {func(f *talker) int { f.tell("/v1/result", `{"result":"r"}`); return 3 },
			fencing.Failed, "NonZeroExit", func(s *fencing.Submission) bool { return s.Result == nil && s.Retryable == nil }},
		"a failure": {func(f *talker) int { f.tell("/v1/fail", retry); return 3 },
			fencing.Failed, "Quota", func(s *fencing.Submission) bool {
				return s.Message == "full" && *s.RetryAfterSeconds == 60 && *s.ExitCode == 3 && s.Retryable == nil && s.Effect == ""
			}},
		"a failure, however it exits": {func(f *talker) int { f.writeResult("file"); f.tell("/v1/fail", never); return 0 },
			fencing.Failed, "WorkerFailed", func(s *fencing.Submission) bool {
				return s.Result == nil && !*s.Retryable && s.Effect == fencing.EffectNone && *s.ExitCode == 0
			}},
		"a failure, then a result": {func(f *talker) int { f.tell("/v1/fail", never); f.tell("/v1/result", `{"result":"r"}`); return 0 },
			fencing.Succeeded, "Completed", func(s *fencing.Submission) bool { return *s.Result == "r" && s.Effect == "" }},
		"a result, then a failure": {func(f *talker) int { f.tell("/v1/result", `{"result":"r"}`); f.tell("/v1/fail", ``); return 0 },
			fencing.Failed, "WorkerFailed", func(s *fencing.Submission) bool { return s.Result == nil }},
		"what is refused changes nothing": {func(f *talker) int {
			f.tell("/v1/result", `{"result":"r"}`)
			f.say(http.MethodPost, "/v1/fail", `{"reason":"no word"}`)
			f.say(http.MethodPost, "/v1/result", `{}`)
			return 0
		}, fencing.Succeeded, "Completed", func(s *fencing.Submission) bool { return *s.Result == "r" }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTalker(t, patient, tc.do)
			f.run()
			if got := f.wantSubmitted(tc.outcome, tc.reason); !tc.is(got) {
				t.Errorf("submitted %+v", got)
			}
			f.client.CloseIdleConnections()
			if code, _ := f.say(http.MethodGet, "/v1/task", ""); code != 0 {
				t.Errorf("somebody answers at the socket: %d", code)
			}
		})
	}
}

// TestAStopBeatsAFailureThatIsSaid, but not what was said of its effect.
func TestAStopBeatsAFailureThatIsSaid(t *testing.T) {
	t.Parallel()
	f := newTalker(t, eager, func(f *talker) int {
		f.srv.Patch([]byte(`[{"op":"add","path":"/metadata/annotations/leasehold.io~1stop","value":"{\"reason\":\"Suspended\"}"}]`))
		f.say(http.MethodGet, "/v1/cancel", "")
		f.tell("/v1/fail", `{"effect":"None","retryable":false}`)
		return 0
	})
	f.writeResult("file")
	f.run()
	if got := f.wantSubmitted(fencing.Cancelled, "Suspended"); got.Effect != fencing.EffectNone || got.Retryable != nil {
		t.Errorf("submitted %+v", got)
	}
}

func TestTheSocketIsTheContainersUsersOwn(t *testing.T) {
	t.Parallel()
	var mode os.FileMode
	f := newTalker(t, patient, func(f *talker) int {
		info, err := os.Stat(f.agent.Config.SocketPath)
		must(f.t, err)
		mode = info.Mode()
		return 0
	})
	f.run()
	if mode != os.ModeSocket|0o600 {
		t.Errorf("mode %s", mode)
	}
}

func TestWhoWaitsIsToldToStop(t *testing.T) {
	t.Parallel()
	var code, later int
	var answer, again string
	f := newTalker(t, eager, func(f *talker) int {
		code, answer = f.say(http.MethodGet, "/v1/cancel?waitSeconds=0", "")
		if code != http.StatusNoContent {
			f.t.Errorf("told before there was anything to tell: %d %s", code, answer)
		}
		claim := fencing.ParseClaim(f.srv.Annotation(fencing.ClaimAnnotation))
		f.srv.Patch(fencing.StopPatch(&fencing.Term{Holder: testPod, Claim: &claim},
			fencing.Stop{Reason: fencing.ReasonCancelled, Message: "no longer needed", GraceSeconds: 20}))
		code, answer = f.say(http.MethodGet, "/v1/cancel", "")
		later, again = f.say(http.MethodGet, "/v1/cancel?waitSeconds=300", "")
		return 0
	})
	f.run()
	if code != http.StatusOK || !strings.Contains(answer, `"reason":"Cancelled","message":"no longer needed","graceSeconds":`) {
		t.Errorf("%d %s", code, answer)
	}
	if later != http.StatusOK || again != answer {
		t.Errorf("asked again: %d %s", later, again)
	}
	f.wantSubmitted(fencing.Cancelled, fencing.ReasonCancelled)
}

// TestWhoWaitsMayWaitLong: for longer than a request may take to arrive.
func TestWhoWaitsMayWaitLong(t *testing.T) {
	if testing.Short() {
		t.Skip("Skipped in short mode: it waits for longer than the socket's shortest timeout")
	}
	t.Parallel()
	var code int
	var waited time.Duration
	f := newTalker(t, patient, func(f *talker) int {
		begin := time.Now()
		code, _ = f.say(http.MethodGet, "/v1/cancel?waitSeconds=11", "")
		waited = time.Since(begin)
		return 0
	})
	f.run()
	if code != http.StatusNoContent || waited < 11*time.Second {
		t.Errorf("answered %d after %s", code, waited)
	}
}

// TestWhoDoesNotListenIsHungUpOn: as many as may be connected ask on and on, and read no answer. They are hung up on, and whoever comes
// after them is served.
func TestWhoDoesNotListenIsHungUpOn(t *testing.T) {
	if testing.Short() {
		t.Skip("Skipped in short mode: it waits for longer than the socket's longest write may take")
	}
	t.Parallel()
	var late, code int
	ended := make(chan error, maxConnections)
	f := newTalker(t, patient, func(f *talker) int {
		for range maxConnections {
			deaf, err := net.Dial("unix", f.agent.Config.SocketPath)
			must(f.t, err)
			defer deaf.Close() //nolint:errcheck // hung up on
			must(f.t, deaf.SetDeadline(time.Now().Add(3*writeTimeout)))
			go func() {
				_, err := deaf.Write(bytes.Repeat([]byte("GET /v1/task HTTP/1.1\r\nHost: agent\r\n\r\n"), 1<<14))
				ended <- err
			}()
		}
		f.client.Timeout = time.Second
		late, _ = f.say(http.MethodGet, "/v1/task", "")
		f.client.Timeout = 3 * writeTimeout
		code, _ = f.say(http.MethodGet, "/v1/task", "")
		for range maxConnections {
			if err := <-ended; err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				f.t.Errorf("who does not listen: %v", err)
			}
		}
		return 0
	})
	f.run()
	if late != 0 || code != http.StatusOK {
		t.Errorf("one more than may be connected got %d, and %d after the others", late, code)
	}
}

// TestALostTermIsDeaf: who waits is told, nobody answers at the socket any more, and what is said by an open connection does not count.
func TestALostTermIsDeaf(t *testing.T) {
	t.Parallel()
	var told, said, anew int
	var why string
	f := newTalker(t, eager, func(f *talker) int {
		f.tell("/v1/heartbeat", "")
		f.revoke()
		told, why = f.say(http.MethodGet, "/v1/cancel", "")
		said, _ = f.say(http.MethodPost, "/v1/checkpoint", `{"checkpoint":"late"}`) // the same connection
		f.client.CloseIdleConnections()
		anew, _ = f.say(http.MethodPost, "/v1/heartbeat", "")
		return 0
	})
	f.wantCode(f.run(), ExitFenced)
	if told != http.StatusOK || !strings.Contains(why, `"reason":"RenewalFailed"`) {
		t.Errorf("told %d %s", told, why)
	}
	if said != http.StatusGone && said != 0 || anew != 0 {
		t.Errorf("said %d, said anew %d", said, anew)
	}
}

func TestACommandThatMustBeHeardIsNotStartedWithoutASocket(t *testing.T) {
	t.Parallel()
	for heartbeat, want := range map[holder.Heartbeat]fencing.Outcome{holder.Process: fencing.Succeeded, holder.Application: fencing.Failed} {
		f := newTalker(t, patient, func(*talker) int { return 0 })
		f.agent.Config.SocketPath, f.agent.Config.Heartbeat = filepath.Join(f.dir, "no", "such", "directory"), heartbeat
		f.run()
		if got := f.submitted(); got == nil || got.Outcome != want {
			t.Errorf("%s: submitted %+v", heartbeat, got)
		}
	}
}

func TestSilenceEndsTheAttempt(t *testing.T) {
	t.Parallel()
	var late atomic.Int32
	f := newTalker(t, hasty, nil)
	f.agent.Config.Heartbeat = holder.Application
	f.tree.onStart = func(*fakeTree) {
		for range 10 { // twice as long as it may be silent
			f.tell("/v1/heartbeat", "")
			time.Sleep(200 * time.Millisecond)
		}
		f.say(http.MethodGet, "/v1/cancel", "")
		status, _ := f.say(http.MethodPost, "/v1/heartbeat", "")
		late.Store(int32(status))
	}
	f.run()
	f.wantSubmitted(fencing.Failed, fencing.ReasonHeartbeatMissed)
	f.wantOrder("heartbeat", "Renew", "heartbeat", "signal terminated to the group", "kill killed", "Submit")
	f.wantNever("kill terminated")                                  // it is no fence
	if got := late.Load(); got != http.StatusConflict && got != 0 { // 0: it was killed before the answer
		t.Errorf("a late heartbeat got %d", got)
	}
	if why, err := os.ReadFile(f.agent.Config.CancelPath); err != nil || string(why) != fencing.ReasonHeartbeatMissed {
		t.Errorf("the cancel file says %q, %v", why, err)
	}
}

func TestACommandThatSpeaksIsLeftAlone(t *testing.T) {
	t.Parallel()
	f := newTalker(t, hasty, func(f *talker) int {
		for i := range 15 { // three times as long as it may be silent; whatever it says counts
			f.tell([]string{"/v1/heartbeat", "/v1/progress", "/v1/checkpoint"}[i%3], []string{"", `{"current":1}`, `{"checkpoint":"c"}`}[i%3])
			time.Sleep(200 * time.Millisecond)
		}
		return 0
	})
	f.agent.Config.Heartbeat = holder.Application
	f.wantCode(f.run(), 0)
	f.wantSubmitted(fencing.Succeeded, fencing.ReasonCompleted)
}

func TestCall(t *testing.T) {
	t.Parallel()
	var good, bad, task bytes.Buffer
	var errs []error
	f := newTalker(t, patient, func(f *talker) int {
		path := f.agent.Config.SocketPath
		errs = append(errs,
			Call(path, []string{"POST", "/v1/result", "-"}, strings.NewReader(`{"result":"by call"}`), &good),
			Call(path, []string{"GET", "/v1/task"}, nil, &task),
			Call(path, []string{"POST", "/v1/progress", `{}`}, nil, &bad),
			Call("", []string{"GET", "/v1/task"}, nil, &bad))
		return 0
	})
	f.run()
	if got := f.wantSubmitted(fencing.Succeeded, "Completed"); *got.Result != "by call" {
		t.Errorf("submitted %+v", got)
	}
	if errs[0] != nil || errs[1] != nil || good.Len() != 0 || !strings.Contains(task.String(), `"namespace":"default"`) {
		t.Errorf("%v, %v: %s%s", errs[0], errs[1], &good, &task)
	}
	if errs[2] == nil || errs[3] == nil || !strings.Contains(bad.String(), "current is required") {
		t.Errorf("%v, %v: %s", errs[2], errs[3], &bad)
	}
}

// TestASecondAgentLeavesTheSocketAlone: it has no term, and must not answer in the first one's place.
func TestASecondAgentLeavesTheSocketAlone(t *testing.T) {
	t.Parallel()
	f := newTalker(t, patient, func(*talker) int { return 0 })
	must(t, os.WriteFile(f.agent.Config.SocketPath, []byte("the first one's"), 0o600))
	f.srv.Patch(fencing.ClaimPatch(testPod, fencing.Claim{Nonce: "first", Node: "node-1", PodUID: testUID}, time.Now()))
	f.wantCode(f.run(), ExitNotHeld)
	if content, err := os.ReadFile(f.agent.Config.SocketPath); err != nil || string(content) != "the first one's" {
		t.Errorf("%q, %v", content, err)
	}
}
