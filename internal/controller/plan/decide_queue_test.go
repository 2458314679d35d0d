package plan

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// queueTable: tasks that leave to their queue what to run, and how.
var queueTable = map[string]decision{
	"accepted": {
		given: []func(*Snapshot){bare, from(mail)},
		want:  want{Rule: RuleAccept, Status: "Available attempt 0", Ready: "False/Pending"},
	},
	"granted": {
		given: []func(*Snapshot){available, bare, from(mail)},
		want:  want{Rule: RuleGrant, Lease: `grant task-1-xyz attempt 1 over ""`, Pods: "create", Live: true, Counts: "grant"},
	},
	"with no queue there is nothing to run, which may be news to a cache": {
		given: []func(*Snapshot){bare, noQueue},
		want:  want{Rule: RuleAccept, Status: "Available attempt 0", Waiting: "QueueMissing", Ready: "False/QueueMissing", Live: true},
	},
	"it is waited for": {
		given: []func(*Snapshot){available, bare, noQueue},
		want:  want{Rule: RuleSpecInvalid, Status: "Available attempt 0", Waiting: "QueueMissing", Ready: "False/QueueMissing", Live: true},
	},
	"a queue without a template helps as little": {
		given: []func(*Snapshot){available, bare, from(v1alpha1.TaskQueueSpec{Defaults: v1alpha1.TaskDefaults{StopGraceSeconds: 7}})},
		want:  invalid,
	},
	"nor does an empty one": {
		given: []func(*Snapshot){available, bare, from(v1alpha1.TaskQueueSpec{})},
		want:  invalid,
	},
	"a total time by the queue begins when the task is accepted": {
		given: []func(*Snapshot){bare, from(mailWithin(600))},
		want:  want{Rule: RuleAccept, Status: "Available attempt 0 deadline in 10m0s", Ready: "False/Pending", Requeue: 10 * time.Minute},
	},
	"a longer one does not move it": {
		given: []func(*Snapshot){available, bare, from(mailWithin(3600)), dueIn(time.Minute), noEpoch},
		want:  want{Rule: RuleGrant, Status: "Available attempt 0", Waiting: "EpochMissing", Ready: "False/EpochMissing", Requeue: grantRetry},
	},
	"a shorter one does": {
		given: []func(*Snapshot){available, bare, from(mailWithin(30)), dueIn(time.Minute), noEpoch},
		want:  want{Rule: RuleGrant, Status: "Available attempt 0 deadline in 30s", Waiting: "EpochMissing", Ready: "False/EpochMissing", Requeue: grantRetry},
	},
	"nor does it end because the queue is gone": {
		given: []func(*Snapshot){available, bare, noQueue, dueIn(time.Minute)},
		want: want{Rule: RuleSpecInvalid, Status: "Available attempt 0", Waiting: "QueueMissing", Ready: "False/QueueMissing", Live: true,
			Requeue: time.Minute},
	},
	"when it is over, what was given up is put on record": {
		given: []func(*Snapshot){available, bare, from(mailWithin(600)), dueIn(0)},
		want:  want{Rule: RuleTimeUp, Status: "Available attempt 0", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true},
	},
	"while that cannot be kept, it is not": {
		given: []func(*Snapshot){available, bare, from(mailWithin(600)), dueIn(0), keepRefused},
		want: want{Rule: RuleAwaitRevision, Status: "Available attempt 0", Waiting: "QueueRevision", Ready: "False/QueueRevision",
			Requeue: RefusedRetry},
	},
	"and there is no grant": {
		given: []func(*Snapshot){available, bare, from(mail), keepRefused},
		want:  want{Rule: RuleAwaitRevision, Status: "Available attempt 0", Waiting: "QueueRevision", Ready: "False/QueueRevision", Requeue: RefusedRetry},
	},
	"a cancel does not wait for it": {
		given: []func(*Snapshot){available, bare, from(mail), keepRefused, onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Cancel.Reason = "enough" })},
		want:  want{Rule: RuleCancelled, Status: "Cancelled attempt 0", Ready: "True/Cancelled", Live: true, Counts: "finished Cancelled"},
	},
	"the next attempt is not made of less than the first": {
		given: []func(*Snapshot){backedOff, pauseOver, bare, lost},
		want:  want{Rule: RuleAwaitRevision, Status: "Available attempt 1", Waiting: "QueueRevision", Ready: "False/QueueRevision", Requeue: RefusedRetry},
	},
	"a deadline that the queue gave stands all the same": {
		given: []func(*Snapshot){backedOff, pauseOver, bare, lost, dueIn(5 * time.Second)},
		want:  want{Rule: RuleAwaitRevision, Status: "Available attempt 1", Waiting: "QueueRevision", Ready: "False/QueueRevision", Requeue: 5 * time.Second},
	},
	"time goes on, by what is on record": {
		given: []func(*Snapshot){backedOff, pauseOver, bare, lost, dueIn(0)},
		want:  want{Rule: RuleTimeUp, Status: "Available attempt 1", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true},
	},
}

