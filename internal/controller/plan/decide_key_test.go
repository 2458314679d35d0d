package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
)

// keyTable: tasks with keys that others may have too.
var keyTable = map[string]decision{
	"a free key is taken before the first grant": {
		given: []func(*Snapshot){available, keyed, live},
		want:  want{Rule: RuleTakeKey, Lease: `take Idempotency "order-7" over ""`, Live: true},
	},
	"so is one whose answer is too old": {
		given: []func(*Snapshot){available, keyed, live, locked(key.Idempotency, answered("other", "uid-9", ownHash, 24*time.Hour))},
		want:  want{Rule: RuleTakeKey, Lease: `take Idempotency "order-7" over "41"`, Live: true},
	},
	"and the one that is blocked by what the task replays": {
		given: []func(*Snapshot){available, serial, live, locked(key.Concurrency, blockedBy("dl-2", "dl-1")), replaying("dl-1"), locked(key.Idempotency, heldBy("task", "uid-1", ownHash))},
		want:  want{Rule: RuleTakeKey, Lease: `take Concurrency "db" over "41" blocked by dl-2 dl-1`, Live: true},
	},
	"idempotency comes before concurrency": {
		given: []func(*Snapshot){available, serial, keyed, live},
		want:  want{Rule: RuleTakeKey, Lease: `take Idempotency "order-7" over ""`, Live: true},
	},
	"then the other one": {
		given: []func(*Snapshot){available, keyed, serial, live, locked(key.Idempotency, heldBy("task", "uid-1", ownHash))},
		want:  want{Rule: RuleTakeKey, Lease: `take Concurrency "db" over ""`, Live: true},
	},
	"a key that was taken for a payload that the task no longer has is taken again": {
		given: []func(*Snapshot){available, keyed, live, locked(key.Idempotency, heldBy("task", "uid-1", "another hash"))},
		want:  want{Rule: RuleTakeKey, Lease: `take Idempotency "order-7" over "41"`, Live: true},
	},
	"and so is one that was taken for a shorter lease": {
		given: []func(*Snapshot){available, serial, live, locked(key.Concurrency, heldBy("task", "uid-1", "")),
			onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Lease.DurationSeconds = 31 })},
		want: want{Rule: RuleTakeKey, Lease: `take Concurrency "db" over "41"`, Live: true},
	},
	"a payload is looked at also while another key is waited for, once for each change of the spec": {
		given: []func(*Snapshot){available, keyed, serial, locked(key.Idempotency, heldBy("task", "uid-1", "another hash")), locked(key.Concurrency, heldBy("other", "uid-9", ""))},
		want:  want{Rule: RuleAwaitKey, Status: "Available attempt 0", Waiting: "KeyBusy", Ready: "False/KeyBusy", Requeue: keyPatience, Live: true},
	},
	"and then no more": {
		given: []func(*Snapshot){available, keyed, serial, onTask(func(t *v1alpha1.LeasedTask) { t.Status.ObservedGeneration = new(t.Generation) }),
			locked(key.Idempotency, heldBy("task", "uid-1", "another hash")), locked(key.Concurrency, heldBy("other", "uid-9", ""))},
		want: want{Rule: RuleAwaitKey, Status: "Available attempt 0", Waiting: "KeyBusy", Ready: "False/KeyBusy", Requeue: keyPatience},
	},
	"with all keys the task is granted": {
		given: []func(*Snapshot){available, keyed, serial, live, locked(key.Idempotency, heldBy("task", "uid-1", ownHash)), locked(key.Concurrency, heldBy("task", "uid-1", ""))},
		want:  want{Rule: RuleGrant, Lease: `grant task-1-xyz attempt 1 over ""`, Pods: "create", Live: true, Counts: "grant"},
	},
	"a key that was lost is taken again before the next attempt": {
		given: []func(*Snapshot){backedOff, pauseOver, serial, live},
		want:  want{Rule: RuleTakeKey, Lease: `take Concurrency "db" over ""`, Live: true},
	},
	"a suspended task takes none": {
		given: []func(*Snapshot){available, keyed, live, suspend},
		want:  want{Rule: RuleSuspended, Status: "Available attempt 0", Waiting: "Suspended", Ready: "False/Suspended"},
	},
	"nor does one whose time has not come": {
		given: []func(*Snapshot){available, keyed, live, startsAt(time.Minute)},
		want:  want{Rule: RuleStartAfter, Status: "Available attempt 0", Waiting: "StartAfter", Ready: "False/StartAfter", Requeue: time.Minute},
	},
	"another task has it": {
		given: []func(*Snapshot){available, serial, locked(key.Concurrency, heldBy("other", "uid-9", ""))},
		want:  want{Rule: RuleAwaitKey, Status: "Available attempt 0", Waiting: "KeyBusy", Ready: "False/KeyBusy", Requeue: keyPatience},
	},
	"another task has it, and the payload is to be compared": {
		given: []func(*Snapshot){available, keyed, locked(key.Idempotency, heldBy("other", "uid-9", "another hash"))},
		want:  want{Rule: RuleAwaitKey, Status: "Available attempt 0", Waiting: "KeyBusy", Ready: "False/KeyBusy", Requeue: keyPatience, Live: true},
	},
	"a dead letter has it": {
		given: []func(*Snapshot){available, serial, locked(key.Concurrency, blockedBy("dl-1"))},
		want:  want{Rule: RuleAwaitKey, Status: "Available attempt 0", Waiting: "KeyBlocked", Ready: "False/KeyBlocked", Requeue: keyPatience},
	},
	"a waiting task can be cancelled": {
		given: []func(*Snapshot){available, serial, locked(key.Concurrency, heldBy("other", "uid-9", "")), cancel},
		want:  want{Rule: RuleCancelled, Status: "Cancelled attempt 0", Ready: "True/Cancelled", Live: true, Counts: "finished Cancelled"},
	},
	"the work was done: attached": {
		given: []func(*Snapshot){available, keyed, live, locked(key.Idempotency, answered("other", "uid-9", ownHash, time.Hour))},
		want: want{Rule: RuleAttach, Status: "Completed attempt 0 result 42", Entry: "Succeeded Attached Key", Ready: "True/Attached", Live: true,
			Counts: "finished Completed"},
	},
	"its own answer, after which its term was lost": {
		given: []func(*Snapshot){backedOff, pauseOver, keyed, live, locked(key.Idempotency, answered("task", "uid-1", ownHash, 48*time.Hour))},
		want: want{Rule: RuleAttach, Status: "Completed attempt 1 result 42", Entry: "Succeeded Attached Key", Ready: "True/Attached", Live: true,
			Counts: "finished Completed"},
	},
	"attached after a probe, which found no effect": {
		given: []func(*Snapshot){backedOff, pauseOver, keyed, live, afterProbe, locked(key.Idempotency, answered("other", "uid-9", ownHash, time.Hour))},
		want: want{Rule: RuleAttach, Status: "Completed attempt 1 result 42", Entry: "Succeeded Attached Key", Ready: "True/Attached", Live: true,
			Counts: "finished Completed"},
	},
	"the work was done for another payload": {
		given: []func(*Snapshot){available, keyed, live, locked(key.Idempotency, answered("other", "uid-9", "another hash", time.Hour))},
		want: want{Rule: RuleKeyConflict, Status: "Available attempt 0", Entry: "Failed IdempotencyConflict Key", Waiting: "DeadLetterPending",
			Ready: "False/DeadLetterPending", Live: true},
	},
	"the work is under way for another payload": {
		given: []func(*Snapshot){available, keyed, live, locked(key.Idempotency, heldBy("other", "uid-9", "another hash"))},
		want: want{Rule: RuleKeyConflict, Status: "Available attempt 0", Entry: "Failed IdempotencyConflict Key", Waiting: "DeadLetterPending",
			Ready: "False/DeadLetterPending", Live: true},
	},
	"what a conflict leaves is a dead letter": {
		given: []func(*Snapshot){inConflict},
		want: want{Rule: RuleGiveUp, Dead: "IdempotencyConflict", Status: "DeadLettered attempt 0", Ready: "False/IdempotencyConflict", Live: true,
			Counts: "finished DeadLettered, dead_letter IdempotencyConflict"},
	},
	"which comes, whatever is asked of the task": {
		given: []func(*Snapshot){inConflict, cancel, suspend},
		want: want{Rule: RuleGiveUp, Dead: "IdempotencyConflict", Status: "DeadLettered attempt 0", Ready: "False/IdempotencyConflict", Live: true,
			Counts: "finished DeadLettered, dead_letter IdempotencyConflict"},
	},
	"or is waited for": {
		given: []func(*Snapshot){inConflict, notBuried("exceeded quota")},
		want: want{Rule: RuleGiveUp, Status: "Available attempt 0", Waiting: "DeadLetterPending", Ready: "False/DeadLetterPending", Live: true,
			Requeue: RefusedRetry},
	},
	"a worker's reason of that name is a failure like any": {
		given: []func(*Snapshot){isOverFor(ReasonIdempotencyConflict), onTask(func(t *v1alpha1.LeasedTask) { t.Spec.Retry.MaxAttempts = 1 })},
		want: want{Rule: RuleGiveUp, Dead: "BudgetExceeded", Status: "DeadLettered attempt 1", Ready: "False/BudgetExceeded", Live: true,
			Counts: "finished DeadLettered, dead_letter IdempotencyConflict"},
	},
	"a success is on the key before it is on the status": {
		given: []func(*Snapshot){onRecord, keyed, live, locked(key.Idempotency, heldBy("task", "uid-1", ownHash)), submits(fencing.Succeeded, result("42"))},
		want:  succeeds(`answer Idempotency "order-7" over "41": 42 for 86400 s`, true),
	},
	"also if somebody has deleted the key's Lease": {
		given: []func(*Snapshot){onRecord, keyed, live, submits(fencing.Succeeded, result("42"))},
		want:  succeeds(`answer Idempotency "order-7" over "": 42 for 86400 s`, true),
	},
	"on the key, and a crash before the status": {
		given: []func(*Snapshot){onRecord, keyed, live, locked(key.Idempotency, answered("task", "uid-1", ownHash, 0)), submits(fencing.Succeeded, result("42"))},
		want:  succeeds("", false),
	},
	"on the key, and the term's Lease is lost before the status: it counts, also where a lost attempt is the last": {
		given: []func(*Snapshot){onRecord, noPod, leaseGone, onlyOnce, keyed, live, locked(key.Idempotency, answered("task", "uid-1", ownHash, 0))},
		want: want{Rule: RuleLeaseLost, Status: "Completed attempt 1 result 42", Entry: "Succeeded Completed Key", Ready: "True/Completed", Live: true,
			Counts: "attempt Succeeded, finished Completed"},
	},
	"a probe's, too": {
		given: []func(*Snapshot){probingOnRecord, noPod, leaseGone, keyed, live, locked(key.Idempotency, answered("task", "uid-1", ownHash, 0))},
		want: want{Rule: RuleLeaseLost, Status: "Completed attempt 2 result 42", Entry: "Succeeded EffectFound Key", Ready: "True/Completed", Live: true,
			Counts: "probe EffectFound, finished Completed"},
	},
	"a key that another has taken meanwhile is left": {
		given: []func(*Snapshot){onRecord, keyed, live, locked(key.Idempotency, heldBy("other", "uid-9", ownHash)), submits(fencing.Succeeded, result("42"))},
		want:  succeeds("", true),
	},
	"a concurrency key keeps no answer": {
		given: []func(*Snapshot){onRecord, serial, live, locked(key.Concurrency, heldBy("task", "uid-1", "")), submits(fencing.Succeeded, result("42"))},
		want:  succeeds("", false),
	},
	"an answer that the API server does not take is waited with, and nothing is lost": {
		given: []func(*Snapshot){onRecord, keyed, live, locked(key.Idempotency, heldBy("task", "uid-1", ownHash)), submits(fencing.Succeeded, result("42")), keyRefused},
		want:  want{Rule: RuleSubmitted, Status: "Running attempt 1", Waiting: "KeyRefused", Ready: "False/Running", Requeue: RefusedRetry},
	},
	"a key that the API server does not take is waited for": {
		given: []func(*Snapshot){available, keyed, live, keyRefused},
		want:  want{Rule: RuleTakeKey, Status: "Available attempt 0", Waiting: "KeyRefused", Ready: "False/KeyRefused", Requeue: RefusedRetry},
	},
}

