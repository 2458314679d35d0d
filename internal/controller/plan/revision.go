package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// Source is where what a task's own spec leaves out comes from. The zero value: from nowhere.
type Source struct {
	// Given is what the queue gives the task: the revision on record, or, while none is and the spec may change, what the queue says
	// now. nil: nothing, or it is not known.
	Given *v1alpha1.TaskQueueSpec
	// IsMissing: there is no queue of the name, and nothing is on record.
	IsMissing bool
	// IsLost: the revision on record is gone.
	IsLost bool
	// Own is the task's spec as it stands.
	Own v1alpha1.LeasedTaskSpec
}

// Complete makes the snapshot one of the task with its effective spec. Of a revision that is lost nobody knows what it said: see patient.
func (s *Snapshot) Complete(source Source) {
	source.Own = s.Task.Spec
	if isWhole(&source.Own) { // it neither needs its queue, nor what was kept of it
		source = Source{Own: source.Own}
	}
	given := source.Given
	if source.IsLost {
		given = patient
	}
	s.Task.Spec, s.Source = Effective(source.Own, given), source
}

// Revision is what a queue gave to its tasks at some time. It never changes, and is named after what it says.
type Revision struct {
	Name string
	Data []byte
}

// RevisionOf is what the queue gives now.
func RevisionOf(queue string, given *v1alpha1.TaskQueueSpec) *Revision {
	data, err := json.Marshal(given)
	if err != nil {
		panic(fmt.Sprintf("a spec that was decoded from JSON cannot fail to encode: %v", err)) // programming error
	}
	sum := sha256.Sum256(append([]byte(queue+"\x00"), data...)) // no name has that byte
	return &Revision{Name: Name(queue, "-"+hex.EncodeToString(sum[:8])), Data: data}
}

// IsSpecOpen reports whether what a queue gives its task may still change.
func IsSpecOpen(status *v1alpha1.LeasedTaskStatus) bool {
	return status.Attempt == 0 && status.DeadLetterName == "" && status.QueueRevision == ""
}

// fix puts on record what the queue gave: the spec does not change from now on, whatever becomes of the queue.
func (s *Snapshot) fix(status *v1alpha1.LeasedTaskStatus) {
	if r := s.ToKeep(); r != nil && !IsSpecOpen(status) {
		status.QueueRevision = r.Name
	}
}

// ToKeep is what is to be on record as soon as the spec may not change any more; nil: nothing, or it is already.
func (s *Snapshot) ToKeep() *Revision {
	if s.Source.Given == nil || s.RevisionRefusal != "" || !IsSpecOpen(&s.Task.Status) {
		return nil
	}
	return RevisionOf(s.Task.Spec.QueueName, s.Source.Given)
}

// keepRevision has a plan keep the revision that it puts on record, or will with its grant.
func (s *Snapshot) keepRevision(p *Plan) {
	if p.Grant != nil || p.Status != nil && p.Status.QueueRevision != s.Task.Status.QueueRevision {
		p.Keep = s.ToKeep()
	}
}

// awaitRevision holds a task while what its queue gives it cannot be kept, or was not: no attempt is made of less than the task had.
func awaitRevision(s *Snapshot) (Plan, bool) {
	status, w := s.status(), waiting{v1alpha1.WaitingQueueRevision, s.RevisionRefusal}
	switch {
	case s.RevisionRefusal != "":
	case s.Source.IsLost && !s.isTimeUp():
		w = s.awaitsRevision(status)
	default:
		return Plan{}, false
	}
	p := s.write(status, w)
	p.Requeue = RefusedRetry
	return p, true
}
