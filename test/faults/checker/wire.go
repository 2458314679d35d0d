package checker

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Names on the wire. They are spelled out here on purpose: a checker that took them from the operator would err with it.
const (
	leases = "leases"
	tasks  = "leasedtasks"
	pods   = "pods"

	taskLabel            = "leasehold.io/task" // its value is the task's UID
	keyLabel             = "leasehold.io/key"  // of a Lease that is no term
	claimAnnotation      = "leasehold.io/claim"
	submissionAnnotation = "leasehold.io/submission"

	completed    = "Completed"
	deadLettered = "DeadLettered"
	succeeded    = "Succeeded"

	epochShift = 44
)

type meta struct {
	Name, UID, ResourceVersion string
	CreationTimestamp          time.Time
	Labels, Annotations        map[string]string
}

func (m *meta) revision() (int64, error) { return strconv.ParseInt(m.ResourceVersion, 10, 64) }

type leaseObject struct {
	Metadata meta
	Spec     struct {
		HolderIdentity, RenewTime              string
		LeaseDurationSeconds, LeaseTransitions int64
	}
}

type taskObject struct {
	Metadata meta
	Spec     struct {
		Lease struct{ OnRenewalFailure string }
	}
	Status taskStatus
}

type taskStatus struct {
	Phase        string
	Attempt      int64
	FencingToken int64
	Holder       struct{ PodName string }
	History      []historyEntry
}

type historyEntry struct {
	Attempt           int64
	FencingToken      int64
	Outcome, Evidence string
}

// submission is what an agent writes.
type submission struct {
	Token   int64
	Outcome string
}

func parseSubmission(raw string) (s submission) {
	_ = json.Unmarshal([]byte(raw), &s) // what cannot be read names no token
	return s
}

// state is what of a Lease the protocol speaks of.
type state struct {
	holder, claim, submission, renewed string
}

func (s state) isOpen() bool { return s.holder != "" && s.submission == "" }

func (s state) String() string {
	switch {
	case s.submission != "":
		return "submitted " + s.submission
	case s.holder == "":
		return "revoked"
	case s.claim != "":
		return "claimed by " + s.claim
	default:
		return "granted to " + s.holder
	}
}

func (l *leaseObject) state() state {
	return state{holder: l.Spec.HolderIdentity, claim: l.Metadata.Annotations[claimAnnotation],
		submission: l.Metadata.Annotations[submissionAnnotation], renewed: l.Spec.RenewTime}
}

// podUIDOf is the last part of a claim: nonce/node/pod UID.
func podUIDOf(claim string) string { return claim[strings.LastIndexByte(claim, '/')+1:] }

// touched says what of a Lease a request wrote by itself.
type touched struct{ holder, claim, submission, renewed bool }

var everything = touched{true, true, true, true}

// touches reads a request. A patch that is no list of operations may write anything.
func touches(e *Event) touched {
	var operations []struct{ Op, Path string }
	if e.Verb != "patch" || json.Unmarshal(e.RequestObject, &operations) != nil {
		return everything
	}
	var t touched
	for _, o := range operations {
		if o.Op == "test" {
			continue
		}
		switch o.Path {
		case "/spec/holderIdentity":
			t.holder = true
		case "/spec/renewTime":
			t.renewed = true
		case "/metadata/annotations/leasehold.io~1claim":
			t.claim = true
		case "/metadata/annotations/leasehold.io~1submission":
			t.submission = true
		case "", "/metadata", "/metadata/annotations", "/spec":
			return everything
		}
	}
	return t
}

// without is the state with what a request wrote set back to what stood there before: the work of somebody else.
func (s state) without(t touched, before state) state {
	if t.holder {
		s.holder = before.holder
	}
	if t.claim {
		s.claim = before.claim
	}
	if t.submission {
		s.submission = before.submission
	}
	if t.renewed {
		s.renewed = before.renewed
	}
	return s
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

func lowBits(token int64) int64 { return token & (1<<epochShift - 1) }