// invalid is a task that waits for task or queue to be repaired.
var invalid = want{Rule: RuleSpecInvalid, Status: "Available attempt 0", Waiting: "SpecInvalid", Ready: "False/SpecInvalid", Live: true}

// mail is a queue with a template.
var mail = v1alpha1.TaskQueueSpec{Concurrency: 5, Template: image("mail")}

func mailWithin(total int32) v1alpha1.TaskQueueSpec {
	queue := mail
	queue.Defaults.Timeouts.TotalSeconds = total
	return queue
}

// bare is a task that leaves all to its queue.
func bare(s *Snapshot) { s.Task.Spec = v1alpha1.LeasedTaskSpec{QueueName: "mail"} }

func from(queue v1alpha1.TaskQueueSpec) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Queue = &v1alpha1.TaskQueue{Spec: queue}
		s.Complete(Source{Given: GivenBy(&queue)})
		admitted(s)
	}
}

func noQueue(s *Snapshot) { s.Complete(Source{IsMissing: true}) }

// lost is a task whose revision somebody has deleted.
func lost(s *Snapshot) {
	s.Task.Status.QueueRevision = "mail-0"
	s.Complete(Source{IsLost: true})
}

func keepRefused(s *Snapshot) { s.RevisionRefusal = "exceeded quota" }

// TestWhatTheQueueGaveIsOnRecordWithTheFirstGrant: in the same write, kept before; and never again.
func TestWhatTheQueueGaveIsOnRecordWithTheFirstGrant(t *testing.T) {
	s := given(available, bare, from(mail))
	want := RevisionOf("mail", GivenBy(&mail))
	p := Decide(s)
	if p.Rule != RuleGrant || p.Keep == nil || p.Keep.Name != want.Name || string(p.Keep.Data) != string(want.Data) {
		t.Fatalf("rule %s keeps %+v, want %+v", p.Rule, p.Keep, want)
	}
	status := Granted(s, p.Grant, "lease-1", fencing.Token(1))
	if status.QueueRevision != want.Name {
		t.Errorf("on record is %q, want %q", status.QueueRevision, want.Name)
	}

	later := given(backedOff, pauseOver, bare)
	later.Task.Status.QueueRevision = status.QueueRevision
	from(mailWithin(60))(later) // as if the revision said so
	p = Decide(later)
	if p.Rule != RuleGrant || p.Keep != nil {
		t.Errorf("rule %s keeps %+v for the second attempt", p.Rule, p.Keep)
	}
	if again := Granted(later, p.Grant, "lease-1", fencing.Token(9)); again.QueueRevision != status.QueueRevision {
		t.Errorf("on record is %q after the second grant, was %q", again.QueueRevision, status.QueueRevision)
	}

	refused := given(available, bare, from(mail), keepRefused) // and its Lease bears a submission that nobody knew of
	if again := Granted(refused, p.Grant, "lease-1", fencing.Token(9)); again.QueueRevision != "" {
		t.Errorf("on record is %q, which could not be kept", again.QueueRevision)
	}

	none := given(available, bare, from(v1alpha1.TaskQueueSpec{Concurrency: 1}), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Template = image("own") }))
	p = Decide(none)
	if p.Rule != RuleGrant || p.Keep != nil || Granted(none, p.Grant, "l", fencing.Token(1)).QueueRevision != "" {
		t.Errorf("rule %s keeps %+v of a queue that gives nothing", p.Rule, p.Keep)
	}
}

