package simulator

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// How a pass may end before its end.
var (
	errLost  = errors.New("somebody else's write came first")
	errAPI   = errors.New("the API server did not answer")
	errCrash = errors.New("the process is no more")
)

const (
	conflictPause = time.Second
	firstErrPause = 5 * time.Millisecond // of the queue's back-off; it doubles
	maxErrPause   = 1000 * time.Second
)

// pass is controller.Reconcile and execute, request by request: the decisions are package plan's, the requests go to the
// simulated API server, and between any two of them the process may crash or freeze while others go on.
type pass struct {
	*controller
	resumesAt time.Duration
	goesOn    func() bool
	next      func() (struct{}, bool)
	stop      func()
}

// ask makes one request. Without an answer, nobody knows whether it took effect, or will.
func (p *pass) ask(effect func()) error {
	if !p.goesOn() {
		return errCrash
	}
	switch isLossy := p.weather.isLossy; {
	case p.weather.isDown, p.isCut, isLossy && p.oneIn(12):
		return errAPI
	case isLossy && p.oneIn(12):
		p.network.later(p.upTo(0, 20*time.Second), func() {
			if !p.weather.isDown {
				effect()
			}
		})
		return errAPI
	}
	effect()
	if !p.goesOn() {
		return errCrash
	}
	if p.weather.isLossy && p.oneIn(12) {
		return errAPI
	}
	return nil
}

// reconcile is one pass, and what the queue makes of its end.
func (p *pass) reconcile() {
	next, err := p.run()
	switch {
	case errors.Is(err, errCrash):
		return
	case errors.Is(err, errAPI):
		p.requeue(min(maxErrPause, firstErrPause<<min(p.errors, 30)))
		p.errors++
		return
	case errors.Is(err, errLost):
		next = conflictPause
	}
	p.errors = 0
	if next > 0 {
		p.requeue(next)
	}
}

func (p *pass) run() (time.Duration, error) {
	task, term := p.api.task[p.task.seen].value, p.api.term[p.term.seen].value
	if term == nil && task.Status.LeaseName != "" && !task.Status.Phase.IsFinished() {
		if err := p.ask(func() { term = p.api.term.live() }); err != nil {
			return 0, err
		}
	}
	s := p.snapshot(task, term, p.api.pods[p.pods.seen].value)
	decided := plan.Decide(s)
	if decided.NeedsLive() {
		var pods []*corev1.Pod
		var revision string
		for _, read := range []func(){
			func() { task = p.api.task.live() },
			func() { term = p.api.term.live() },
			func() { pods, revision = p.api.pods.live(), strconv.FormatInt(p.api.revision, 10) },
		} {
			if err := p.ask(read); err != nil {
				return 0, err
			}
		}
		s = p.snapshot(task, term, pods)
		s.Live, s.Revision = true, revision
		if s.IsLossOpen() {
			s.NodeLost = p.nodeLost(s)
		}
		decided = plan.Decide(s)
	}
	p.coverage[decided.Rule]++
	return p.execute(s, decided)
}

// snapshot is one of a process whose wall clock people set: what it has observed, it counts on its monotonic clock, as Go does.
func (p *pass) snapshot(task *v1alpha1.LeasedTask, term *fencing.Term, pods []*corev1.Pod) *plan.Snapshot {
	s := &plan.Snapshot{Task: task, Term: term, Pods: pods, Jitter: p.random.Float64(), Suffix: fmt.Sprintf("%06x", p.random.IntN(1<<24))}
	p.setTime(s)
	return s
}

func (p *pass) setTime(s *plan.Snapshot) {
	s.Now = p.clock.wall(p.now)
	s.Since = s.Now.Add(p.see(s.Term, absence(s.Task)) - p.mono())
	if p.ordered != "" {
		s.StoppedSince = s.Now.Add(p.clip(p.orderedAt) - p.mono())
	}
	if p.claim != "" {
		s.ClaimedSince = s.Now.Add(p.clip(p.claimedAt) - p.mono())
	}
}

// absence is the mark of a Lease that is not there.
func absence(task *v1alpha1.LeasedTask) string {
	return fmt.Sprint("absent under ", task.Status.FencingToken)
}

