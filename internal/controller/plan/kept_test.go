package plan

import (
	"encoding/json"
	"strings"
	"testing"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// TestADeadLetterSaysWhatItDoesNotKeep: where what the queue gave cannot be kept with the task, its own spec is, and the message says so.
func TestADeadLetterSaysWhatItDoesNotKeep(t *testing.T) {
	large := mailWithin(600)
	large.Template = image("mail")
	large.Template.Annotations = map[string]string{"a": strings.Repeat("x", maxSpec-maxPayload)}
	own := onTask(func(task *v1alpha1.LeasedTask) { task.Spec.Template = image("own") })
	tests := map[string]struct {
		given []func(*Snapshot)
		image string // of the template that is kept; empty: none is
		says  []string
		not   string
	}{
		"all is kept":              {[]func(*Snapshot){bare, from(mailWithin(600))}, "mail", nil, "spec alone"},
		"it is lost":               {[]func(*Snapshot){bare, lost}, "", []string{"ControllerRevision mail-0", "TaskQueue mail", "is gone", "spec alone", "from the queue as it is then"}, "cancel"},
		"it is lost, and not much": {[]func(*Snapshot){bare, own, lost}, "own", []string{"is gone", "spec alone, with onLostAttempt DeadLetter", "from the defaults"}, "from the queue"},
		"it is too large":          {[]func(*Snapshot){bare, from(large)}, "", []string{"TaskQueue mail", "too large", "spec alone", "from the queue as it is then"}, "is gone"},
		"a replay needs none":      {[]func(*Snapshot){bare, own, replaying("dl"), lost}, "own", nil, "spec alone"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := given(append([]func(*Snapshot){available}, append(test.given, dueIn(0), namedDead)...)...)
			p := Decide(s)
			if p.Rule != RuleGiveUp || p.DeadLetter == nil {
				t.Fatalf("rule %s", p.Rule)
			}
			kept := v1alpha1.LeasedTaskSpec{}
			raw := p.DeadLetter.Spec.Task.Spec.Raw
			if err := json.Unmarshal(raw, &kept); err != nil || len(raw) > maxSpec {
				t.Fatalf("%v, %d bytes", err, len(raw))
			}
			got := ""
			if kept.Template != nil {
				got = kept.Template.Spec.Containers[0].Image
			}
			if got != test.image || kept.QueueName != "mail" || kept.StopGraceSeconds != 0 || (kept.OnLostAttempt != "") != strings.Contains(p.DeadLetter.Spec.Message, "with onLostAttempt DeadLetter") {
				t.Errorf("it keeps image %q, want %q, of queue %q, and of patience %d s, %q", got, test.image, kept.QueueName, kept.StopGraceSeconds, kept.OnLostAttempt)
			}
			for _, want := range test.says {
				if !strings.Contains(p.DeadLetter.Spec.Message, want) {
					t.Errorf("%q does not say %q", p.DeadLetter.Spec.Message, want)
				}
			}
			if strings.Contains(p.DeadLetter.Spec.Message, test.not) {
				t.Errorf("%q says %q", p.DeadLetter.Spec.Message, test.not)
			}
		})
	}
}

// TestWhatIsTooLargeToBeKeptEndsAllTheSame: the time of a task that waits for its spec to be repaired goes on.
func TestWhatIsTooLargeToBeKeptEndsAllTheSame(t *testing.T) {
	large := mailWithin(600)
	large.Template = image("mail")
	large.Template.Annotations = map[string]string{"a": strings.Repeat("x", maxSpec-maxPayload)}
	waiting := given(available, bare, from(large))
	if p := Decide(waiting); p.Rule != RuleSpecInvalid {
		t.Fatalf("rule %s", p.Rule)
	}
	dueIn(0)(waiting)
	if over := settled(t, waiting); over.Task.Status.Phase != v1alpha1.PhaseDeadLettered {
		t.Errorf("phase %s", over.Task.Status.Phase)
	}
}