// TestWhatIsGivenUpIsOnRecordAsItWas: the dead letter of a task without a grant is made of what the queue gave when it was decided.
func TestWhatIsGivenUpIsOnRecordAsItWas(t *testing.T) {
	s := given(available, bare, from(mailWithin(600)), dueIn(0))
	p := Decide(s)
	if p.Rule != RuleTimeUp || p.Keep == nil || p.Status.QueueRevision != p.Keep.Name {
		t.Fatalf("rule %s keeps %+v, on record is %q", p.Rule, p.Keep, p.Status.QueueRevision)
	}
	s.Task.Status = stored(t, p.Status)
	s.Live = true
	p = Decide(s)
	if p.Rule != RuleGiveUp || p.DeadLetter == nil || !strings.Contains(string(p.DeadLetter.Spec.Task.Spec.Raw), `"image":"mail"`) || p.Keep != nil {
		t.Errorf("rule %s writes %+v and keeps %+v", p.Rule, p.DeadLetter, p.Keep)
	}
}

// TestWhatOnlyTaskAndQueueTogetherShowIsSaidWithItsField: neither of the two is wrong by itself.
func TestWhatOnlyTaskAndQueueTogetherShowIsSaidWithItsField(t *testing.T) {
	two := v1alpha1.TaskQueueSpec{Template: image("mail"), WorkerContainer: "main"}
	two.Template.Spec.Containers = append(two.Template.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy"},
		corev1.Container{Name: "hooked", Image: "h", Command: []string{"h"}, Lifecycle: &corev1.Lifecycle{}})
	large := image("mail")
	large.Annotations = map[string]string{"a": strings.Repeat("x", maxSpec-maxPayload)}
	with := func(d v1alpha1.TaskDefaults) v1alpha1.TaskQueueSpec {
		return v1alpha1.TaskQueueSpec{Template: image("mail"), Defaults: d}
	}
	worker := func(name string) func(*v1alpha1.LeasedTaskSpec) {
		return func(spec *v1alpha1.LeasedTaskSpec) { spec.WorkerContainer = name }
	}
	tests := map[string]struct {
		task  func(*v1alpha1.LeasedTaskSpec)
		queue v1alpha1.TaskQueueSpec
		want  []string
	}{
		"no template":             {worker(""), v1alpha1.TaskQueueSpec{}, []string{"spec.template: ", "TaskQueue mail has none"}},
		"no such container":       {worker("nope"), two, []string{"spec.workerContainer: ", "no container", `"nope"`, "TaskQueue mail"}},
		"one without a command":   {worker("proxy"), two, []string{"spec.workerContainer: ", `"proxy"`, "command"}},
		"one with hooks":          {worker("hooked"), two, []string{"spec.workerContainer: ", `"hooked"`, "lifecycle"}},
		"an attempt above total":  {func(spec *v1alpha1.LeasedTaskSpec) { spec.Timeouts.AttemptSeconds = 61 }, mailWithin(60), []string{"spec.timeouts: ", "60", "61"}},
		"a pause above the limit": {func(spec *v1alpha1.LeasedTaskSpec) { spec.Retry.Backoff.InitialSeconds = 9 }, with(v1alpha1.TaskDefaults{Retry: v1alpha1.RetrySpec{Backoff: v1alpha1.BackoffSpec{MaxSeconds: 8}}}), []string{"spec.retry.backoff: ", "8s", "9s"}},
		"too large together":      {func(spec *v1alpha1.LeasedTaskSpec) { spec.Payload = new(strings.Repeat("x", maxPayload)) }, v1alpha1.TaskQueueSpec{Template: large}, []string{"spec: ", "too large", "458752"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := given(available, bare, onTask(func(task *v1alpha1.LeasedTask) { test.task(&task.Spec) }), from(test.queue))
			p := Decide(s)
			if p.Rule != RuleSpecInvalid || p.Status == nil || len(p.Events) != 1 {
				t.Fatalf("rule %s: %+v", p.Rule, p)
			}
			message := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionWaiting).Message
			for _, want := range test.want {
				if !strings.Contains(message, want) {
					t.Errorf("%q does not say %q", message, want)
				}
			}
		})
	}
}

