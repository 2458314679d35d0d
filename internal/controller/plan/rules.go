package plan

import (
	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// Rule names the rule that made a plan.
type Rule string

// Rules, in the order in which they are asked.
const (
	// RuleDeleting: the task is being deleted; its Lease and Pods follow by their owner references.
	RuleDeleting Rule = "Deleting"
	// RuleLateSubmission: the Pod of a revoked attempt reports that its submission was refused; that is put on record.
	RuleLateSubmission Rule = "LateSubmission"
	// RuleFinished: nothing more to do until the time to live has passed.
	RuleFinished Rule = "Finished"
	// RuleAccept: a task that was not seen before becomes Available.
	RuleAccept Rule = "Accept"

	// RuleUnrecordedClaim: a term is claimed that the status does not know as open. It is left alone until it expires.
	RuleUnrecordedClaim Rule = "UnrecordedClaim"
	// RuleUnrecordedGrant: a grant was written and not recorded, and nobody has claimed: revoke it, if it stays so for two seconds.
	RuleUnrecordedGrant Rule = "UnrecordedGrant"
	// RuleUnrecordedSubmission: the Lease holds a submission that the status does not know. It is recorded, never erased.
	RuleUnrecordedSubmission Rule = "UnrecordedSubmission"
	// RuleUnrecordedRelease: a claimed term that the status never knew was revoked; its process may still run.
	RuleUnrecordedRelease Rule = "UnrecordedRelease"
	// RuleAwaitRelease: the old process may still run.
	RuleAwaitRelease Rule = "AwaitRelease"
	// RuleGiveUp: there will be no further attempt, and that is on record: the dead letter is written, then the task is
	// DeadLettered, whatever is asked of it meanwhile.
	RuleGiveUp Rule = "GiveUp"
	// RuleCancelled: cancel is requested, no term is open, and no process of the task can run any more: the end.
	RuleCancelled Rule = "Cancelled"
	// RuleReplaced: the task has its concurrency key, and a newer one replaces it; no term is open, and no process of the task can run
	// any more: the end, as by a cancel.
	RuleReplaced Rule = "Replaced"
	// RuleSpecInvalid: the spec, with what its queue gives, asks for what cannot be done; the task rests until that is repaired.
	RuleSpecInvalid Rule = "SpecInvalid"
	// RuleAwaitRevision: what the queue gives the task cannot be kept, or was not.
	RuleAwaitRevision Rule = "AwaitRevision"
	// RuleNoProbe: the attempt is in doubt, because what its queue says of that was not known as it ended, and no probe is to settle it.
	// With onLostAttempt Retry the doubt is dropped; else there will be no further attempt, and that is put on record.
	RuleNoProbe Rule = "NoProbe"
	// RuleBudgetUsedUp: the last attempt has used up a budget that was the queue's, and was not known as it ended: that there will be no
	// further attempt is put on record.
	RuleBudgetUsedUp Rule = "BudgetUsedUp"
	// RuleTimeUp: timeouts.totalSeconds is over, and no term is open: that there will be no further attempt is put on record.
	RuleTimeUp Rule = "TimeUp"
	// RuleSuspended: the task is suspended, and no term is open: it rests until its spec changes.
	RuleSuspended Rule = "Suspended"
	// RuleStartAfter: the task's time has not come.
	RuleStartAfter Rule = "StartAfter"
	// RuleSettling: what an uncertain attempt asked for may still take effect; the probe waits.
	RuleSettling Rule = "Settling"
	// RuleBackoff: the pause before the next attempt or probe is not over.
	RuleBackoff Rule = "Backoff"
	// RuleKeyConflict: another task with the task's idempotency key runs, or has succeeded, with another payload: that there will be
	// no attempt is put on record.
	RuleKeyConflict Rule = "KeyConflict"
	// RuleAttach: another task with the task's idempotency key has succeeded with the same payload: the task has, too.
	RuleAttach Rule = "Attach"
	// RuleKeyRejected: the task's concurrency key is not free, and keyPolicy is Reject: that there will be no attempt is put on
	// record.
	RuleKeyRejected Rule = "KeyRejected"
	// RuleSuperseded: the task would wait for its concurrency key, and a newer one replaces it: the end, as by a cancel.
	RuleSuperseded Rule = "Superseded"
	// RuleAwaitKey: another task has one of the task's keys, or a dead letter blocks it.
	RuleAwaitKey Rule = "AwaitKey"
	// RuleAskForKey: the task replaces whatever is older and has its concurrency key, or waits for it: the key's Lease is to say so.
	RuleAskForKey Rule = "AskForKey"
	// RuleTakeKey: one of the task's keys is free, and is taken.
	RuleTakeKey Rule = "TakeKey"
	// RuleAwaitTurn: the task waits for its turn in its queue.
	RuleAwaitTurn Rule = "AwaitTurn"
	// RuleGrant: begin the next attempt or probe.
	RuleGrant Rule = "Grant"

	// RuleLeaseLost: the recorded term's Lease is gone or is not the one on record: a revoked term.
	RuleLeaseLost Rule = "LeaseLost"
	// RuleSubmitted: the agent has spoken.
	RuleSubmitted Rule = "Submitted"
	// RuleRevokedUnclaimed: the term was revoked before any claim; nothing ran.
	RuleRevokedUnclaimed Rule = "RevokedUnclaimed"
	// RuleRevoked: the term was revoked after its claim.
	RuleRevoked Rule = "Revoked"
	// RuleStopUnclaimed: cancel or suspend is requested, the queue is drained, a newer task replaces this one, or the total time is over,
	// and nobody has claimed: the term is revoked, and its Pod deleted.
	RuleStopUnclaimed Rule = "StopUnclaimed"
	// RuleStartTrouble: the attempt ended, or is given up, before any claim.
	RuleStartTrouble Rule = "StartTrouble"
	// RulePodMissing: the attempt has no Pod yet.
	RulePodMissing Rule = "PodMissing"
	// RuleStarting: the Pod exists and has not claimed.
	RuleStarting Rule = "Starting"
	// RuleWorkerEnded: the worker container has ended without a submission.
	RuleWorkerEnded Rule = "WorkerEnded"
	// RuleExpired: no renewal was seen for one lease duration.
	RuleExpired Rule = "Expired"
	// RuleOverdue: the attempt took longer than it may, and its agent has not ended it.
	RuleOverdue Rule = "Overdue"
	// RuleStopUnheeded: the holder was told to stop, and has not submitted in the time for that.
	RuleStopUnheeded Rule = "StopUnheeded"
	// RuleStop: cancel or suspend is requested, the queue is drained, a newer task replaces this one, or the total time is over: the
	// holder is told, on its Lease. An attempt that would be the last, by onLostAttempt DeadLetter or as far as anybody knows, is neither suspended
	// nor drained.
	RuleStop Rule = "Stop"
	// RuleStopping: the holder was told to stop; the kubelet is to tell it too. Its submission is waited for.
	RuleStopping Rule = "Stopping"
	// RuleClaimSeen: the claim is young; recorded a little later, if the task has not ended by then.
	RuleClaimSeen Rule = "ClaimSeen"
	// RuleRunning: the claim is put on record.
	RuleRunning Rule = "Running"
	// RuleHeld: all is well.
	RuleHeld Rule = "Held"

	// RuleOver: the old process is over, and there will be no other: that is put on record.
	RuleOver Rule = "Over"
	// RuleProbe: the old process is over, and nobody knows whether the attempt had its effect: a probe is to find out.
	RuleProbe Rule = "Probe"
	// RuleReassign: the old process is over; the task is available again.
	RuleReassign Rule = "Reassign"
)

type rule struct {
	name   Rule
	decide func(*Snapshot) (Plan, bool)
}

// rules is the ordered list. Guards are functions of the phase and the term, so that each rule reads alone.
var rules = []rule{
	{RuleDeleting, deleting},
	{RuleLateSubmission, lateSubmission},
	{RuleFinished, finished},
	{RuleAccept, accept},

	{RuleUnrecordedClaim, when(isClosed, unrecordedClaim)},
	{RuleUnrecordedGrant, when(isClosed, unrecordedGrant)},
	{RuleUnrecordedSubmission, when(isReady, unrecordedSubmission)},
	{RuleUnrecordedRelease, when(isReady, unrecordedRelease)},
	{RuleAwaitRelease, when(isExpired, awaitRelease)},
	{RuleGiveUp, when(isClosed, giveUp)},
	{RuleCancelled, when(isClosed, cancelled)},
	{RuleReplaced, when(isClosed, replaced)},
	{RuleAwaitRevision, when(isReady, awaitRevision)},
	{RuleNoProbe, when(isProbeDue, noProbe)},
	{RuleBudgetUsedUp, when(isAvailable, budgetUsedUp)},
	{RuleTimeUp, when(isReady, timeUp)},
	{RuleSpecInvalid, when(isAvailable, specInvalid)},
	{RuleSuspended, when(isReady, suspended)},
	{RuleStartAfter, when(isReady, startingLater)},
	{RuleSettling, when(isReady, settling)},
	{RuleBackoff, when(isReady, backingOff)},
	{RuleKeyConflict, when(isAvailable, keyConflict)},
	{RuleAttach, when(isAvailable, attach)},
	{RuleKeyRejected, when(isAvailable, keyRejected)},
	{RuleSuperseded, when(isAvailable, superseded)},
	{RuleAwaitKey, when(isAvailable, awaitKey)},
	{RuleAskForKey, when(isAvailable, askForKey)},
	{RuleTakeKey, when(isAvailable, takeKey)},
	{RuleAwaitTurn, when(isReady, awaitTurn)},
	{RuleGrant, when(isReady, grant)},

	{RuleLeaseLost, when(isOpen, leaseLost)},
	{RuleSubmitted, when(isOpen, in(fencing.Submitted, submitted))},
	{RuleRevokedUnclaimed, when(isOpen, in(fencing.Revoked, revokedUnclaimed))},
	{RuleRevoked, when(isOpen, in(fencing.Revoked, revoked))},
	{RuleStopUnclaimed, when(isOpen, in(fencing.Granted, stopUnclaimed))},
	{RuleStartTrouble, when(isOpen, in(fencing.Granted, startTrouble))},
	{RulePodMissing, when(isOpen, in(fencing.Granted, podMissing))},
	{RuleStarting, when(isOpen, in(fencing.Granted, starting))},
	{RuleWorkerEnded, when(isOpen, in(fencing.Claimed, workerEnded))},
	{RuleExpired, when(isOpen, in(fencing.Claimed, expired))},
	{RuleOverdue, when(isOpen, in(fencing.Claimed, overdue))},
	{RuleStopUnheeded, when(isOpen, in(fencing.Claimed, stopUnheeded))},
	{RuleStop, when(isOpen, in(fencing.Claimed, orderStop))},
	{RuleStopping, when(isOpen, in(fencing.Claimed, stopping))},
	{RuleClaimSeen, when(isOpen, in(fencing.Claimed, claimSeen))},
	{RuleRunning, when(isOpen, in(fencing.Claimed, running))},
	{RuleHeld, when(isOpen, in(fencing.Claimed, held))},

	{RuleOver, when(isExpired, lastAttempt)},
	{RuleProbe, when(isExpired, probeNext)},
	{RuleReassign, when(isExpired, reassign)},
}

func when(guard func(*Snapshot) bool, decide func(*Snapshot) (Plan, bool)) func(*Snapshot) (Plan, bool) {
	return func(s *Snapshot) (Plan, bool) {
		if !guard(s) {
			return Plan{}, false
		}
		return decide(s)
	}
}

func in(state fencing.State, decide func(*Snapshot) (Plan, bool)) func(*Snapshot) (Plan, bool) {
	return when(func(s *Snapshot) bool { return s.Term.State() == state }, decide)
}

func isAvailable(s *Snapshot) bool { return s.Task.Status.Phase == v1alpha1.PhaseAvailable }
func isExpired(s *Snapshot) bool   { return s.Task.Status.Phase == v1alpha1.PhaseExpired }
func isReady(s *Snapshot) bool     { return isAvailable(s) || isProbeDue(s) }
func isClosed(s *Snapshot) bool    { return isReady(s) || isExpired(s) }
func isOpen(s *Snapshot) bool      { return hasOpenTerm(&s.Task.Status) }

// hasOpenTerm reports whether an attempt or a probe is under way, as far as the status knows.
func hasOpenTerm(status *v1alpha1.LeasedTaskStatus) bool {
	return status.Phase == v1alpha1.PhaseClaimed || status.Phase == v1alpha1.PhaseRunning || isProbing(status)
}

func deleting(s *Snapshot) (Plan, bool) { return Plan{}, s.Task.DeletionTimestamp != nil }

func accept(s *Snapshot) (Plan, bool) {
	if s.Task.Status.Phase != "" {
		return Plan{}, false
	}
	status := s.status()
	status.Phase = v1alpha1.PhaseAvailable
	if p, isRefused := s.refuseSpec(status); isRefused {
		return p, true
	}
	return s.write(status, waiting{}), true
}

func finished(s *Snapshot) (Plan, bool) {
	if !s.Task.Status.Phase.IsFinished() {
		return Plan{}, false
	}
	p := s.write(s.status(), waiting{}) // a changed time to live is a new generation to acknowledge
	ttl, isLimited := s.Task.Spec.TimeToLive(s.Task.Status.Phase)
	end := s.Task.Status.CompletionTime
	if !isLimited || end == nil {
		return p, true
	}
	p.Requeue = end.Add(ttl).Sub(s.Now)
	p.DeleteTask = p.Requeue <= 0
	return p, true
}
