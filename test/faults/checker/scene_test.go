package checker

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold-io/leasehold/test/faults/journal"
)

// scene makes evidence as a cluster would, event by event.
type scene struct {
	e     Evidence
	rv    int64
	now   time.Time
	tales []*tale
	procs []*journal.Process
}

// tale is the story of one task.
type tale struct {
	*scene
	name, uid string
	spec      object
	lease     object // as stored; nil: there is none
	leaseUID  string
	attempt   int
	holder    string
	epoch     int64
	token     int64
	status    object
	history   []any
	running   []*journal.Process
	isGone    bool
}

type object = map[string]any

const operatorUser = "system:serviceaccount:leasehold-system:leasehold-manager"

func newScene() *scene {
	s := &scene{rv: 100, now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)}
	s.e.Namespace, s.e.From = "faults", s.now
	s.e.Covered.From = s.now.Add(-time.Second)
	return s
}

func (s *scene) wait(d time.Duration) { s.now = s.now.Add(d) }

func encode(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// evidence ends the scene.
func (s *scene) evidence() Evidence {
	s.wait(time.Second)
	s.e.To = s.now
	s.e.Covered.To = s.now.Add(time.Second)
	for _, p := range s.procs {
		s.e.Journals = append(s.e.Journals, *p)
	}
	for _, tl := range s.tales {
		if !tl.isGone {
			s.e.LastTasks = append(s.e.LastTasks, encode(tl.object()))
			if tl.lease != nil {
				s.e.LastLeases = append(s.e.LastLeases, encode(tl.lease))
			}
		}
	}
	return s.e
}

func (s *scene) event(resource, verb, name string, code int, by author, request, response any) *Event {
	var e Event
	e.Stage, e.Verb, e.ResponseStatus.Code = "ResponseComplete", verb, code
	e.User.Username = by.user
	if by.podName != "" {
		e.User.Extra = map[string][]string{
			"authentication.kubernetes.io/pod-name": {by.podName}, "authentication.kubernetes.io/pod-uid": {by.podUID}}
	}
	e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name = resource, "faults", name
	e.RequestObject, e.ResponseObject = encode(request), encode(response)
	e.RequestReceivedTimestamp = s.now
	s.wait(5 * time.Millisecond)
	e.StageTimestamp = s.now
	s.e.Events = append(s.e.Events, e)
	return &s.e.Events[len(s.e.Events)-1]
}

func (s *scene) task(name string) *tale {
	tl := &tale{scene: s, name: name, uid: "uid-" + name, epoch: 1, spec: object{"lease": object{}}, status: object{}}
	s.tales = append(s.tales, tl)
	return tl
}

func (s *scene) continuing(name string) *tale {
	tl := s.task(name)
	tl.spec = object{"lease": object{"onRenewalFailure": "Continue"}}
	return tl
}

func (tl *tale) object() object {
	return object{"metadata": object{"name": tl.name, "uid": tl.uid, "resourceVersion": fmt.Sprint(tl.rv)}, "spec": tl.spec, "status": tl.status}
}

// create makes the task, and the operator accepts it.
func (tl *tale) create() {
	tl.rv++
	tl.event(tasks, "create", tl.name, 201, author{user: "admin"}, nil, tl.object())
	tl.record("Available")
}

// record writes the status.
func (tl *tale) record(phase string) {
	tl.rv++
	tl.status = object{"phase": phase, "attempt": tl.attempt, "fencingToken": tl.token, "holder": object{"podName": tl.holder}, "history": tl.history}
	tl.event(tasks, "patch", tl.name, 200, author{user: operatorUser}, nil, tl.object()).ObjectRef.Subresource = "status"
}

// ended puts the attempt into the history.
func (tl *tale) ended(outcome, evidence string) {
	tl.history = append(tl.history, object{"attempt": tl.attempt, "fencingToken": tl.token, "outcome": outcome, "evidence": evidence})
}

func (tl *tale) pod(attempt int) author {
	name := fmt.Sprintf("%s-%d-x%d", tl.name, attempt, len(tl.history))
	if attempt == tl.attempt {
		name = tl.holder
	}
	return author{user: "system:serviceaccount:faults:default", podName: name, podUID: "uid-" + name}
}

func (tl *tale) me() author { return tl.pod(tl.attempt) }

func (tl *tale) claimOf(a author) string { return "nonce/lh-n1/" + a.podUID }

// stored changes the Lease as the API server would.
func (tl *tale) stored(change func(meta, spec, annotations object)) object {
	tl.rv++
	next := object{}
	if err := json.Unmarshal(encode(tl.lease), &next); err != nil {
		panic(err)
	}
	meta := next["metadata"].(object)
	change(meta, next["spec"].(object), meta["annotations"].(object))
	meta["resourceVersion"] = fmt.Sprint(tl.rv)
	tl.lease = next
	return next
}

// grant writes the next attempt to the Lease, over whatever stands there.
func (tl *tale) grant() {
	tl.attempt++
	tl.grantAgain()
}

func (tl *tale) grantAgain() {
	tl.holder = fmt.Sprintf("%s-%d-%d", tl.name, tl.attempt, tl.rv)
	verb, code := "update", 200
	var over any
	if tl.lease == nil {
		verb, code = "create", 201
		tl.leaseUID = fmt.Sprintf("lease-%s-%d", tl.name, tl.rv)
		tl.lease = object{"metadata": object{"name": "lh-" + tl.name, "uid": tl.leaseUID, "creationTimestamp": tl.now.Truncate(time.Second), "labels": object{taskLabel: tl.uid}}, "spec": object{}}
	} else {
		over = tl.lease["metadata"].(object)["resourceVersion"]
	}
	tl.lease["metadata"].(object)["annotations"] = object{"leasehold.io/task-name": tl.name}
	response := tl.stored(func(_, spec, _ object) {
		spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"] = tl.holder, 10, tl.attempt
		delete(spec, "renewTime")
	})
	tl.token = tl.epoch<<44 | tl.rv
	tl.event(leases, verb, "lh-"+tl.name, code, author{user: operatorUser}, object{"metadata": object{"resourceVersion": over}}, response)
}

func (tl *tale) makePod() {
	tl.event(pods, "create", tl.holder, 201, author{user: operatorUser}, nil, nil)
}

// patch is one accepted JSON patch of the Lease.
func (tl *tale) patch(by author, paths []string, change func(spec, annotations object)) *Event {
	operations := []object{{"op": "test", "path": "/spec/holderIdentity"}}
	for _, path := range paths {
		operations = append(operations, object{"op": "add", "path": path})
	}
	response := tl.stored(func(_, spec, annotations object) { change(spec, annotations) })
	return tl.event(leases, "patch", "lh-"+tl.name, 200, by, operations, response)
}

const (
	holderPath     = "/spec/holderIdentity"
	renewPath      = "/spec/renewTime"
	claimPath      = "/metadata/annotations/leasehold.io~1claim"
	submissionPath = "/metadata/annotations/leasehold.io~1submission"
)

func (tl *tale) claim(by author) {
	tl.patch(by, []string{claimPath, renewPath}, func(spec, annotations object) {
		annotations[claimAnnotation], spec["renewTime"] = tl.claimOf(by), tl.now.String()
	})
}

func (tl *tale) renew(by author) {
	tl.patch(by, []string{renewPath}, func(spec, _ object) { spec["renewTime"] = tl.now.String() })
}

func (tl *tale) said(outcome string) string {
	return string(encode(object{"token": tl.token, "outcome": outcome}))
}

func (tl *tale) submit(by author, outcome string) {
	tl.patch(by, []string{submissionPath}, func(_, annotations object) { annotations[submissionAnnotation] = tl.said(outcome) })
}

func (tl *tale) revoke() {
	tl.patch(author{user: operatorUser}, []string{holderPath}, func(spec, _ object) { spec["holderIdentity"] = "" })
}

func (tl *tale) refused(by author, path string) {
	tl.event(leases, "patch", "lh-"+tl.name, 422, by, []object{{"op": "add", "path": path}}, object{"kind": "Status"})
}

func (tl *tale) deleteLease() {
	tl.event(leases, "delete", "lh-"+tl.name, 200, author{user: "admin"}, nil, object{"kind": "Status", "details": object{"uid": tl.leaseUID}})
	tl.lease = nil
}

func (tl *tale) delete() {
	tl.event(tasks, "delete", tl.name, 200, author{user: "admin"}, nil, object{"kind": "Status", "details": object{"uid": tl.uid}})
	tl.isGone = true
}

// start begins the command and its child.
func (tl *tale) start() {
	tl.running = nil
	for _, role := range []string{journal.Main, journal.Child} {
		p := &journal.Process{Start: journal.Start{Task: tl.name, Attempt: tl.attempt, Token: tl.token, Pod: tl.holder, Role: role},
			Started: tl.now, Beats: []time.Time{tl.now}}
		tl.procs = append(tl.procs, p)
		tl.running = append(tl.running, p)
	}
}

// work lets processes beat, and leaves the others silent.
func (s *scene) work(d time.Duration, processes ...[]*journal.Process) {
	for end := s.now.Add(d); s.now.Before(end); s.wait(journal.Interval) {
		for _, group := range processes {
			for _, p := range group {
				p.Beats = append(p.Beats, s.now)
			}
		}
	}
}

func (tl *tale) exit(code int) {
	for _, p := range tl.running {
		p.Beats, p.Exit = append(p.Beats, tl.now), &code
	}
	tl.wait(10 * time.Millisecond)
}

func (tl *tale) row() {
	tl.e.Accepted = append(tl.e.Accepted, Row{Task: tl.name, Attempt: tl.attempt, Token: tl.token})
}

// begin is an attempt from its grant to its first row.
func (tl *tale) begin() {
	if len(tl.status) == 0 {
		tl.create()
	}
	tl.grant()
	tl.record("Claimed")
	tl.makePod()
	tl.claim(tl.me())
	tl.start()
	tl.row()
	tl.work(time.Second, tl.running)
	tl.record("Running")
	tl.renew(tl.me())
}

// succeed is the rest of an attempt that ends well.
func (tl *tale) succeed() {
	tl.work(time.Second, tl.running)
	tl.row()
	tl.exit(0)
	tl.submit(tl.me(), succeeded)
	tl.ended(succeeded, "Submission")
	tl.record(completed)
}

func (tl *tale) fail() {
	tl.exit(1)
	tl.submit(tl.me(), "Failed")
	tl.ended("Failed", "Submission")
	tl.record("Available")
}

// expire is the end of an attempt that fell silent.
func (tl *tale) expire() {
	tl.wait(11 * time.Second)
	tl.revoke()
	tl.ended("Disrupted", "Observation")
	tl.record("Expired")
	tl.record("Available")
}
