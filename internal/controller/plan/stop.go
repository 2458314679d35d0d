package plan

import (
	"fmt"
	"time"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// pushSeconds is the activeDeadlineSeconds of a Pod whose worker is to stop: one second after its start, which has passed on
// whatever clock the kubelet has.
const pushSeconds = 1

// wantedStop is whether and why nothing of the task is to run; nil: it may. Cancel comes first: it is final, and its owner's word.
// That the task is superseded is as final, also where an attempt is the only one: somebody has decided that newer work counts.
// A time that is over comes before suspend, which could only put off the end.
func (s *Snapshot) wantedStop() *fencing.Stop {
	spec, lost := &s.Task.Spec, s.lostKey()
	stop := &fencing.Stop{Time: s.Now, GraceSeconds: int32(spec.StopGrace() / time.Second)} // at most 3600
	switch {
	case spec.IsCancelled():
		stop.Reason, stop.Message = fencing.ReasonCancelled, spec.Cancel.Reason
		if grace := spec.Cancel.GracePeriodSeconds; grace > 0 {
			stop.GraceSeconds = min(stop.GraceSeconds, grace)
		}
		return stop
	case lost != nil:
		stop.Reason, stop.Message = fencing.ReasonSuperseded, lost.lostTo()
		return stop
	case s.isTimeUp():
		return timeUpStop(spec, stop)
	case spec.IsSuspended() && !s.isOnlyChance():
		stop.Reason = fencing.ReasonSuspended
		return stop
	case s.isDraining() && !s.isOnlyChance():
		stop.Reason, stop.Message = fencing.ReasonDrained, s.pausedQueue()
		return stop
	}
	return nil
}

// isOnlyChance reports whether an attempt is under way that must not, as far as anybody knows, be stopped for less than a cancel: what it
// may have done already, no other attempt will be made to finish.
func (s *Snapshot) isOnlyChance() bool {
	policy := s.Task.Spec.OnLost()
	mayBe := policy == v1alpha1.LostAttemptDeadLetter || policy == onLostUnknown
	return mayBe && isOpen(s) && !isProbing(&s.Task.Status) && s.mayHaveRun()
}

// stopGrace is what the command gets of a stop that stands on the Lease.
func (s *Snapshot) stopGrace() time.Duration { return s.Term.Stop.Grace(s.Task.Spec.StopGrace()) }

// cancelled ends a task whose process is over, or never was. It is asked when no term is open and the last one is released.
func cancelled(s *Snapshot) (Plan, bool) {
	if !s.Task.Spec.IsCancelled() {
		return Plan{}, false
	}
	return s.settle(s.status()), true
}

// suspended holds a task between two attempts, or before the first. It costs nothing but the record of it: only a change of
// the spec ends it.
func suspended(s *Snapshot) (Plan, bool) {
	if !s.Task.Spec.IsSuspended() {
		return Plan{}, false
	}
	return s.write(s.status(), s.pauseOf(&s.Task.Status)), true
}

// stopUnclaimed ends a term that nobody has claimed, so that nothing ever runs. Its Pod is swept.
func stopUnclaimed(s *Snapshot) (Plan, bool) {
	stop := s.wantedStop()
	if stop == nil {
		return Plan{}, false
	}
	p := s.endAttempt(unclaimedStop(stop), released)
	p.Revoke = &Revoke{}
	return p, true
}

func unclaimedStop(stop *fencing.Stop) end {
	return end{outcome: v1alpha1.AttemptStopped, reason: stop.Reason, evidence: v1alpha1.EvidenceObservation,
		message: said("stopped before a worker claimed", stop)}
}

// orderStop asks the holder to end. It is asked again only for less grace: what for, it has been told.
func orderStop(s *Snapshot) (Plan, bool) {
	stop := s.wantedStop()
	if stop == nil || s.Term.Stop != nil && stop.Grace(s.stopGrace()) >= s.stopGrace() {
		return Plan{}, false
	}
	p := s.recordHeld()
	p.Stop = stop
	p.Events = append(p.Events, Event{Reason: "Stopping", Action: "Stop",
		Note: fmt.Sprintf("%s is told to stop within %d s: %s", sentence(termOf(&s.Task.Status)), stop.GraceSeconds, said(stop.Reason, stop))})
	return p, true
}

// stopUnheeded ends a term whose holder was told to stop and has not submitted in the time that this takes.
func stopUnheeded(s *Snapshot) (Plan, bool) {
	if s.Term.Stop == nil || s.untilUnheeded() > 0 {
		return Plan{}, false
	}
	p := s.endAttempt(s.stopped(disruption(v1alpha1.EvidenceObservation, ReasonRevoked,
		"it did not submit within %s", fencing.TimingFor(s.Term.Duration).StopPatience(s.stopGrace()))), unreleased)
	p.Revoke = &Revoke{ThisVersion: true} // as for one that is overdue
	return p, true
}

// untilUnheeded is how long the holder may still take to submit, on this process's own clock.
func (s *Snapshot) untilUnheeded() time.Duration {
	return fencing.TimingFor(s.Term.Duration).StopPatience(s.stopGrace()) - s.Now.Sub(s.StoppedSince)
}

// stopping waits for the submission of a holder that was told to stop, and has the kubelet tell it too: then it need not wait
// for its next renewal to hear of it.
func stopping(s *Snapshot) (Plan, bool) {
	if s.Term.Stop == nil {
		return Plan{}, false
	}
	p := s.recordHeld()
	p.requeueWithin(s.untilUnheeded())
	pod := s.holderPod()
	if pod != nil && s.isOwn(pod) && !isPodFinished(pod) && pod.DeletionTimestamp == nil &&
		(pod.Spec.ActiveDeadlineSeconds == nil || *pod.Spec.ActiveDeadlineSeconds > pushSeconds) {
		p.LimitPods = append(p.LimitPods, PodLimit{pod, pushSeconds})
	}
	return p, true
}

// recordHeld puts a held term on record, the claim too if it is not yet.
func (s *Snapshot) recordHeld() Plan {
	if p, isNew := running(s); isNew {
		return p
	}
	p, _ := held(s)
	return p
}

// stopped makes of an end that says nothing of its own what the stop on the Lease says: whether an attempt was stopped is
// known from there alone, and not from its Pod, which the push ends as past its deadline. An attempt that fails on its own
// account while it is being stopped has failed.
func (s *Snapshot) stopped(e end) end {
	if !s.isRecorded() || s.Term.Stop == nil {
		return e
	}
	e.outcome, e.reason = v1alpha1.AttemptStopped, s.Term.Stop.Reason
	e.message = said("told to stop", s.Term.Stop) + "; " + e.message
	return e
}

// said adds to a sentence what whoever asked for the stop has said.
func said(sentence string, stop *fencing.Stop) string {
	if stop.Message == "" {
		return sentence
	}
	return sentence + ": " + fencing.Truncate(stop.Message, maxMessage/2)
}
