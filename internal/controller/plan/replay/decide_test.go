package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// want is a plan in brief; the zero value does nothing.
type want struct {
	Live    bool
	Create  bool
	Last    int64  // lastRequest of the status, if one is written
	Record  string // the record that the plan adds: "N OUTCOME TASK"
	Ready   string // "STATUS/REASON" of each condition in the status
	Replay  string
	Recon   string
	Stalled string
	Events  string
	Counts  string
	Requeue time.Duration
}

func TestDecide(t *testing.T) {
	created := Answer{Name: "order-r1", UID: "task-9"}
	resting := want{Ready: "True/NotReplayed", Replay: "False/NotReplayed", Recon: "False/NotReconciling", Stalled: "False/NotStalled"}
	tests := map[string]struct {
		given []func(*Snapshot)
		want  want
	}{
		"a new dead letter says that it rests": {[]func(*Snapshot){fromCache}, resting},
		"one that is being deleted is left":    {[]func(*Snapshot){asks(1), func(s *Snapshot) { s.DeadLetter.DeletionTimestamp = new(metav1.NewTime(now)) }}, want{}},
		"a request is decided live":            {[]func(*Snapshot){asks(1), fromCache}, want{Live: true}},
		"a request makes a task":               {[]func(*Snapshot){asks(1)}, want{Create: true}},
		"a task that was made is recorded": {[]func(*Snapshot){asks(1), says(created)}, want{Last: 1, Record: "1 Created order-r1",
			Ready: "True/Replayed", Replay: "True/Replayed", Recon: "False/NotReconciling", Stalled: "False/NotStalled", Events: "Replayed", Counts: "replay Created"}},
		"the same request again does nothing": {[]func(*Snapshot){asks(1), answered(1, v1alpha1.ReplayCreated)}, want{Last: 1,
			Ready: "True/Replayed", Replay: "True/Replayed", Recon: "False/NotReconciling", Stalled: "False/NotStalled"}},
		"nor does a lower one": {[]func(*Snapshot){asks(1), answered(2, v1alpha1.ReplayCreated)}, want{Last: 2,
			Ready: "True/Replayed", Replay: "True/Replayed", Recon: "False/NotReconciling", Stalled: "False/NotStalled"}},
		"a higher one makes another": {[]func(*Snapshot){answered(1, v1alpha1.ReplayCreated), asks(5)}, want{Create: true}},
		"a final refusal answers the request": {[]func(*Snapshot){asks(1), says(Answer{Refusal: "exceeded quota", IsFinal: true})}, want{Last: 1, Record: "1 Refused ",
			Ready: "False/ReplayRefused", Replay: "False/ReplayRefused", Recon: "False/NotReconciling", Stalled: "True/ReplayRefused",
			Events: "ReplayRefused", Counts: "replay Refused"}},
		"a refusal after a replay leaves it Replayed": {[]func(*Snapshot){answered(1, v1alpha1.ReplayCreated), asks(2), says(Answer{Refusal: "no", IsFinal: true})},
			want{Last: 2, Record: "2 Refused ", Ready: "False/ReplayRefused", Replay: "True/Replayed", Recon: "False/NotReconciling", Stalled: "True/ReplayRefused",
				Events: "ReplayRefused", Counts: "replay Refused"}},
		"no answer leaves the request open": {[]func(*Snapshot){asks(1), says(Answer{Refusal: "timeout"})}, want{
			Ready: "False/ReplayPending", Replay: "False/ReplayPending", Recon: "True/ReplayPending", Stalled: "False/NotStalled", Requeue: pendingRetry}},
		"a patch that is none is refused, and makes nothing": {[]func(*Snapshot){asks(1, withPatch("[1, 2]"))}, want{Last: 1, Record: "1 Refused ",
			Ready: "False/ReplayRefused", Replay: "False/ReplayRefused", Recon: "False/NotReconciling", Stalled: "True/ReplayRefused",
			Events: "ReplayRefused", Counts: "replay Refused"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, same := given(test.given...), given(test.given...)
			p := Decide(s)
			if diff := cmp.Diff(test.want, brief(s, &p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(same, s); diff != "" {
				t.Errorf("the snapshot was changed:\n%s", diff)
			}
			if p.Status == nil {
				return
			}
			s.DeadLetter.Status = *p.Status
			if again := Decide(s); again.Status != nil || again.Create != nil {
				t.Errorf("once written, there is more to write: %s", cmp.Diff(p.Status, again.Status))
			}
		})
	}
}

func brief(s *Snapshot, p *Plan) want {
	w := want{Live: p.NeedsLive, Create: p.Create != nil, Requeue: p.Requeue}
	for _, e := range p.Events {
		w.Events += e.Reason
	}
	for _, c := range p.Counts {
		w.Counts += string(c.Counter) + " " + c.Label
	}
	if p.Status == nil {
		return w
	}
	w.Last = p.Status.LastRequest
	if n := len(p.Status.Replays); n > len(s.DeadLetter.Status.Replays) {
		r := p.Status.Replays[n-1]
		w.Record = fmt.Sprintf("%d %s %s", r.Request, r.Outcome, r.TaskName)
	}
	for _, c := range p.Status.Conditions {
		short := fmt.Sprintf("%s/%s", c.Status, c.Reason)
		switch c.Type {
		case v1alpha1.ConditionReady:
			w.Ready = short
		case v1alpha1.ConditionReplayed:
			w.Replay = short
		case v1alpha1.ConditionReconciling:
			w.Recon = short
		case v1alpha1.ConditionStalled:
			w.Stalled = short
		}
	}
	return w
}

// TestTheStatusIsBounded: many requests with long answers leave a status that the API server takes, and the last number.
func TestTheStatusIsBounded(t *testing.T) {
	s := given()
	for n := range int64(30) {
		asks(n + 1)(s)
		s.Answer = &Answer{Refusal: strings.Repeat("é", 3000), IsFinal: true}
		s.DeadLetter.Status = *Decide(s).Status
	}
	status := &s.DeadLetter.Status
	if len(status.Replays) != maxRecords || status.LastRequest != 30 || status.Replays[maxRecords-1].Request != 30 {
		t.Errorf("%d records, last request %d", len(status.Replays), status.LastRequest)
	}
	for _, r := range status.Replays {
		if len(r.Message) > 1024 {
			t.Errorf("a message of %d bytes", len(r.Message))
		}
	}
}
