package simulator

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// slowestWait is the least true time that a controller's D takes.
const slowestWait = duration * 1000 / 1020

// ledger is what the checks remember of a schedule; nobody in it looks here.
type ledger struct {
	renewedAt time.Duration // when the term was last claimed or renewed, as it landed
	claimedAt time.Duration // when it was claimed
	stoppedAt time.Duration // when it was told to stop; 0: it was not
	accepted  map[fencing.Token]fencing.Submission
	starters  map[fencing.Token]*process // who started a child
	highest   fencing.Token              // of all ever put on record
	over      map[int32]bool             // attempts whose term was revoked, or lost its Lease
	grantedAt map[string]time.Duration   // when each term was granted, by its holder
	downSince time.Duration              // beginning of the last outage
	restored  time.Duration              // when etcd was restored last
	// blindSince and answeredAt are beginning and end of the last outage that no controller can have overlooked.
	blindSince, answeredAt time.Duration
	// won is the token of a success that landed and must count; 0: there is none, or somebody undid it.
	won fencing.Token
}

func newLedger() *ledger {
	return &ledger{accepted: map[fencing.Token]fencing.Submission{}, starters: map[fencing.Token]*process{}, over: map[int32]bool{}, grantedAt: map[string]time.Duration{}}
}

// ended notes that a term is over, and not by a submission.
func (l *ledger) ended(t *fencing.Term) {
	if t != nil {
		l.over[t.Attempt] = true
	}
}

// checkTerm holds for every patch that takes effect.
func (w *world) checkTerm(was, is *fencing.Term) {
	if !is.RenewTime.Equal(was.RenewTime) {
		w.ledger.renewedAt = w.now
	}
	if was.Claim == nil && is.Claim != nil {
		w.ledger.claimedAt, w.ledger.stoppedAt = w.now, 0
		w.note("claim of attempt %d lands: %s", is.Attempt, is.Claim)
	}
	if was.Stop == nil && is.Stop != nil {
		w.note("attempt %d is to stop: %s", is.Attempt, is.Stop.Reason)
		w.ledger.stoppedAt = w.now
	}
	if was.Holder != "" && is.Holder == "" {
		w.checkRevoke(was)
		w.ledger.ended(was)
	}
	if was.Submission == nil && is.Submission != nil {
		w.checkSubmission(was, is)
	}
}

// checkSubmission holds for one that lands: it ends a term that is open, by the one who holds it, once.
func (w *world) checkSubmission(was, is *fencing.Term) {
	token := is.Submission.Token
	w.note("submission %s of attempt %d lands", is.Submission.Outcome, is.Attempt)
	if !was.IsOpen() {
		w.fail("a submission of attempt %d is accepted, its term is %s", was.Attempt, was.State())
	}
	for _, p := range w.processes {
		if p.token == token && p.claim.String() == was.Claim.String() && p.tree.isAlive() {
			w.fail("%s submits, and its tree lives", p.holder)
		}
	}
	if _, isTwice := w.ledger.accepted[token]; isTwice {
		w.fail("token %d has two submissions", token)
	}
	w.ledger.accepted[token] = *is.Submission
	if is.Submission.Outcome == fencing.Succeeded {
		w.ledger.won = token
	}
}

// checkRevoke holds when a term is revoked: its holder is dead, or was not heard for one duration in which it could be heard, or
// took longer than it may, be it to stop.
func (w *world) checkRevoke(t *fencing.Term) {
	silence := w.now - max(w.ledger.renewedAt, w.ledger.answeredAt)
	hasPassedBefore := w.ledger.blindSince-w.ledger.renewedAt >= slowestWait // and whoever judged then, froze
	spec := &w.api.task.live().Spec
	isOverdue := spec.AttemptLimit() > 0 && w.now-max(w.ledger.claimedAt, w.ledger.answeredAt) >= (spec.AttemptLimit()+stopGrace+duration)*1000/1020
	patience := fencing.TimingFor(duration).StopPatience(stopGrace)
	isUnheeded := t.Stop != nil && w.now-max(w.ledger.stoppedAt, w.ledger.answeredAt) >= patience*1000/1020
	if t.Claim == nil || silence >= slowestWait || hasPassedBefore || isOverdue || isUnheeded {
		return
	}
	for _, p := range w.processes {
		hasWord := p.stage == submitting || p.stage == keeping
		if p.claim.String() == t.Claim.String() && (p.tree.isAlive() || hasWord) && !p.isGivenUp() {
			w.fail("the term of %s is revoked, %s after it could be heard last", p.holder, silence)
		}
	}
}