// ownHash is that of the fixtures' task, which has no payload.
var ownHash = PayloadHash(&newTask().Spec)

func keyed(s *Snapshot) {
	s.Task.Spec.IdempotencyKey = "order-7"
	s.Keys = KeysOf(s.Task)
}

func serial(s *Snapshot) {
	s.Task.Spec.ConcurrencyKey = "db"
	s.Keys = KeysOf(s.Task)
}

func replaying(letter string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Task.Spec.ReplayOf = v1alpha1.ReplayOf{DeadLetterName: letter, DeadLetterUID: "uid-dl", Request: 1, IdempotencyKey: "uid-0"}
		locks := s.Keys
		s.Keys = append(KeysOf(s.Task)[:1:1], locks...)
	}
}

func live(s *Snapshot) { s.Live = true }

// afterProbe is a task whose last term was a probe's.
func afterProbe(s *Snapshot) { s.Task.Status.Holder.ProbeFor = 1 }

func keyRefused(s *Snapshot) { s.KeyRefusal = "denied" }

// locked gives a key of the task a Lease.
func locked(kind key.Kind, edit func(*key.Lock)) func(*Snapshot) {
	return func(s *Snapshot) {
		for i := range s.Keys {
			if k := &s.Keys[i]; k.Kind == kind {
				k.Lock = &key.Lock{UID: "key-1", ResourceVersion: "41", Kind: kind, Value: k.Value}
				edit(k.Lock)
			}
		}
	}
}

