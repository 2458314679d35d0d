package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestOfManyWordsTheLastCounts: a loop may say what it likes as often as it likes.
func TestOfManyWordsTheLastCounts(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	const rows = 100_000
	code := p.run(func(_ context.Context, task *Task) (any, error) {
		for n := range int64(rows) {
			if err := task.Progress(n+1, rows, "rows"); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}, nil)
	p.wantCode(code, ExitDone)
	words := p.agent.words()
	if len(words) == 0 || len(words) > 20 || words[len(words)-1] != `progress {"current":100000,"total":100000,"message":"rows"}` {
		t.Errorf("said %d times: %v", len(words), words)
	}
}

// TestAWordThatDidNotArriveIsSaidAgain with the next one, or at the end.
func TestAWordThatDidNotArriveIsSaidAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	task, err := open(func(name string) string { return p.env[name] })
	if err != nil {
		t.Fatal(err)
	}
	if err := task.Progress(1, 2, ""); err != nil {
		t.Fatal(err)
	}
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	task.utter(cut)
	p.agent.wantWords()
	task.utter(t.Context())
	task.utter(t.Context())
	p.agent.wantWords(`progress {"current":1,"total":2}`)
}

func TestProgressThatMakesNoSense(t *testing.T) {
	t.Parallel()
	task := &Task{}
	for _, err := range []error{task.Progress(-1, 0, ""), task.Progress(0, -1, ""), task.Progress(0, 0, strings.Repeat("x", 257)), task.Progress(0, 0, "\xff")} {
		if err == nil {
			t.Error("taken")
		}
	}
	if err := task.Progress(0, 0, strings.Repeat("x", 256)); err != nil {
		t.Error(err)
	}
}

func beats(words []string) (n int) {
	for _, word := range words {
		if word == "heartbeat" {
			n++
		}
	}
	return n
}

func TestHeartbeatsAreForThoseWhoMustBeHeard(t *testing.T) {
	t.Parallel()
	for heartbeat, want := range map[string]bool{"Application": true, "Process": false} {
		p := newPlace(t, true)
		p.agent.heartbeat, p.agent.silence = heartbeat, 22
		p.run(func(_ context.Context, task *Task) (any, error) {
			for range 1000 {
				task.Heartbeat()
			}
			defer task.Working(time.Hour)()
			return nil, nil
		}, nil)
		if got := beats(p.agent.words()); got > 2 || (got > 0) != want {
			t.Errorf("%s: %d heartbeats", heartbeat, got)
		}
	}
}

// TestALongStepIsHeardForAsLongAsItMayTake, and no longer: then it hangs.
func TestALongStepIsHeardForAsLongAsItMayTake(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	p.agent.heartbeat, p.agent.silence = "Application", 1
	var during, after, done int
	p.run(func(_ context.Context, task *Task) (any, error) {
		defer task.Working(2 * time.Second)()
		time.Sleep(3200 * time.Millisecond) // and the pace
		during = beats(p.agent.words())
		time.Sleep(1500 * time.Millisecond)
		after = beats(p.agent.words())
		task.Working(time.Hour)()
		time.Sleep(time.Second)
		done = beats(p.agent.words())
		return nil, nil
	}, nil)
	if during < 3 || after != during || done > after+1 {
		t.Errorf("%d heartbeats in the step, %d after its limit, %d after another", during, after, done)
	}
}

func TestCheckpoints(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, withSocket bool) {
		p := newPlace(t, withSocket)
		code := p.run(func(_ context.Context, task *Task) (any, error) {
			if task.Checkpoint != "" {
				t.Errorf("checkpoint %q", task.Checkpoint)
			}
			if task.SaveCheckpoint(strings.Repeat("x", MaxCheckpoint+1)) == nil || task.SaveCheckpoint("\xff") == nil {
				t.Error("taken")
			}
			return nil, task.SaveCheckpoint(strings.Repeat("x", MaxCheckpoint))
		}, nil)
		p.wantCode(code, ExitDone)
		want := strings.Repeat("x", MaxCheckpoint)
		if withSocket {
			p.agent.wantWords(`checkpoint {"checkpoint":"` + want + `"}`)
		} else if p.read("checkpoint") != want {
			t.Errorf("the file holds %q", p.read("checkpoint"))
		}
	})
	p := newPlace(t, true)
	p.agent.refuse["/v1/checkpoint"] = 410
	code := p.run(func(_ context.Context, task *Task) (any, error) { return nil, task.SaveCheckpoint("late") }, nil)
	p.wantCode(code, ExitFailed)
	if p.read("checkpoint") != "-" {
		t.Error("a refused checkpoint is written to the file")
	}
}

// TestCheckpointsMayBeSavedSideBySide: each is saved whole, or replaced by another that is.
func TestCheckpointsMayBeSavedSideBySide(t *testing.T) {
	t.Parallel()
	p := newPlace(t, false)
	code := p.run(func(_ context.Context, task *Task) (any, error) {
		errs := make([]error, 16)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				for range 50 {
					errs[i] = errors.Join(errs[i], task.SaveCheckpoint(strings.Repeat(string(rune('a'+i)), MaxCheckpoint-i)))
				}
			})
		}
		all.Wait()
		return nil, errors.Join(errs...)
	}, nil)
	p.wantCode(code, ExitDone)
	if got := p.read("checkpoint"); got == "" || got != strings.Repeat(got[:1], MaxCheckpoint-int(got[0]-'a')) {
		t.Errorf("the file holds %q", got)
	}
}

