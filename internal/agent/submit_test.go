package agent

import (
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/internal/agent/agenttest"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// submitting scripts the answers to the first submissions; everything else is served.
func submitting(actions ...agenttest.Action) func(agenttest.Request) agenttest.Action {
	return func(r agenttest.Request) agenttest.Action {
		if r.Kind == agenttest.Submit && r.N <= len(actions) {
			return actions[r.N-1]
		}
		return agenttest.Serve
	}
}

// unreasoned is the answer where somebody else's policy denies without a reason, or cannot be evaluated.
var unreasoned = agenttest.Answer(http.StatusUnprocessableEntity, agenttest.UnreasonedPolicy)

func TestSubmitsResultAndExitCode(t *testing.T) {
	t.Parallel()
	f := newFixture(t, patient, nil)
	f.writeResult("{\"n\": 1}\n")
	f.wantCode(f.run(), 0)
	got := f.wantSubmitted(fencing.Succeeded, fencing.ReasonCompleted)
	if got.Result == nil || *got.Result != "{\"n\": 1}\n" || got.ExitCode == nil || *got.ExitCode != 0 {
		t.Errorf("submitted %+v", got)
	}
	f.wantReport(fencing.Succeeded, fencing.DeliveryAccepted)
	for _, r := range f.srv.Seen() {
		if r.Path != "/apis/coordination.k8s.io/v1/namespaces/default/leases/lh-1" || r.Token != "secret-token" ||
			r.Header.Get("Content-Type") != "application/json-patch+json" {
			t.Errorf("request %+v", r)
		}
	}
}

func TestSubmitsFailureWithTheCommandsOwnMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, patient, nil)
	f.tree.onStart = func(tree *fakeTree) {
		must(t, os.WriteFile(f.agent.Config.TerminationLog, []byte("disk full\n"), 0o600))
		tree.end(holder.Exit{Code: 3})
	}
	f.writeResult("ignored: it failed")
	f.wantCode(f.run(), 3)
	got := f.wantSubmitted(fencing.Failed, fencing.ReasonNonZeroExit)
	if got.Message != "disk full" || *got.ExitCode != 3 || got.Result != nil {
		t.Errorf("submitted %+v", got)
	}
}

func TestSubmissionIsRepeatedUntilItIsSettled(t *testing.T) {
	t.Parallel()
	tests := map[string][]agenttest.Action{
		"its answer was lost":   {agenttest.LoseAnswer},
		"the request was lost":  {agenttest.LoseRequest},
		"the server was down":   {agenttest.Answer(503, ""), agenttest.LoseRequest, agenttest.Answer(500, "")},
		"too many requests":     {agenttest.Answer(429, "")},
		"the answer timed out":  {agenttest.LateAnswer},
		"the token was renewed": {agenttest.Answer(401, "")},
		"the role was missing":  {agenttest.Answer(403, ""), agenttest.Answer(403, "")},
		"a policy was broken":   {unreasoned, unreasoned, unreasoned},
		"a webhook was":         {agenttest.Answer(400, ""), agenttest.Answer(400, "")},
	}
	for name, answers := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, patient, submitting(answers...))
			f.writeResult("r")
			f.wantCode(f.run(), 0)
			f.wantSubmitted(fencing.Succeeded, fencing.ReasonCompleted)
			f.wantReport(fencing.Succeeded, fencing.DeliveryAccepted)
			if got, want := f.srv.Count(agenttest.Submit), len(answers)+1; got != want {
				t.Errorf("%d submissions, want %d", got, want)
			}
		})
	}
}

// TestTrustDoesNotBoundTheSubmission: the command succeeded in time; the outage that follows outlasts all trust.
func TestTrustDoesNotBoundTheSubmission(t *testing.T) {
	t.Parallel()
	clock := &leapingClock{SystemClock: SystemClock(time.Now)}
	asleep := agenttest.LoseRequest
	asleep.Before = func() { clock.leap.Add(int64(patient.Duration)) }
	f := newFixture(t, patient, submitting(asleep, agenttest.LoseRequest))
	f.agent.Clock, f.agent.Alarm = clock, leapingAlarm{f.agent.Alarm, clock}
	f.writeResult("r")
	f.wantCode(f.run(), 0)
	f.wantSubmitted(fencing.Succeeded, fencing.ReasonCompleted)
	f.wantReport(fencing.Succeeded, fencing.DeliveryAccepted)
	f.wantOrder("Submit", "Renew", "Submit", "Submit") // a renewal is long due
	f.wantNever("kill terminated")
}

// leapingAlarm is an alarm on a leaping clock.
type leapingAlarm struct {
	Alarm
	clock *leapingClock
}

func (a leapingAlarm) Set(at holder.Boot) { a.Alarm.Set(at - holder.Boot(a.clock.leap.Load())) }