func heldBy(name, uid, hash string) func(*key.Lock) {
	return func(l *key.Lock) {
		l.Holder, l.HolderUID, l.HolderName, l.Hash, l.Duration = uid, uid, name, hash, 30*time.Second
	}
}

func blockedBy(letters ...string) func(*key.Lock) {
	return func(l *key.Lock) { l.HolderUID, l.HolderName, l.BlockedBy = "uid-9", "other", letters }
}

func answered(name, uid, hash string, ago time.Duration) func(*key.Lock) {
	return func(l *key.Lock) {
		l.Holder = uid
		l.Answer = &key.Answer{Task: name, TaskUID: uid, Hash: hash, Result: new("42"), Time: metav1.NewTime(now.Add(-ago)), RetentionSeconds: 86400}
	}
}

// inConflict is a task whose conflict is on record.
func inConflict(s *Snapshot) {
	for _, edit := range []func(*Snapshot){available, keyed, live, locked(key.Idempotency, heldBy("other", "uid-9", "another hash"))} {
		edit(s)
	}
	p, _ := keyConflict(s)
	s.Task.Status = *p.Status
}

func succeeds(lease string, isLive bool) want {
	return want{Rule: RuleSubmitted, Lease: lease, Status: "Completed attempt 1 result 42", Entry: "Succeeded Why Submission exit 3", Ready: "True/Completed",
		Live: isLive, Counts: "attempt Succeeded, finished Completed"}
}