// nodeLost says why the holder's node counts as lost.
func (p *pass) nodeLost(s *plan.Snapshot) string {
	for _, b := range p.boxes {
		if b.node.name == s.HolderNode() && (b.node.isCut() || b.node.isFrozen) {
			return "node " + b.node.name + " is not ready"
		}
	}
	return ""
}

// execute carries a plan out in its order: Lease, dead letter, status, Pods.
func (p *pass) execute(s *plan.Snapshot, decided plan.Plan) (time.Duration, error) {
	switch {
	case decided.Grant != nil:
		problem, err := p.grant(s, &decided)
		if err != nil {
			return 0, err
		}
		if s.GrantProblem = problem; problem != nil {
			return p.execute(s, plan.Decide(s))
		}
	case decided.Stop != nil:
		if err := p.patchTerm(s.Term, &decided, "stop", fencing.StopPatch(s.Term, *decided.Stop)); err != nil {
			return 0, err
		}
	case decided.Revoke != nil:
		if err := p.patchTerm(s.Term, &decided, "revoke", fencing.RevokePatch(s.Term, decided.Revoke.ThisVersion)); err != nil {
			return 0, err
		}
	}
	if decided.DeadLetter != nil {
		refusal, err := p.bury(decided.DeadLetter)
		if err != nil {
			return 0, err
		}
		if s.DeadLetterRefusal = refusal; refusal != "" {
			return p.execute(s, plan.Decide(s))
		}
	}
	if err := p.writeStatus(s, &decided); err != nil {
		return 0, err
	}
	if decided.CreatePod {
		refusal, err := p.createPod(s.Task)
		if err != nil {
			return 0, err
		}
		if s.PodRefusal = refusal; refusal != nil {
			return p.execute(s, plan.Decide(s))
		}
	}
	if err := p.tidy(&decided); err != nil {
		return 0, err
	}
	if decided.Watch > 0 {
		p.judge = p.mono() + decided.Watch
	}
	return decided.Requeue, nil
}

// grant is controller.grant: the epoch is read live, and no token may be below one that was granted.
func (p *pass) grant(s *plan.Snapshot, decided *plan.Plan) (*plan.GrantProblem, error) {
	floor := fencing.Token(s.Task.Status.FencingToken)
	var epoch int64
	if err := p.ask(func() { epoch = p.api.epoch }); err != nil {
		return nil, err
	}
	if epoch < max(p.epochSeen, floor.Epoch(), 1) {
		return &plan.GrantProblem{Reason: v1alpha1.WaitingEpochMissing, Message: "the epoch is missing or too low"}, nil
	}
	p.epochSeen = epoch
	if p.weather.problem != nil {
		return p.weather.problem, nil
	}
	if lowest, err := fencing.NewToken(epoch, s.Revision); err == nil && lowest < floor {
		return &plan.GrantProblem{Reason: v1alpha1.WaitingEpochMissing, Message: "the revisions went back"}, nil
	}
	var term *fencing.Term
	err := p.ask(func() {
		if is, ok := p.api.grant(s.Task, decided.Grant); ok {
			term = is
			p.note("%s: rule %s grants attempt %d to %s at %s", p.name, decided.Rule, is.Attempt, is.Holder, is.ResourceVersion)
		}
	})
	if err != nil {
		return nil, err
	}
	if term == nil {
		return nil, errLost
	}
	var again int64
	if err := p.ask(func() { again = p.api.epoch }); err != nil {
		return nil, err
	}
	if again != epoch {
		return nil, errLost
	}
	token, err := fencing.NewToken(epoch, term.ResourceVersion)
	if err != nil || token <= floor {
		return nil, errAPI // an error, tried again
	}
	decided.Status = plan.Granted(s, decided.Grant, term.UID, token)
	s.Term = term
	s.Since = s.Now.Add(p.see(term, absence(s.Task)) - p.mono())
	return nil, nil
}