func TestARefusedSubmissionIsVisible(t *testing.T) {
	t.Parallel()
	var f *fixture
	tests := map[string]func(){
		"revoked just before": func() { f.revoke() },
		"the Lease is gone":   func() { f.srv.Delete() },
	}
	for name, before := range tests {
		t.Run(name, func(t *testing.T) {
			late := agenttest.Serve
			late.Before = before
			f = newFixture(t, patient, submitting(late))
			f.writeResult("r")
			f.wantCode(f.run(), 0)
			f.wantReport(fencing.Succeeded, fencing.DeliveryRefused)
			if got := f.srv.Count(agenttest.Submit); got != 1 {
				t.Errorf("%d submissions: a refusal is final", got)
			}
		})
	}
}

// TestADeniedSubmissionIsGivenUpAfterOneDuration: another submission was made, which the policy protects.
func TestADeniedSubmissionIsGivenUpAfterOneDuration(t *testing.T) {
	t.Parallel()
	short := patient
	short.Duration, short.Margin = time.Second, time.Second-patient.Trust() // the same trust
	f := newFixture(t, short, nil)
	f.script(f.atSubmit(func() {
		f.srv.Patch([]byte(`[{"op":"add","path":"/metadata/annotations/leasehold.io~1submission","value":"{}"}]`))
	}))
	f.writeResult("r")
	f.wantCode(f.run(), 0)
	f.wantReport(fencing.Succeeded, fencing.DeliveryRefused)
	if got := f.srv.Count(agenttest.Submit); got < 2 {
		t.Errorf("%d submissions: the first 403 was believed", got)
	}
}

func TestASubmissionThatDoesNotFitIsReplaced(t *testing.T) {
	t.Parallel()
	causes := `{"kind":"Status","details":{"name":"lh-1","causes":[{"reason":"FieldValueTooLong","field":"metadata.annotations"}]}}`
	tests := map[string]agenttest.Action{
		"422 with causes": agenttest.Answer(http.StatusUnprocessableEntity, causes),
		"413":             agenttest.Answer(http.StatusRequestEntityTooLarge, `{"kind":"Status"}`),
	}
	for name, refusal := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, patient, submitting(refusal))
			f.writeResult("r")
			f.wantCode(f.run(), 0)
			f.wantSubmitted(fencing.Failed, fencing.ReasonResultTooLarge)
			f.wantReport(fencing.Failed, fencing.DeliveryAccepted)
		})
	}
	t.Run("again and again", func(t *testing.T) {
		f := newFixture(t, patient, submitting(agenttest.Answer(413, ""), agenttest.Answer(413, ""), agenttest.Answer(413, "")))
		f.writeResult("r")
		f.wantCode(f.run(), 0)
		f.wantReport(fencing.Failed, fencing.DeliveryRefused)
	})
}

func TestAResultThatCannotBeSubmitted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		content string
		want    fencing.Outcome
		reason  string
		message string
	}{
		"at the limit":           {strings.Repeat("x", fencing.MaxResultBytes), fencing.Succeeded, fencing.ReasonCompleted, ""},
		"one byte above":         {strings.Repeat("x", fencing.MaxResultBytes+1), fencing.Failed, fencing.ReasonResultTooLarge, "32769 bytes, allowed are 32768"},
		"far above":              {strings.Repeat("x", 1<<20), fencing.Failed, fencing.ReasonResultTooLarge, "1048576 bytes"},
		"too large once encoded": {strings.Repeat("\x01", fencing.MaxResultBytes/3), fencing.Failed, fencing.ReasonResultTooLarge, "10922 bytes"},
		"no text":                {"\xff\xfe", fencing.Failed, fencing.ReasonResultInvalid, "UTF-8"},
		"empty":                  {"", fencing.Succeeded, fencing.ReasonCompleted, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, patient, nil)
			f.writeResult(tc.content)
			f.wantCode(f.run(), 0)
			got := f.wantSubmitted(tc.want, tc.reason)
			if !strings.Contains(got.Message, tc.message) {
				t.Errorf("message %q", got.Message)
			}
			if tc.want == fencing.Succeeded && (got.Result == nil || *got.Result != tc.content) {
				t.Errorf("the result did not arrive byte for byte")
			}
		})
	}
}

func TestReportSaysUnknownUntilThereIsAnAnswer(t *testing.T) {
	t.Parallel()
	var f *fixture
	var during string
	looking := agenttest.Serve
	looking.Before = func() {
		raw, err := os.ReadFile(f.agent.Config.TerminationLog)
		must(t, err)
		during = string(raw)
	}
	f = newFixture(t, patient, submitting(looking))
	f.wantCode(f.run(), 0)
	if got, ok := fencing.ParseReport(during); !ok || got.Delivery != fencing.DeliveryUnknown || got.Outcome != fencing.Succeeded {
		t.Errorf("termination message during the submission: %s", during)
	}
	if !json.Valid([]byte(during)) {
		t.Errorf("%q", during)
	}
}