func briefKey(what string, l *key.Lock) string {
	text := fmt.Sprintf("%s %s %q over %q", what, l.Kind, l.Value, l.ResourceVersion)
	if len(l.BlockedBy) > 0 {
		text += " blocked by " + strings.Join(l.BlockedBy, " ")
	}
	if l.Newest != nil {
		text += " newest " + l.Newest.Task
	}
	if l.Answer != nil {
		text += fmt.Sprintf(": %s for %d s", *l.Answer.Result, l.Answer.RetentionSeconds)
	}
	return text
}

// TestWhatKeysSay reads the sentences that people see.
func TestWhatKeysSay(t *testing.T) {
	tests := map[string]struct {
		given     []func(*Snapshot)
		condition string
		want      []string
	}{
		"busy":     {[]func(*Snapshot){available, serial, locked(key.Concurrency, heldBy("other", "uid-9", ""))}, v1alpha1.ConditionWaiting, []string{"LeasedTask other", `concurrencyKey "db"`}},
		"blocked":  {[]func(*Snapshot){available, serial, locked(key.Concurrency, blockedBy("dl-2", "dl-1"))}, v1alpha1.ConditionWaiting, []string{"DeadLetter dl-2", "replay it"}},
		"attached": {[]func(*Snapshot){available, keyed, live, locked(key.Idempotency, answered("other", "uid-9", ownHash, time.Hour))}, v1alpha1.ConditionReady, []string{"LeasedTask other", "did not run", "uid-9"}},
		"conflict": {[]func(*Snapshot){inConflict}, v1alpha1.ConditionReady, []string{"LeasedTask task", "LeasedTask other", "under way", "uid-9"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := Decide(given(test.given...))
			c := meta.FindStatusCondition(p.Status.Conditions, test.condition)
			for _, want := range test.want {
				if !strings.Contains(c.Message, want) {
					t.Errorf("%q does not say %q", c.Message, want)
				}
			}
		})
	}
}

