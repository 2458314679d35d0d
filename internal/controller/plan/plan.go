package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/bug"
	"github.com/leasehold-io/leasehold/internal/fencing/key"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
	"github.com/leasehold-io/leasehold/internal/queue"
)

// Plan is what to do about a task, in the order of its fields. The zero plan does nothing.
type Plan struct {
	// Rule names the rule that decided.
	Rule Rule

	// Keep is what the task's queue gives it, to be kept before anything rests on it.
	Keep *Revision
	// Grant begins a term. Its status follows from the token that the write returns: see Granted.
	Grant *mailbox.Grant
	// Stop asks the holder of the term to end.
	Stop *fencing.Stop
	// Revoke ends the term exactly as the snapshot shows it.
	Revoke *Revoke
	// TakeKey is the Lease of a key as the task takes it, or asks for it. Its answer goes into the snapshot, and is decided on again.
	TakeKey *key.Lock
	// Answer is the Lease of the task's idempotency key as it bears the task's success, before the status does.
	Answer *key.Lock
	// DeadLetter is made before the status says DeadLettered.
	DeadLetter *v1alpha1.DeadLetter
	// Status is written if it differs from the task's.
	Status *v1alpha1.LeasedTaskStatus

	// CreatePod makes the attempt's Pod.
	CreatePod bool
	// DeletePods are deleted, each with its UID as precondition.
	DeletePods []*corev1.Pod
	// LimitPods get an activeDeadlineSeconds: the kubelet ends them, object and logs stay.
	LimitPods []PodLimit
	// DeleteTask deletes the task: its time to live has passed.
	DeleteTask bool

	// Result is what is put on record of an attempt, for the breaker of the task's queue.
	Result *queue.Result
	// Events and Counts follow once all of the above is done.
	Events []Event
	Counts []Count

	// MustLook: the decision rests on a key's Lease, which a cache may show too late, or on the payload, which it does not hold.
	MustLook bool
	// AskTurn: nothing keeps the task from its next term but its queue. The answer goes into the snapshot, and is decided on.
	AskTurn bool
	// KeepPlace: the task keeps its place in its queue; without it, it neither waits there nor has its turn any more.
	KeepPlace bool
	// Requeue is when to look again if nothing happens before; 0: when something happens.
	Requeue time.Duration
	// Watch is when to judge the held term again unless it is renewed before; 0: no held term.
	Watch time.Duration
}

// Revoke says how a term is ended.
type Revoke struct {
	// ThisVersion: the write also tests that nothing was written since, no renewal above all, and says which version it ended. Then
	// the wait for the release counts from when that one was seen, and not from the revoke.
	ThisVersion bool
}

// PodLimit is a deadline for a Pod whose attempt is over, or is to end.
type PodLimit struct {
	Pod     *corev1.Pod
	Seconds int64
}

// NeedsLive reports whether the plan must be decided from a live read. What it does cannot be undone, or rests on something
// being absent, which a cache cannot tell from being late. A revoked term names no holder: a late Lease may show the revoke of
// an earlier, unrecorded grant of the same attempt.
func (p *Plan) NeedsLive() bool {
	if bug.Is(bug.NoLiveRead) {
		return false
	}
	switch p.Rule {
	case RuleLeaseLost, RuleRevokedUnclaimed, RuleRevoked, RuleReassign, RuleProbe, RuleOver, RuleGiveUp, RuleCancelled, RuleTimeUp, RuleNoProbe,
		RuleKeyConflict, RuleAttach, RuleKeyRejected, RuleSuperseded, RuleReplaced:
		return true
	default:
		return p.MustLook || p.TakeKey != nil || p.Answer != nil || p.Grant != nil || p.Stop != nil || p.Revoke != nil || p.DeadLetter != nil || p.CreatePod || len(p.DeletePods) > 0
	}
}

// Event is a Kubernetes event about the task.
type Event struct {
	Warning bool
	Reason  string
	Action  string
	Note    string
}

// Counter names a metric that a plan moves.
type Counter string

// The counters that plans move; the controller maps them to metrics.
const (
	CountGrant          Counter = "grant"
	CountClaim          Counter = "claim"
	CountExpiry         Counter = "expiry"
	CountLateSubmission Counter = "late_submission"
	CountAttempt        Counter = "attempt" // Label: outcome
	CountProbe          Counter = "probe"   // Label: EffectFound, NoEffect, or the outcome of one without an answer
	CountFinished       Counter = "finished"
	CountDeadLetter     Counter = "dead_letter" // Label: the last attempt's reason, if it is a known one
)

// Count moves a counter by one. Label is from a closed list.
type Count struct {
	Counter Counter
	Label   string
}

// Decide says what to do. The first rule that applies decides; then what is left of earlier attempts is swept.
func Decide(s *Snapshot) Plan {
	for _, rule := range rules {
		if p, applies := rule.decide(s); applies {
			p.Rule = rule.name
			s.watchDeadline(&p)
			p.Result = s.result(&p)
			s.keepRevision(&p)
			sweep(s, &p)
			return p
		}
	}
	panic("no rule for phase " + string(s.Task.Status.Phase)) // unreachable: the last rule of each phase always applies
}