// checkGrant holds when a term begins over another: that one has ended, and what was submitted is on record.
func (w *world) checkGrant(over *fencing.Term, to string) {
	w.ledger.grantedAt[to] = w.now
	if over == nil {
		return
	}
	if over.IsOpen() {
		w.fail("a grant goes over attempt %d, whose term is %s", over.Attempt, over.State())
	}
	if over.Submission == nil {
		return
	}
	for _, entry := range w.api.task.live().Status.History {
		if entry.FencingToken == int64(over.Submission.Token) {
			return
		}
	}
	w.fail("a grant erases an unrecorded submission of attempt %d", over.Attempt)
}

// checkStatus is what every status write must keep.
func (w *world) checkStatus(was, is *v1alpha1.LeasedTaskStatus) {
	isGranted := isUnderWay(is) && (!isUnderWay(was) || is.Attempt != was.Attempt)
	switch {
	case !plan.IsLegal(was.Phase, is.Phase):
		w.fail("illegal change of phase from %s to %s", was.Phase, is.Phase)
	case was.Phase.IsFinished() && was.Phase != is.Phase:
		w.fail("phase %s was left", was.Phase)
	case isGranted && (is.FencingToken <= int64(w.tokenFloor(is)) || is.FencingToken <= was.FencingToken || is.Attempt <= was.Attempt):
		w.fail("granted attempt %d, token %d after attempt %d, token %d", is.Attempt, is.FencingToken, was.Attempt, w.ledger.highest)
	case !isGranted && (is.FencingToken != was.FencingToken || is.Attempt != was.Attempt):
		w.fail("attempt and token changed from %d, %d to %d, %d without a grant", was.Attempt, was.FencingToken, is.Attempt, is.FencingToken)
	case is.Phase == v1alpha1.PhaseCompleted && (is.Result == nil || w.ledger.accepted[fencing.Token(is.FencingToken)].Outcome != fencing.Succeeded):
		w.fail("completed without a success that was accepted under token %d", is.FencingToken)
	case is.Phase == v1alpha1.PhaseDeadLettered && (w.api.dead == nil || is.DeadLetterName != w.api.dead.Name):
		w.fail("dead-lettered without its dead letter")
	case is.Phase != v1alpha1.PhaseDeadLettered && is.DeadLetterName == "" && w.api.dead != nil:
		w.fail("a task whose dead letter is written goes on as %s", is.Phase)
	case is.Phase == v1alpha1.PhaseCancelled && !w.api.task.live().Spec.IsCancelled():
		w.fail("cancelled, and nobody asked for it")
	case was.Result != nil && (is.Result == nil || *is.Result != *was.Result):
		w.fail("the result changed")
	}
	switch {
	case isGranted:
		w.ledger.highest = max(w.ledger.highest, fencing.Token(is.FencingToken))
		w.checkAlone(is.Attempt)
	case is.Phase != was.Phase && (is.Phase == v1alpha1.PhaseAvailable || is.Phase == v1alpha1.PhaseProbing || is.Phase.IsFinished()):
		w.checkAlone(is.Attempt + 1)
	}
	if t := w.api.term.live(); isUnderWay(was) && !isUnderWay(is) && t != nil && t.IsOpen() && t.Holder == was.Holder.PodName {
		w.fail("attempt %d is recorded as over, and its term is %s", was.Attempt, t.State())
	}
	w.checkTotal(was, is)
	w.checkHistory(was, is)
}

