package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// ledger is what the checks remember of a walk; nobody in it looks here.
type ledger struct {
	rules    map[Rule]int
	renewed  time.Time // when the term was last claimed or renewed, as it landed
	accepted map[fencing.Token]fencing.Submission
	// won is the token of a success that landed and must count; 0: there is none, or somebody deleted it with its Lease.
	won fencing.Token
}

// accepted notes a submission that has landed: one a term, the API server's promise.
func (p *worker) accepted(t *fencing.Term) {
	if _, twice := p.ledger.accepted[p.token]; twice {
		p.fail("token %d has two submissions", p.token)
	}
	p.ledger.accepted[p.token] = *t.Submission
	if t.Submission.Outcome == fencing.Succeeded {
		p.ledger.won = p.token
	}
}

// checkStatus is what every status write must keep.
func (w *world) checkStatus(was, is *v1alpha1.LeasedTaskStatus) {
	entersClaimed := is.Phase == v1alpha1.PhaseClaimed && was.Phase != v1alpha1.PhaseClaimed
	switch {
	case !IsLegal(was.Phase, is.Phase):
		w.fail("illegal change of phase from %s to %s", was.Phase, is.Phase)
	case was.Phase.IsFinished() && was.Phase != is.Phase:
		w.fail("phase %s was left", was.Phase)
	case entersClaimed && (is.FencingToken <= was.FencingToken || is.Attempt <= was.Attempt):
		w.fail("granted attempt %d, token %d after attempt %d, token %d", is.Attempt, is.FencingToken, was.Attempt, was.FencingToken)
	case !entersClaimed && (is.FencingToken != was.FencingToken || is.Attempt != was.Attempt):
		w.fail("attempt and token changed from %d, %d to %d, %d without a grant", was.Attempt, was.FencingToken, is.Attempt, is.FencingToken)
	case is.Phase == v1alpha1.PhaseCompleted && (is.Result == nil || w.ledger.accepted[fencing.Token(is.FencingToken)].Outcome != fencing.Succeeded):
		w.fail("completed without a success that was accepted under token %d", is.FencingToken)
	case was.Result != nil && (is.Result == nil || *is.Result != *was.Result):
		w.fail("the result changed")
	}
	if entersClaimed {
		w.checkAlone(is.Attempt)
	}
	if t := w.term.live(); isUnderWay(was) && !isUnderWay(is) && t != nil && t.IsOpen() && t.Holder == was.Holder.PodName {
		w.fail("attempt %d is recorded as over, and its term is %s", was.Attempt, t.State())
	}
	w.checkHistory(was, is)
}

func (w *world) checkHistory(was, is *v1alpha1.LeasedTaskStatus) {
	losses := int32(0)
	seen := map[int32]bool{}
	for _, entry := range is.History {
		if entry.Outcome != v1alpha1.AttemptSucceeded {
			losses++
		}
		if seen[entry.Attempt] || entry.Attempt > is.Attempt || entry.Reason == "" || entry.EndTime == nil {
			w.fail("bad history entry %+v of attempt %d", entry, is.Attempt)
		}
		seen[entry.Attempt] = true
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

// checkAlone holds when a grant is put on record, which is what lets its process start: nobody works for an earlier one,
// unless he was frozen. A grant that never gets on record starts nothing.
func (w *world) checkAlone(attempt int32) {
	for _, p := range w.workers {
		if p.isAlive() && !p.isFrozen && !p.wasFrozen && p.attempt < attempt {
			w.fail("attempt %d is granted while %s works", attempt, p.pod.Name)
		}
	}
}

// checkGrant holds when a term begins: no submission gets lost.
func (w *world) checkGrant(over *fencing.Term) {
	if over == nil || over.Submission == nil {
		return
	}
	for _, entry := range w.task.live().Status.History {
		if entry.FencingToken == int64(over.Submission.Token) {
			return
		}
	}
	w.fail("a grant erases an unrecorded submission of attempt %d", over.Attempt)
}

// checkRevoke holds when a term is revoked: its holder is dead, or was not heard for one duration.
func (w *world) checkRevoke(t *fencing.Term) {
	for _, p := range w.workers {
		if t.Claim != nil && p.isMine(*t) && p.isAlive() && !p.isFrozen && w.clock.Sub(w.ledger.renewed) < walkDuration {
			w.fail("the term of %s is revoked while it works", p.pod.Name)
		}
	}
}

func isUnderWay(status *v1alpha1.LeasedTaskStatus) bool {
	return status.Phase == v1alpha1.PhaseClaimed || status.Phase == v1alpha1.PhaseRunning
}

// checkDelete holds when a Pod is deleted or limited: it is not the holder of an open term on record.
func (w *world) checkDelete(pod *corev1.Pod) {
	status := w.task.live().Status
	t := w.term.live()
	if isUnderWay(&status) && status.Holder.PodName == pod.Name && t != nil && t.IsOpen() && t.Holder == pod.Name {
		w.fail("the Pod of the attempt under way, %s, is deleted", pod.Name)
	}
}

// checkEnd holds once the task is finished.
func (w *world) checkEnd() {
	status := w.task.live().Status
	if w.ledger.won != 0 && (status.Phase != v1alpha1.PhaseCompleted || status.FencingToken != int64(w.ledger.won)) {
		w.fail("a success under token %d landed, the task is %s under token %d", w.ledger.won, status.Phase, status.FencingToken)
	}
	if status.Failures > w.task.live().Spec.Retry.MaxAttempts || status.Disruptions > *w.task.live().Spec.Retry.MaxDisruptions+1 {
		w.fail("%d failures, %d disruptions", status.Failures, status.Disruptions)
	}
}