// TestWhichPayloadsAreTheSame: byte for byte, and a reference by its name, not by what it points to.
func TestWhichPayloadsAreTheSame(t *testing.T) {
	distinct := map[string]string{
		"none":                    `{}`,
		"one":                     `{"payload":"{\"n\":1}"}`,
		"the same, spaced":        `{"payload":"{\"n\": 1}"}`,
		"a reference":             `{"payloadFrom":{"secretKeyRef":{"name":"a","key":"k"}}}`,
		"another reference":       `{"payloadFrom":{"secretKeyRef":{"name":"b","key":"k"}}}`,
		"a text like a reference": `{"payload":"{\"secretKeyRef\":{\"name\":\"a\",\"key\":\"k\"}}"}`,
	}
	seen := map[string]string{}
	for what, spec := range distinct {
		hash := hashOfPayload([]byte(spec))
		if other, taken := seen[hash]; taken {
			t.Errorf("%s and %s are taken for the same", what, other)
		}
		seen[hash] = what
	}
	if hashOfPayload([]byte(`{"payload":""}`)) != hashOfPayload([]byte(`{}`)) {
		t.Error("no payload and an empty one are the same file, and taken for two")
	}
	a, b := newTask(), newTask()
	a.Spec.Payload, b.Spec.Payload, b.Spec.Template.Labels = new("x"), new("x"), map[string]string{"other": "template"}
	if PayloadHash(&a.Spec) != PayloadHash(&b.Spec) {
		t.Error("the template is in the hash")
	}
}

func TestWhoTakesKeysWhenTheyAreFree(t *testing.T) {
	tests := map[string]struct {
		given []func(*Snapshot)
		want  bool
	}{
		"a waiting task":              {[]func(*Snapshot){available}, true},
		"a new task":                  {nil, false},
		"one that runs":               {[]func(*Snapshot){onRecord}, false},
		"a suspended one":             {[]func(*Snapshot){available, suspend}, false},
		"a cancelled one":             {[]func(*Snapshot){available, cancel}, false},
		"one whose time has not come": {[]func(*Snapshot){available, startsAt(1)}, false},
		"one whose time has come":     {[]func(*Snapshot){available, startsAt(0)}, true},
		"one that is being deleted":   {[]func(*Snapshot){available, onTask(func(t *v1alpha1.LeasedTask) { t.DeletionTimestamp = at(0) })}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := IsReadyForKeys(given(test.given...).Task, now); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}

// TestWhoAttachesGetsAllOfTheResult: whatever a status can hold of a result, inline or by reference.
func TestWhoAttachesGetsAllOfTheResult(t *testing.T) {
	for _, raw := range []string{`{"result":"42"}`, `{"resultRef":{"uri":"s3://bucket/key","digest":"sha256:00","sizeBytes":5}}`} {
		status := v1alpha1.LeasedTaskStatus{CompletionTime: at(0)}
		if err := json.Unmarshal([]byte(raw), &status); err != nil {
			t.Fatal(err)
		}
		lease := given(onRecord, keyed, live).answer(&status).Lease("default")
		second := given(available, keyed, live, onTask(func(task *v1alpha1.LeasedTask) { task.UID = "uid-2" }))
		second.Keys[0].Lock = key.Read(lease)
		got := Decide(second)
		got.Status.CompletionTime, got.Status.Phase, got.Status.History, got.Status.Conditions, got.Status.ObservedGeneration = at(0), "", nil, nil, nil
		if diff := cmp.Diff(&status, got.Status); diff != "" {
			t.Errorf("%s (-answered +attached):\n%s", raw, diff)
		}
	}
}