// checkTotal holds for the clock over all attempts: it runs or stands still, and when it is over, no attempt begins. What a restore
// brought back may be recorded as one.
func (w *world) checkTotal(was, is *v1alpha1.LeasedTaskStatus) {
	hasTotal := w.api.task.live().Spec.TotalLimit() > 0
	runs, stands := is.Deadline != nil, is.RemainingSeconds != nil
	switch {
	case hasTotal != (runs || stands) || runs && stands:
		w.fail("total time %t, and its clock runs %t, stands still %t", hasTotal, runs, stands)
	case is.Phase == v1alpha1.PhaseClaimed && was.Phase == v1alpha1.PhaseAvailable && was.DeadLetterName != "" && w.ledger.restored == 0:
		w.fail("attempt %d is granted to a task that is given up", is.Attempt)
	case is.Phase == v1alpha1.PhaseDeadLettered && w.api.dead.Spec.Reason == v1alpha1.ReasonDeadlineExceeded && !runs:
		w.fail("given up for its total time, which was not running")
	}
}

// tokenFloor is what the token of a grant that is put on record must be above: all that ever were. A restore may bring back a term
// that was not on record; what its worker submits then is recorded under the token that it had, which is no grant.
func (w *world) tokenFloor(is *v1alpha1.LeasedTaskStatus) fencing.Token {
	t := w.api.term.live()
	if w.ledger.restored > 0 && t != nil && t.Submission != nil && t.Submission.Token == fencing.Token(is.FencingToken) {
		return 0
	}
	return w.ledger.highest
}

// checkDead holds when a dead letter is made: one that is there is the same, but for late submissions, which may be put on record
// at any time.
func (w *world) checkDead(dead *v1alpha1.DeadLetter) {
	for i := range dead.Spec.History {
		dead.Spec.History[i].LateSubmission = v1alpha1.LateSubmission{}
	}
	if w.api.dead != nil && !equality.Semantic.DeepEqual(w.api.dead, dead) {
		w.fail("two dead letters: %+v and %+v", w.api.dead.Spec, dead.Spec)
	}
}

func (w *world) checkHistory(was, is *v1alpha1.LeasedTaskStatus) {
	losses := int32(0)
	seen := map[int32]bool{}
	for i := range is.History {
		entry := &is.History[i]
		if entry.ProbeFor == 0 && (entry.Outcome == v1alpha1.AttemptFailed || entry.Outcome == v1alpha1.AttemptDisrupted) {
			losses++
		}
		if seen[entry.Attempt] || entry.Attempt > is.Attempt || entry.Reason == "" || entry.EndTime == nil {
			w.fail("bad history entry %+v of attempt %d", entry, is.Attempt)
		}
		seen[entry.Attempt] = true
		if isNew := i >= len(was.History); isNew && entry.Reason == plan.ReasonStartTimeout && w.now-w.ledger.grantedAt[entry.PodName] < startTimeout*1000/1020 {
			w.fail("attempt %d is given up %s after its grant, for want of a claim", entry.Attempt, w.now-w.ledger.grantedAt[entry.PodName])
		}
	}
	switch {
	case len(is.History) > v1alpha1.MaxHistory:
		w.fail("%d history entries", len(is.History))
	case len(is.History) < v1alpha1.MaxHistory && losses != is.Failures+is.Disruptions:
		w.fail("%d failures and %d disruptions, the history has %d", is.Failures, is.Disruptions, losses)
	case len(is.History) > len(was.History)+1:
		w.fail("one write ended several attempts")
	}
}

// isExcused reports whether a process may still run when it should not: the promise is not made for it.
func (p *process) isExcused() bool { return p.isGivenUp() || p.onFailure() == holder.Continue }

// isGivenUp reports whether nobody can know that it lives.
func (p *process) isGivenUp() bool {
	return p.node.isFrozen || p.wasFrozen || p.isOrphan || p.isForgotten
}