// TestATaskMadeByHandSpeaksToNobody: for tests of a Work.
func TestATaskMadeByHandSpeaksToNobody(t *testing.T) {
	t.Parallel()
	task := &Task{HeartbeatTimeout: time.Second}
	task.Heartbeat()
	task.Working(time.Second)()
	if err := task.Progress(1, 2, "m"); err != nil {
		t.Error(err)
	}
	if err := task.SaveCheckpoint("c"); err != nil {
		t.Error(err)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	type order struct {
		To    string `json:"to"`
		Count int    `json:"count"`
	}
	tests := map[string]string{ // what is wrong; empty: nothing
		`{"to":"Ghent","count":1}`: "",
		" {\"to\":\"Ghent\"}\n":    "",
		``:                         "there is none",
		"\n":                       "there is none",
		`null`:                     "it is null",
		`{"to":"Ghent","cuont":1}`: `unknown field "cuont"`,
		`{"to":7}`:                 "cannot unmarshal number",
		`{"to":"Ghent"} {}`:        "goes on after its value",
		`{"to":"Ghent"`:            "unexpected EOF",
		"{\"to\":\"\xff\"}":        "not UTF-8",
		`[]`:                       "cannot unmarshal array",
		`to=Ghent`:                 "invalid character",
	}
	for payload, want := range tests {
		p := newPlace(t, true)
		p.write("payload", payload)
		called := false
		code := p.run(JSON(func(context.Context, *Task, order) (any, error) { called = true; return nil, nil }), nil)
		words := strings.Join(p.agent.words(), "\n")
		switch {
		case want == "":
			p.wantCode(code, ExitDone)
		case !strings.HasPrefix(words, `fail {"retryable":false,"effect":"None","reason":"PayloadInvalid","message":"the payload is not as wanted: `):
			t.Errorf("%q: said %s", payload, words)
		case !strings.Contains(strings.ReplaceAll(words, `\"`, `"`), want):
			t.Errorf("%q: said %s, want %s", payload, words, want)
		default:
			p.wantCode(code, ExitPermanent)
		}
		if called != (want == "") {
			t.Errorf("%q: called: %v", payload, called)
		}
	}
	if err := (&Task{}).Decode(&order{}); wordOf(err).Effect != "" {
		t.Error("Decode alone says that there was no effect, which it cannot know")
	}
}

func TestProbes(t *testing.T) {
	t.Parallel()
	missed := &Failure{Reason: "Down", Permanent: true, NoEffect: true}
	tests := map[string]struct {
		result any
		err    error
		stop   bool
		code   int
		words  []string
	}{
		"it happened":                     {"shipment 1", nil, false, ExitDone, []string{`result {"result":"shipment 1"}`}},
		"it happened, and says no more":   {nil, nil, false, ExitDone, nil},
		"it did not":                      {nil, ErrNoEffect, false, ExitNoEffect, nil},
		"it cannot tell":                  {nil, context.DeadlineExceeded, false, ExitCannotTell, []string{`fail {"message":"context deadline exceeded"}`}},
		"it cannot tell, and has a word":  {nil, missed, false, ExitCannotTell, []string{`fail {"reason":"Down"}`}},
		"it was told to stop":             {nil, context.Canceled, true, ExitStopped, nil},
		"it was told to stop, and failed": {nil, missed, true, ExitStopped, nil},
		"it was told to stop, and denies": {nil, ErrNoEffect, true, ExitStopped, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, true)
			p.env[envProbeAttempt], p.env[envProbeToken] = "1", "17592186045000"
			probe := func(ctx context.Context, task *Task) (any, error) {
				if *task.Probe != (Probe{1, 17592186045000}) {
					t.Errorf("probe %+v", task.Probe)
				}
				if tc.stop {
					p.agent.tell(`{"reason":"Terminated","graceSeconds":5}`)
					<-ctx.Done()
				}
				return tc.result, tc.err
			}
			code := p.run(func(context.Context, *Task) (any, error) { t.Error("a probe works"); return nil, nil }, probe)
			p.wantCode(code, tc.code)
			p.agent.wantWords(tc.words...)
		})
	}
}

// TestAWorkerThatIsNoProbeDoesNotAnswer: above all it does not work.
func TestAWorkerThatIsNoProbeDoesNotAnswer(t *testing.T) {
	t.Parallel()
	p := newPlace(t, true)
	p.env[envProbeAttempt], p.env[envProbeToken] = "1", "17592186045000"
	p.wantCode(p.run(func(context.Context, *Task) (any, error) { t.Error("it works"); return nil, nil }, nil), ExitCannotTell)
	if words := p.agent.words(); !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, "RunWithProbe") }) {
		t.Errorf("said %v", words)
	}
}
