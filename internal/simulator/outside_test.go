package simulator

import (
	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/holder"
)

// probeFailed is the exit code of a probe that cannot tell.
const probeFailed = 2

// outside is the place of the task's effect. It compares tokens, and knows no idempotency key: whoever gets in has the effect once
// more. No restore touches it.
type outside struct {
	mark    fencing.Token // the highest that was seen
	effects int
}

// admit raises the mark, and keeps out whoever is below it.
func (o *outside) admit(token fencing.Token) bool {
	if token < o.mark {
		return false
	}
	o.mark = token
	return true
}

// haveEffect is what the work is for. Whoever is kept out gives up.
func (p *process) haveEffect() bool {
	p.hasTried, p.tree.effectAt = true, never
	if !p.outside.admit(p.token) {
		p.note("%s is kept out", p.holder)
		return false
	}
	p.outside.effects++
	p.note("%s has its effect", p.holder)
	p.checkEffect()
	return true
}

// exitOf is how the child ends that ends by itself: an attempt that succeeds has had its effect, a probe that can tell tells the truth.
func (p *process) exitOf(exit holder.Exit) holder.Exit {
	isOwn := exit.Signal == 0 && exit.Code < probeFailed
	switch {
	case p.isProbe && isOwn:
		exit.Code = p.look()
	case !p.isProbe && exit.Code == 0 && !p.hasTried && !p.haveEffect():
		exit.Code = 1
	}
	return exit
}

// look raises the mark, and then says what there is: after that no earlier attempt gets in.
func (p *process) look() int {
	switch {
	case !p.outside.admit(p.token):
		return probeFailed
	case p.outside.effects > 0:
		p.note("%s finds the effect", p.holder)
		return 0
	}
	p.note("%s finds no effect", p.holder)
	return 1
}

// effectOf is what the worker submits of its effect. Half of those that know of none say so.
func (p *process) effectOf() fencing.Effect {
	if p.word.Outcome == fencing.Succeeded || p.hasTried || !p.isFrank {
		return ""
	}
	return fencing.EffectNone
}

// policy is the task's, as far as promises go: a restore forgets what was uncertain.
func (w *world) policy() v1alpha1.LostAttemptPolicy {
	if w.ledger.restored > 0 {
		return v1alpha1.LostAttemptRetry
	}
	return w.api.task.live().Spec.OnLost()
}

// checkEffect holds with each effect: unless the task is just tried again, it is the first.
func (w *world) checkEffect() {
	if w.policy() != v1alpha1.LostAttemptRetry && w.outside.effects > 1 {
		w.fail("with onLostAttempt %s the effect happens a second time", w.policy())
	}
}

// checkCertain holds when an attempt starts its child: of each that started one before, it is known that it had no effect.
func (w *world) checkCertain(p *process) {
	if p.isProbe || w.policy() == v1alpha1.LostAttemptRetry {
		return
	}
	for token, first := range w.ledger.starters {
		if token < p.token && !first.isProbe && w.ledger.accepted[token].Effect != fencing.EffectNone && !w.isProbed(token, p.token) {
			w.fail("attempt %d starts, and nobody knows whether attempt %d had its effect", p.attempt, first.attempt)
		}
	}
}

// isProbed reports whether a probe between two attempts has said that there was no effect.
func (w *world) isProbed(after, before fencing.Token) bool {
	if w.policy() != v1alpha1.LostAttemptReconcile {
		return false
	}
	for token, first := range w.ledger.starters {
		sub, isAccepted := w.ledger.accepted[token]
		isAnswer := isAccepted && sub.Outcome == fencing.Failed && sub.Reason == fencing.ReasonNonZeroExit && sub.ExitCode != nil && *sub.ExitCode == 1
		if first.isProbe && after < token && token < before && isAnswer {
			return true
		}
	}
	return false
}

// checkKnown holds once the task is finished: what is Completed had its effect, and no probe more was made than may be.
func (w *world) checkKnown() {
	status, spec := &w.api.task.live().Status, &w.api.task.live().Spec
	if status.Phase == v1alpha1.PhaseCompleted && w.ledger.restored == 0 && w.outside.effects == 0 {
		w.fail("completed, and there was no effect")
	}
	if status.Uncertain.Probes > 0 && status.Uncertain.Probes > spec.Reconcile.Probes() {
		w.fail("%d probes without an answer", status.Uncertain.Probes)
	}
}