// TestARevisionIsNamedAfterWhatItSays: the same of one queue is the same, and nothing else is.
func TestARevisionIsNamedAfterWhatItSays(t *testing.T) {
	long := strings.Repeat("q", 253)
	names := map[string]bool{}
	for _, r := range []*Revision{RevisionOf("mail", &mail), RevisionOf("mail", new(mailWithin(1))), RevisionOf("post", &mail), RevisionOf(long, &mail), RevisionOf("a.b", &mail)} {
		if names[r.Name] || len(r.Name) > maxName || strings.Contains(r.Name, ".") {
			t.Errorf("name %q", r.Name)
		}
		names[r.Name] = true
	}
	if a, b := RevisionOf("mail", &mail), RevisionOf("mail", mail.DeepCopy()); a.Name != b.Name {
		t.Errorf("%s and %s", a.Name, b.Name)
	}
}

// TestACacheJudgesTheSizeAsTheAPIServerDoes: it does not hold the payload, which has its share kept for it.
func TestACacheJudgesTheSizeAsTheAPIServerDoes(t *testing.T) {
	large := image("mail")
	large.Annotations = map[string]string{"a": strings.Repeat("x", maxSpec-maxPayload-1000)}
	for _, payload := range []*string{nil, new(strings.Repeat("\x01", maxPayload))} {
		s := given(available, bare, onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Payload = payload }), from(v1alpha1.TaskQueueSpec{Template: large}))
		if p := Decide(s); p.Rule != RuleGrant {
			t.Errorf("rule %s: %+v", p.Rule, p.Status)
		}
	}
}

// TestAReplayWithATemplateHasNoRevision: it takes nothing from its queue, so there is nothing to keep, and nothing to miss.
func TestAReplayWithATemplateHasNoRevision(t *testing.T) {
	own := onTask(func(task *v1alpha1.LeasedTask) { task.Spec.Template = image("own") })
	replays := onTask(func(task *v1alpha1.LeasedTask) { task.Spec.ReplayOf.DeadLetterName = "dl" })
	s := given(available, bare, own, replays, from(mail))
	p := Decide(s)
	if p.Rule != RuleGrant || p.Keep != nil || Granted(s, p.Grant, "lease-1", fencing.Token(1)).QueueRevision != "" {
		t.Errorf("rule %s keeps %+v", p.Rule, p.Keep)
	}
	whole := given(backedOff, pauseOver, bare, own, replays, lost, admitted, func(s *Snapshot) { s.Queue = &v1alpha1.TaskQueue{} }) // by an earlier release
	if p := Decide(whole); p.Rule != RuleGrant {
		t.Errorf("rule %s, though nothing that it needs is lost", p.Rule)
	}
	bareReplay := given(available, bare, replays, from(mail)) // its ancestor had nothing to run
	if p := Decide(bareReplay); p.Rule != RuleGrant || p.Keep == nil {
		t.Errorf("rule %s keeps %+v", p.Rule, p.Keep)
	}
}
