package plan

import (
	"encoding/json"
	"fmt"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan/verify"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

const (
	// maxSpec is the limit of the policy leasehold-task-size.
	maxSpec = 524288
	// maxPayload is what of it is kept for the payload, which a cache does not hold.
	maxPayload = 65536
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
	return s.refuseSpec(s.status())
}

// refuseSpec says what is wrong with the spec, if anything is, in an event once for each wrong spec. What a queue has to do with it, a
// cache may not show yet.
func (s *Snapshot) refuseSpec(status *v1alpha1.LeasedTaskStatus) (Plan, bool) {
	w := waiting{}
	if s.Source.IsMissing && s.Task.Spec.Template == nil {
		w = waiting{v1alpha1.WaitingQueueMissing, fmt.Sprintf("TaskQueue %s does not exist, and the task has no template", s.Task.Spec.QueueName)}
	} else if problem := s.problem(); problem != nil {
		w = waiting{v1alpha1.WaitingSpecInvalid, problem.Error()}
	} else {
		return Plan{}, false
	}
	p := s.write(status, w)
	if p.Status != nil && w.reason == v1alpha1.WaitingSpecInvalid {
		p.Events = []Event{{Warning: true, Reason: v1alpha1.WaitingSpecInvalid, Action: "Accept", Note: w.message}}
	}
	p.MustLook = p.Status != nil && s.Task.Spec.QueueName != ""
	return p, true
}

// problem is what is wrong with the effective spec; nil: nothing. The CRDs' rules see task and queue one at a time.
func (s *Snapshot) problem() error {
	spec, queue := &s.Task.Spec, s.Task.Spec.QueueName
	if spec.Template == nil {
		return fmt.Errorf("spec.template: is required: TaskQueue %s has none", queue)
	}
	if s.Source.Given == nil {
		return verify.Compile(spec.Verify)
	}
	if worker := spec.HolderWorker(false); s.Source.Own.Template == nil {
		switch {
		case worker == nil:
			return fmt.Errorf("spec.workerContainer: names no container of the template of TaskQueue %s: %q", queue, spec.WorkerContainer)
		case len(worker.Command) == 0:
			return fmt.Errorf("spec.workerContainer: container %q of the template of TaskQueue %s needs a command: the agent starts it, and cannot see the image's own ENTRYPOINT", worker.Name, queue)
		case worker.Lifecycle != nil:
			return fmt.Errorf("spec.workerContainer: container %q of the template of TaskQueue %s cannot have lifecycle hooks: they run outside the agent's fence", worker.Name, queue)
		}
	}
	if t := &spec.Timeouts; t.TotalSeconds > 0 && t.TotalSeconds < t.AttemptSeconds {
		return fmt.Errorf("spec.timeouts: with those of TaskQueue %s, totalSeconds is %d and below attemptSeconds, %d: no attempt could ever use its time",
			queue, t.TotalSeconds, t.AttemptSeconds)
	}
	if b := &spec.Retry.Backoff; b.Max() < b.Initial() {
		return fmt.Errorf("spec.retry.backoff: with that of TaskQueue %s, maxSeconds is %s and below initialSeconds, %s", queue, b.Max(), b.Initial())
	}
	if size := sizeWithoutPayload(*spec); size > maxSpec-maxPayload {
		return fmt.Errorf("spec: is too large with what TaskQueue %s gives: %d bytes without the payload, %d are allowed, so that the task can always be recorded",
			queue, size, maxSpec-maxPayload)
	}
	return verify.Compile(spec.Verify)
}

func sizeWithoutPayload(spec v1alpha1.LeasedTaskSpec) int {
	spec.Payload = nil
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("a spec that was decoded from JSON cannot fail to encode: %v", err)) // programming error
	}
	return len(raw)
}
