package controller

import (
	"cmp"
	"context"

	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// step is one write of a plan, if the plan has it. isAnswered: the snapshot has an answer that the plan could not know.
type step func(ctx context.Context, s *plan.Snapshot, p *plan.Plan) (isAnswered bool, err error)

func (r *Reconciler) keepGiven(ctx context.Context, s *plan.Snapshot, p *plan.Plan) (isAnswered bool, err error) {
	if p.Keep == nil {
		return false, nil
	}
	s.RevisionRefusal, err = r.keepRevision(ctx, s.Task, p.Keep)
	return s.RevisionRefusal != "", err
}

func (r *Reconciler) writeTerm(ctx context.Context, s *plan.Snapshot, p *plan.Plan) (isAnswered bool, err error) {
	switch {
	case p.Grant != nil:
		s.GrantProblem, err = r.grant(ctx, s, p)
		return s.GrantProblem != nil, err
	case p.Stop != nil, p.Revoke != nil:
		return false, r.endTerm(ctx, s.Term, p)
	}
	return false, nil
}

func (r *Reconciler) lock(ctx context.Context, s *plan.Snapshot, p *plan.Plan) (isAnswered bool, err error) {
	lock := cmp.Or(p.TakeKey, p.Answer)
	if lock == nil {
		return false, nil
	}
	s.KeyRefusal, err = r.writeKey(ctx, s, lock)
	return s.KeyRefusal != "" || lock == p.TakeKey, err
}

func (r *Reconciler) bury(ctx context.Context, s *plan.Snapshot, p *plan.Plan) (isAnswered bool, err error) {
	if p.DeadLetter == nil {
		return false, nil
	}
	s.DeadLetterRefusal, err = r.createDeadLetter(ctx, s.Task, p.DeadLetter)
	return s.DeadLetterRefusal != "", err
}

func (r *Reconciler) record(ctx context.Context, s *plan.Snapshot, p *plan.Plan) (isAnswered bool, err error) {
	return false, r.writeStatus(ctx, s, p.Status)
}

// start makes the attempt's Pod. What was done before stands, and is told, whatever becomes of it.
func (r *Reconciler) start(ctx context.Context, s *plan.Snapshot, p *plan.Plan) (isAnswered bool, err error) {
	if !p.CreatePod {
		return false, nil
	}
	if s.PodRefusal, err = r.createPod(ctx, s); s.PodRefusal != nil {
		r.announce(s, p)
	}
	return s.PodRefusal != nil, err
}
