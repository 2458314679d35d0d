package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/api/env"
)

// TestTheCommandIsToldWhenItsTimeIsOver: the earlier of the attempt's end and the task's.
func TestTheCommandIsToldWhenItsTimeIsOver(t *testing.T) {
	const soon, late = 10 * time.Minute, 10 * time.Hour
	tests := map[string]struct {
		attempt time.Duration // 0: not bounded
		task    time.Duration // the same
		want    time.Duration // 0: none
	}{
		"neither is bounded":             {},
		"the attempt":                    {attempt: soon, want: soon},
		"the task":                       {task: soon, want: soon},
		"the attempt comes first":        {attempt: soon, task: late, want: soon},
		"the task comes first":           {attempt: late, task: soon, want: soon},
		"the task's time is over by now": {attempt: late, task: -soon, want: -soon},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, patient, nil)
			before := time.Now()
			f.agent.Config.AttemptLimit = test.attempt
			if test.task != 0 {
				f.agent.Config.TaskDeadline = before.Add(test.task)
			}
			f.run()
			value, isSet := strings.CutPrefix(f.tree.environ[0], env.Deadline+"=")
			if !isSet || len(f.tree.environ) != 1 {
				t.Fatalf("environment %v", f.tree.environ)
			}
			if test.want == 0 {
				if value != "" {
					t.Errorf("deadline %s, want none", value)
				}
				return
			}
			at, err := time.Parse(time.RFC3339, value)
			must(t, err)
			// Whole seconds, rounded down; the attempt's counts from the claim, which came a moment later.
			if off := at.Sub(before) - test.want; off < -time.Second || off > 10*time.Second {
				t.Errorf("deadline %s, want %s from %s", value, test.want, before)
			}
		})
	}
}

func TestADeadlineOfTheImagesOwnIsNotPassedOn(t *testing.T) {
	t.Setenv(env.Deadline, "2001-01-01T00:00:00Z")
	if slices.ContainsFunc(ChildEnv(), func(entry string) bool { return strings.HasPrefix(entry, env.Deadline) }) {
		t.Error("it stands before the agent's, and would win")
	}
}
