package replay

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// maxRecords bounds status.replays.
const maxRecords = 20

// status is a copy of the dead letter's status to build the next one from.
func (s *Snapshot) status() *v1alpha1.DeadLetterStatus {
	status := s.DeadLetter.Status.DeepCopy()
	status.ObservedGeneration = s.DeadLetter.Generation
	return status
}

// record appends the answer to the open request, and returns it for the rest to be filled in.
func (s *Snapshot) record(status *v1alpha1.DeadLetterStatus, outcome v1alpha1.ReplayOutcome) *v1alpha1.ReplayRecord {
	status.LastRequest = s.DeadLetter.Spec.Replay.Request
	status.Replays = append(status.Replays, v1alpha1.ReplayRecord{Request: status.LastRequest, Outcome: outcome, Time: new(metav1.NewTime(s.Now))})
	if extra := len(status.Replays) - maxRecords; extra > 0 {
		status.Replays = status.Replays[extra:]
	}
	return &status.Replays[len(status.Replays)-1]
}

// setConditions computes all conditions, in the form that kstatus reads: a dead letter at rest is Ready, one whose last request
// was refused is Stalled.
func (s *Snapshot) setConditions(status *v1alpha1.DeadLetterStatus, pending string) {
	set := func(kind string, holds bool, reason, message string) {
		value := metav1.ConditionFalse
		if holds {
			value = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: value, Reason: reason, Message: bounded(message),
			ObservedGeneration: status.ObservedGeneration, LastTransitionTime: metav1.NewTime(s.Now),
		})
	}
	reason, message := s.summary(status, pending)
	if made := lastCreated(status); made != nil {
		set(v1alpha1.ConditionReplayed, true, v1alpha1.ReasonReplayed, madeBy(made))
	} else {
		set(v1alpha1.ConditionReplayed, false, reason, message)
	}
	if status.DiscardTime != nil {
		set(v1alpha1.ConditionDiscarded, true, v1alpha1.ReasonDiscarded, s.DeadLetter.Spec.Discard.Reason)
	} else {
		set(v1alpha1.ConditionDiscarded, false, v1alpha1.ReasonNotDiscarded, "")
	}
	isStalled, isPending := reason == v1alpha1.ReasonReplayRefused, reason == v1alpha1.ReasonReplayPending
	set(v1alpha1.ConditionReady, !isStalled && !isPending, reason, message)
	set(v1alpha1.ConditionReconciling, isPending, cmp.Or(only(isPending, reason), v1alpha1.ReasonNotReconciling), only(isPending, message))
	set(v1alpha1.ConditionStalled, isStalled, cmp.Or(only(isStalled, reason), v1alpha1.ReasonNotStalled), only(isStalled, message))
}

// summary says how the dead letter stands.
func (s *Snapshot) summary(status *v1alpha1.DeadLetterStatus, pending string) (reason, message string) {
	n := len(status.Replays)
	switch {
	case pending != "":
		return v1alpha1.ReasonReplayPending, "the API server could not answer yet: " + pending
	case status.DiscardTime != nil:
		return v1alpha1.ReasonDiscarded, s.DeadLetter.Spec.Discard.Reason
	case n == 0:
		return v1alpha1.ReasonNotReplayed, "no replay was asked for"
	case status.Replays[n-1].Outcome == v1alpha1.ReplayRefused:
		return v1alpha1.ReasonReplayRefused, fmt.Sprintf("request %d made nothing: %s", status.Replays[n-1].Request, status.Replays[n-1].Message)
	}
	return v1alpha1.ReasonReplayed, madeBy(&status.Replays[n-1])
}

func madeBy(record *v1alpha1.ReplayRecord) string {
	return fmt.Sprintf("request %d made LeasedTask %s", record.Request, record.TaskName)
}

// lastCreated is the latest record of a task that was made; nil: none was.
func lastCreated(status *v1alpha1.DeadLetterStatus) *v1alpha1.ReplayRecord {
	for i := len(status.Replays) - 1; i >= 0; i-- {
		if status.Replays[i].Outcome == v1alpha1.ReplayCreated {
			return &status.Replays[i]
		}
	}
	return nil
}

func only(holds bool, text string) string {
	if holds {
		return text
	}
	return ""
}

// bounded is a message that fits the schema.
func bounded(message string) string { return fencing.Truncate(message, 1024) }
