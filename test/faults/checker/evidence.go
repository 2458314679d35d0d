package checker

import (
	"encoding/json"
	"time"

	"github.com/leasehold-io/leasehold/test/faults/journal"
)

// Evidence is what independent witnesses saw of one namespace.
type Evidence struct {
	Namespace string
	// From is before the first task was made, To after the last look; the audit log must cover the time between.
	From, To time.Time

	Audit                        // the audit log, see ReadAudit
	LastLeases []json.RawMessage // the namespace's Leases as read at the end
	LastTasks  []json.RawMessage // its tasks
	Journals   []journal.Process
	Accepted   []Row // in commit order
	Refused    []Row
	Outages    []Interval // while the API server was stopped, from before it was told to until it answered again

	// Damaged says what of the sources could not be read.
	Damaged []string
}

// Interval is a time with its ends.
type Interval struct{ From, To time.Time }

func (i *Interval) extend(to time.Time) {
	if i.From.IsZero() || to.Before(i.From) {
		i.From = to
	}
	if to.After(i.To) {
		i.To = to
	}
}

func (i Interval) overlaps(from, to time.Time) bool { return !i.To.Before(from) && !i.From.After(to) }

// Row is what a worker wrote to the store, or wanted to.
type Row struct {
	Task    string
	Attempt int
	Token   int64
}

// Event is the part of an audit.k8s.io/v1 Event that is looked at.
type Event struct {
	Stage, Verb string
	User        struct {
		Username string
		Extra    map[string][]string
	}
	ObjectRef      struct{ Resource, APIGroup, Namespace, Name, Subresource string }
	ResponseStatus struct{ Code int }
	RequestObject  json.RawMessage
	ResponseObject json.RawMessage

	RequestReceivedTimestamp, StageTimestamp time.Time
}

func (e *Event) isAccepted() bool { return e.ResponseStatus.Code >= 200 && e.ResponseStatus.Code < 300 }

// isDoubtful is true for a request that may have been carried out although its answer does not say so: a server's error, a
// timeout, a client that went away.
func (e *Event) isDoubtful() bool {
	code := e.ResponseStatus.Code
	return code < 100 || code >= 500 || code == 408 || code == 499
}

// author is who made a request; a Pod is known by the extra attributes of its bound token.
type author struct{ user, podName, podUID string }

func (e *Event) author() author {
	first := func(key string) string {
		if values := e.User.Extra["authentication.kubernetes.io/"+key]; len(values) > 0 {
			return values[0]
		}
		return ""
	}
	return author{user: e.User.Username, podName: first("pod-name"), podUID: first("pod-uid")}
}

func (a author) String() string {
	if a.podName == "" {
		return a.user
	}
	return "Pod " + a.podName + " (" + a.podUID + ")"
}