// checkAlone holds when an attempt is released or a grant put on record, which is what lets its process start, and when that starts
// its child: nobody works for an earlier one.
func (w *world) checkAlone(attempt int32) {
	for _, p := range w.processes {
		if p.attempt < attempt && p.tree.isAlive() && !p.isExcused() {
			w.fail("attempt %d begins while %s works", attempt, p.holder)
		}
	}
}

// checkStart holds when a process starts its child: it is the first of its term.
func (w *world) checkStart(p *process) {
	if first := w.ledger.starters[p.token]; first != nil {
		w.fail("two processes work under token %d: %s and %s", p.token, first.claim, p.claim)
	}
	w.checkCertain(p)
	w.ledger.starters[p.token] = p
	w.checkAlone(p.attempt)
}

// checkAbandon holds when an agent ends as one who holds nothing: it does not. A claim that arrives twice is refused the second
// time; the agent that hears of that alone ends, and its term expires.
func (w *world) checkAbandon(p *process) {
	t := w.api.term.live()
	isTwin := func(other *process) bool { return other != p && other.claim.String() == p.claim.String() }
	isItsOwn := t != nil && t.State() == fencing.Claimed && t.Claim.String() == p.claim.String() && !slices.ContainsFunc(w.processes, isTwin)
	if isItsOwn && !p.isForbidden && !w.network.hasDoubled {
		w.fail("%s ends, and its claim stands", p.holder)
	}
}

// checkDelivery holds when an agent ends by itself: what it had to say was accepted, or its term was over before.
func (w *world) checkDelivery(p *process, delivery fencing.Delivery) {
	_, isAccepted := w.ledger.accepted[p.token]
	switch {
	case delivery != fencing.DeliveryAccepted && delivery != fencing.DeliveryRefused:
		w.fail("%s gives up with its submission %s", p.holder, delivery)
	case p.sentTrue <= w.ledger.restored: // the answer is about a state that is no more
	case delivery == fencing.DeliveryAccepted && !isAccepted && !p.isOrphan:
		w.fail("%s believes that it has submitted", p.holder)
	case delivery == fencing.DeliveryRefused && !isAccepted && !w.ledger.over[p.attempt] && !p.isOrphan && !p.isForbidden && !p.isRefusedResult:
		w.fail("%s is refused, and its term was not revoked", p.holder)
	}
}

func isUnderWay(status *v1alpha1.LeasedTaskStatus) bool {
	isProbed := status.Phase == v1alpha1.PhaseProbing && (len(status.History) == 0 || status.History[len(status.History)-1].Attempt != status.Attempt)
	return status.Phase == v1alpha1.PhaseClaimed || status.Phase == v1alpha1.PhaseRunning || isProbed
}

// checkDelete holds when a Pod is deleted or limited: it is not the one made for the open term on record, unless that is to stop. What people made under
// its name does not count.
func (w *world) checkDelete(pod *corev1.Pod) {
	status := &w.api.task.live().Status
	t := w.api.term.live()
	isOwn := pod.Annotations[v1alpha1.TokenAnnotation] == strconv.FormatInt(status.FencingToken, 10)
	if isOwn && isUnderWay(status) && status.Holder.PodName == pod.Name && t != nil && t.IsOpen() && t.Holder == pod.Name && t.Stop == nil {
		w.fail("the Pod of the attempt under way, %s, is deleted", pod.Name)
	}
}

// checkEnd holds once the task is finished.
func (w *world) checkEnd() {
	task := w.api.task.live()
	status := &task.Status
	if w.ledger.won != 0 && (status.Phase != v1alpha1.PhaseCompleted || status.FencingToken != int64(w.ledger.won)) {
		w.fail("a success under token %d landed, the task is %s under token %d", w.ledger.won, status.Phase, status.FencingToken)
	}
	w.checkKnown()
	if status.Failures > task.Spec.Retry.MaxAttempts || status.Disruptions > *task.Spec.Retry.MaxDisruptions+1 {
		w.fail("%d failures, %d disruptions", status.Failures, status.Disruptions)
	}
}
