package plan

import (
	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan/verify"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// verified asks spec.verify about a success that has passed every other check. One that fails comes back as a failure that
// says why, without its result.
func (s *Snapshot) verified(sub fencing.Submission) fencing.Submission {
	if sub.Outcome != fencing.Succeeded {
		return sub
	}
	err := verify.Check(s.Task.Spec.Verify, verify.Subject{Result: sub.Result, Ref: sub.ResultRef})
	if err == nil {
		return sub
	}
	sub.Outcome, sub.Reason, sub.Message = fencing.Failed, ReasonVerificationFailed, err.Error()
	sub.Result, sub.ResultRef = nil, nil
	return sub
}

// specInvalid holds a task whose spec asks for what cannot be done and no validation rule of the CRD can tell: nothing is granted
// until it is repaired. It is asked before the first grant only; after that the spec is immutable, and was valid.
func specInvalid(s *Snapshot) (Plan, bool) {
	if s.Task.Status.Attempt > 0 {
		return Plan{}, false
	}
	err := verify.Compile(s.Task.Spec.Verify)
	if err == nil {
		return Plan{}, false
	}
	return s.refuseSpec(s.status(), err), true
}

// refuseSpec says what is wrong with the spec, in an event once for each wrong spec.
func (s *Snapshot) refuseSpec(status *v1alpha1.LeasedTaskStatus, problem error) Plan {
	p := s.write(status, waiting{v1alpha1.WaitingSpecInvalid, problem.Error()})
	if p.Status != nil {
		p.Events = []Event{{Warning: true, Reason: v1alpha1.WaitingSpecInvalid, Action: "Accept", Note: problem.Error()}}
	}
	return p
}
