package replay

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

// pendingRetry is the pause before a request is tried again that the API server could not answer.
const pendingRetry = 10 * time.Second

// Snapshot is all that a decision rests on.
type Snapshot struct {
	Now        time.Time
	DeadLetter *v1alpha1.DeadLetter
	// Live is true if the dead letter was read from the API server for this decision. A cache holds neither the task's spec
	// nor, perhaps, the last answer.
	Live bool
	// Retention is the operator's default; 0: it has none.
	Retention time.Duration
	// Answer is what the API server said to the task that a plan of this pass wanted; nil: none did yet.
	Answer *Answer
}

// Answer is what became of a task that was to be made.
type Answer struct {
	// Name and UID are the task's; empty: there is none.
	Name string
	UID  string
	// Refusal is why not; empty: there is one.
	Refusal string
	// IsFinal: asking again would be refused again, so that the request is answered.
	IsFinal bool
}

// Plan is what to do, in the order of its fields. The zero plan does nothing.
type Plan struct {
	// NeedsLive: a request is open, or the dead letter is to be deleted, and that must be decided from a live read.
	NeedsLive bool
	// Create is the task to make. Its answer goes into the snapshot, and is decided on again.
	Create *v1alpha1.LeasedTask
	// Status is written if it differs from what stands.
	Status *v1alpha1.DeadLetterStatus
	// Delete deletes the dead letter: its retention is over.
	Delete bool
	// Events and Counts follow.
	Events []plan.Event
	Counts []plan.Count
	// Requeue is when to look again if nothing happens before; 0: when something happens.
	Requeue time.Duration
}

// CountReplay counts answered requests. Label: outcome.
const CountReplay plan.Counter = "replay"

// Decide says what to do about a dead letter.
func Decide(s *Snapshot) Plan {
	dead := s.DeadLetter
	request := dead.Spec.Replay.Request
	switch {
	case dead.DeletionTimestamp != nil:
		return Plan{}
	case request <= dead.Status.LastRequest: // none, or an answered one
		return s.rest()
	case !s.Live:
		return Plan{NeedsLive: true}
	case s.Answer == nil:
		task, err := Task(dead)
		if err != nil {
			return s.refuse(err.Error())
		}
		return Plan{Create: task}
	case s.Answer.Refusal == "":
		return s.create()
	case s.Answer.IsFinal:
		return s.refuse(s.Answer.Refusal)
	}
	p := s.write(s.status(), s.Answer.Refusal)
	p.Requeue = pendingRetry
	return p
}

// create records that the request's task exists.
func (s *Snapshot) create() Plan {
	status := s.status()
	record := s.record(status, v1alpha1.ReplayCreated)
	record.TaskName, record.TaskUID = s.Answer.Name, s.Answer.UID
	p := s.write(status, "")
	s.expire(&p, status)
	p.Counts = []plan.Count{{Counter: CountReplay, Label: string(v1alpha1.ReplayCreated)}}
	p.Events = []plan.Event{{Reason: "Replayed", Action: "Replay", Note: fmt.Sprintf("Request %d made LeasedTask %s", record.Request, record.TaskName)}}
	return p
}

// refuse records that the request makes no task.
func (s *Snapshot) refuse(why string) Plan {
	status := s.status()
	record := s.record(status, v1alpha1.ReplayRefused)
	record.Message = bounded(why)
	p := s.write(status, "")
	p.Counts = []plan.Count{{Counter: CountReplay, Label: string(v1alpha1.ReplayRefused)}}
	p.Events = []plan.Event{{Warning: true, Reason: "ReplayRefused", Action: "Replay", Note: fmt.Sprintf("Request %d made nothing: %s", record.Request, why)}}
	return p
}

// write finishes a status: conditions are computed, and it is part of the plan only if it differs from what stands. pending
// says why the open request could not be answered; empty: there is none.
func (s *Snapshot) write(status *v1alpha1.DeadLetterStatus, pending string) Plan {
	s.setConditions(status, pending)
	if equality.Semantic.DeepEqual(*status, s.DeadLetter.Status) {
		return Plan{}
	}
	return Plan{Status: status}
}
