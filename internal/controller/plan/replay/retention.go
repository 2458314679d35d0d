package replay

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

const (
	// CountDiscard counts dead letters that were discarded.
	CountDiscard plan.Counter = "discard"
	// CountExpired counts dead letters that were deleted because their retention was over. Label: Replayed or Discarded.
	CountExpired plan.Counter = "dead_letter_expired"
)

// recordPause is how long a dead letter stays after the write that says why it goes: nothing else asks for the next pass.
const recordPause = time.Second

// rest is what becomes of a dead letter that nobody waits for.
func (s *Snapshot) rest() Plan {
	status := s.status()
	isNew := s.DeadLetter.Spec.IsDiscarded() && status.DiscardTime == nil
	if isNew {
		status.DiscardTime = new(metav1.NewTime(s.Now))
	}
	p := s.write(status, "")
	if isNew {
		p.Counts = []plan.Count{{Counter: CountDiscard}}
		p.Events = []plan.Event{{Reason: "Discarded", Action: "Discard", Note: s.DeadLetter.Spec.Discard.Reason}}
	}
	s.expire(&p, status)
	return p
}

// expire deletes a dead letter whose retention is over, once that is what its status says, and from a live read alone: somebody may
// have asked for another replay.
func (s *Snapshot) expire(p *Plan, status *v1alpha1.DeadLetterStatus) {
	retention, isLimited := s.DeadLetter.Spec.Retention(s.Retention)
	since, why := settled(status)
	if !isLimited || since == nil {
		return
	}
	if left := since.Add(retention).Sub(s.Now); left > 0 || p.Status != nil {
		p.Requeue = max(left, recordPause)
		return
	}
	if !s.Live {
		p.NeedsLive = true
		return
	}
	p.Delete = true
	p.Counts = []plan.Count{{Counter: CountExpired, Label: why}}
	p.Events = []plan.Event{{Reason: "RetentionOver", Action: "Delete",
		Note: "Deleted " + retention.String() + " after it was " + map[string]string{
			v1alpha1.ReasonDiscarded: "discarded", v1alpha1.ReasonReplayed: "replayed"}[why]}}
}

// settled is since when nothing is to be decided about a dead letter any more: somebody has discarded it, or its work has become
// that of another task, which has a dead letter of its own if it fails. nil: it waits for somebody. One whose last replay was
// refused does, too, whatever was replayed before.
func settled(status *v1alpha1.DeadLetterStatus) (since *time.Time, why string) {
	if status.DiscardTime != nil {
		return &status.DiscardTime.Time, v1alpha1.ReasonDiscarded
	}
	if n := len(status.Replays); n > 0 && status.Replays[n-1].Outcome == v1alpha1.ReplayCreated && status.Replays[n-1].Time != nil {
		return &status.Replays[n-1].Time.Time, v1alpha1.ReasonReplayed
	}
	return nil, ""
}
