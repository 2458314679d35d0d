package checker

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// clean is evidence with an event of every kind, and nothing wrong.
func clean() *scene {
	s := newScene()
	for _, tell := range []func(*scene){
		plain, retried, lost, frozen, continued, leaseDeleted, submissionLostWithLease, taskDeleted, unauditedClaim, doubtfulRenewal,
		givenUp, grantUnrecorded, podMadeAgain, repeatedSubmission, keyTaken,
	} {
		tell(s)
	}
	return s
}

func plain(s *scene) {
	tl := s.task("plain")
	tl.begin()
	tl.succeed()
}

// keyTaken is a task that takes a key whose answer is too old: a Lease that goes from holder to holder, and is no term.
func keyTaken(s *scene) {
	tl := s.task("keyed")
	key := func(verb string, code int, holder string, over any) {
		tl.rv++
		tl.event(leases, verb, "lh-key-1", code, author{user: operatorUser}, object{"metadata": object{"resourceVersion": over}}, object{"metadata": object{
			"name": "lh-key-1", "uid": "key-1", "creationTimestamp": tl.now.Truncate(time.Second), "resourceVersion": fmt.Sprint(tl.rv),
			"labels": object{taskLabel: tl.uid, keyLabel: "Idempotency"}}, "spec": object{"holderIdentity": holder}})
	}
	key("create", 201, "another", nil)
	key("update", 200, tl.uid, fmt.Sprint(tl.rv))
	tl.begin()
	tl.succeed()
}

func retried(s *scene) {
	tl := s.task("retried")
	tl.begin()
	tl.fail()
	tl.begin()
	tl.succeed()
}

func lost(s *scene) {
	tl := s.task("lost")
	tl.begin()
	tl.expire()
	tl.begin()
	tl.succeed()
}

func frozen(s *scene) {
	tl := s.task("frozen")
	tl.begin()
	first, holder, token := tl.running, tl.me(), tl.token
	tl.expire()
	tl.begin()
	s.work(time.Second, first, tl.running) // it wakes
	tl.e.Refused = append(tl.e.Refused, Row{Task: tl.name, Attempt: 1, Token: token})
	tl.refused(holder, renewPath)
	tl.refused(holder, submissionPath)
	tl.refused(holder, claimPath)
	tl.succeed()
}

func continued(s *scene) {
	tl := s.continuing("continued")
	tl.begin()
	first := tl.running
	s.work(11*time.Second, first)
	tl.revoke()
	tl.ended("Disrupted", "Observation")
	tl.record("Available")
	tl.begin()
	s.work(time.Second, first, tl.running)
	tl.succeed()
}

func leaseDeleted(s *scene) {
	tl := s.task("lease-deleted")
	tl.begin()
	tl.deleteLease()
	tl.wait(11 * time.Second)
	tl.begin()
	tl.succeed()
}

func submissionLostWithLease(s *scene) {
	tl := s.task("submission-lost")
	tl.begin()
	tl.exit(0)
	tl.submit(tl.me(), succeeded)
	tl.deleteLease()
	tl.wait(11 * time.Second)
	tl.ended("Disrupted", "Observation")
	tl.begin()
	tl.succeed()
}

func taskDeleted(s *scene) {
	tl := s.task("task-deleted")
	tl.begin()
	tl.delete()
}

// unauditedClaim: the API server is stopped between a claim and its line in the log.
func unauditedClaim(s *scene) {
	tl := s.task("unaudited")
	tl.create()
	tl.grant()
	tl.record("Claimed")
	tl.makePod()
	s.hide(func() { tl.claim(tl.me()) })
	s.e.Outages = append(s.e.Outages, Interval{From: s.now.Add(-time.Millisecond), To: s.now.Add(time.Second)})
	tl.start()
	tl.row()
	tl.work(2*time.Second, tl.running)
	tl.renew(tl.me())
	tl.succeed()
}

// hide takes what was done out of the log.
func (s *scene) hide(do func()) {
	before := len(s.e.Events)
	do()
	s.e.Events = s.e.Events[:before]
}

// doubtfulRenewal: a request ended without an answer, and had been carried out.
func doubtfulRenewal(s *scene) {
	tl := s.task("doubtful")
	tl.begin()
	tl.renew(tl.me())
	s.e.Events[len(s.e.Events)-1].ResponseStatus.Code = 504
	tl.succeed()
}

func givenUp(s *scene) {
	tl := s.task("given-up")
	tl.begin()
	tl.exit(1)
	tl.submit(tl.me(), "Failed")
	tl.ended("Failed", "Submission")
	tl.record(deadLettered)
}

// grantUnrecorded: the operator ended between a grant and its record.
func grantUnrecorded(s *scene) {
	tl := s.task("unrecorded")
	tl.create()
	tl.grant()
	tl.revoke()
	tl.grantAgain()
	tl.record("Claimed")
	tl.makePod()
	tl.claim(tl.me())
	tl.start()
	tl.succeed()
}

// podMadeAgain: somebody deleted the Pod before it claimed.
func podMadeAgain(s *scene) {
	tl := s.task("pod-again")
	tl.create()
	tl.grant()
	tl.record("Claimed")
	tl.makePod()
	tl.makePod()
	tl.claim(tl.me())
	tl.start()
	tl.succeed()
}

// repeatedSubmission: the answer was lost, the agent said the same again.
func repeatedSubmission(s *scene) {
	tl := s.task("repeated")
	tl.begin()
	tl.work(time.Second, tl.running)
	tl.row()
	tl.exit(0)
	tl.submit(tl.me(), succeeded)
	s.e.Events = append(s.e.Events, s.e.Events[len(s.e.Events)-1])
	tl.ended(succeeded, "Submission")
	tl.record(completed)
}

func TestCleanEvidenceHasNoViolation(t *testing.T) {
	report := Check(clean().evidence())
	for _, v := range report.Violations {
		t.Error(v)
	}
	counts := reflect.ValueOf(report.Counts)
	for i := range counts.NumField() {
		if counts.Field(i).Int() == 0 {
			t.Errorf("nothing was counted as %s: the clean evidence lacks it, or the count does", counts.Type().Field(i).Name)
		}
	}
	t.Logf("%+v", report.Counts)
}

func TestNothingIsNotFine(t *testing.T) {
	report := Check(Evidence{})
	if len(report.Violations) == 0 {
		t.Fatal("a checker that saw nothing says that all is well")
	}
	for _, v := range report.Violations {
		if v.Rule != Complete {
			t.Error(v)
		}
	}
}