// bury makes the dead letter, unless it is there. A refusal is the API server's word.
func (p *pass) bury(dead *v1alpha1.DeadLetter) (refusal string, err error) {
	err = p.ask(func() {
		if refusal = p.weather.full; refusal == "" || p.api.dead != nil {
			p.api.bury(dead)
			refusal = ""
		}
	})
	return refusal, err
}

func (p *pass) patchTerm(term *fencing.Term, decided *plan.Plan, what string, patch []byte) error {
	var answer fencing.Answer
	err := p.ask(func() {
		p.note("%s: rule %s wants to %s attempt %d of %s", p.name, decided.Rule, what, term.Attempt, term.Holder)
		answer = p.api.patchLease(patch, true).answer
	})
	if err == nil && answer != fencing.Accepted {
		p.note("%s: it is %s", p.name, answer)
		err = errLost
	}
	return err
}

func (p *pass) writeStatus(s *plan.Snapshot, decided *plan.Plan) error {
	if decided.Status == nil {
		return nil
	}
	if !plan.IsLegal(s.Task.Status.Phase, decided.Status.Phase) {
		p.fail("rule %s changes the phase from %s to %s", decided.Rule, s.Task.Status.Phase, decided.Status.Phase)
	}
	var next *v1alpha1.LeasedTask
	err := p.ask(func() {
		is, ok := p.api.writeStatus(s.Task, decided.Status)
		if ok {
			next = is
		}
		p.note("%s: rule %s writes %s, attempt %d: %t", p.name, decided.Rule, decided.Status.Phase, decided.Status.Attempt, ok)
	})
	if err != nil {
		return err
	}
	if next == nil {
		return errLost
	}
	s.Task = next
	return nil
}

// createPod makes the Pod of the attempt on record. A refused one is not tried again for a while.
func (p *pass) createPod(task *v1alpha1.LeasedTask) (*plan.PodRefusal, error) {
	pod := plan.Pod(task, plan.AgentImage{Name: "agent"})
	if p.refused.name == pod.Name && p.mono()-p.refused.at < plan.RefusedRetry {
		return p.refused.refusal, nil
	}
	var refusal *plan.PodRefusal
	var made *corev1.Pod
	err := p.ask(func() {
		if refusal = p.weather.refusal; refusal == nil {
			made = p.api.createPod(pod)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case refusal != nil:
		p.refused = refusedPod{pod.Name, p.mono(), refusal}
		return refusal, nil
	case made != nil:
		return nil, nil
	}
	return p.takenBy(task, pod)
}

// takenBy tells our own Pod, made by an earlier pass, from somebody else's of the same name.
func (p *pass) takenBy(task *v1alpha1.LeasedTask, want *corev1.Pod) (*plan.PodRefusal, error) {
	var found *corev1.Pod
	if err := p.ask(func() { found = p.api.podNamed(want.Name) }); err != nil {
		return nil, err
	}
	if found == nil {
		return nil, errLost
	}
	if metav1.IsControlledBy(found, task) && found.Annotations[v1alpha1.TokenAnnotation] == want.Annotations[v1alpha1.TokenAnnotation] {
		return nil, nil
	}
	return &plan.PodRefusal{Kind: plan.RefusedTaken, Message: "a Pod of that name exists"}, nil
}

func (p *pass) tidy(decided *plan.Plan) error {
	for _, pod := range decided.DeletePods {
		err := p.ask(func() {
			p.note("%s: rule %s deletes %s", p.name, decided.Rule, pod.Name)
			p.checkDelete(pod)
			p.api.deletePod(pod.UID)
		})
		if err != nil {
			return err
		}
	}
	for _, limit := range decided.LimitPods {
		isLost := false
		err := p.ask(func() {
			is := p.api.pod(limit.Pod.UID)
			if isLost = is != nil && is.ResourceVersion != limit.Pod.ResourceVersion; isLost || is == nil {
				return
			}
			p.note("%s: rule %s limits %s to %d s", p.name, decided.Rule, limit.Pod.Name, limit.Seconds)
			p.checkDelete(limit.Pod)
			p.api.editPod(limit.Pod.UID, func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = &limit.Seconds })
		})
		if err == nil && isLost {
			err = errLost
		}
		if err != nil {
			return err
		}
	}
	return nil
}
