package checker

import (
	"strings"
	"testing"
	"time"

	"github.com/leasehold-io/leasehold/test/faults/journal"
)

// TestEachRuleFindsItsViolation adds one wrong story to the clean evidence. Exactly its rule is broken, at that task.
func TestEachRuleFindsItsViolation(t *testing.T) {
	stranger := author{user: "system:serviceaccount:faults:default", podName: "stranger", podUID: "uid-stranger"}
	operator := author{user: operatorUser}
	tests := map[string]struct {
		want Rule
		tell func(tl *tale)
	}{
		"granted over a claimed term": {GrantOverOpen, func(tl *tale) {
			tl.begin()
			tl.begin()
			tl.succeed()
		}},
		"granted over a term that nobody has claimed": {GrantOverOpen, func(tl *tale) {
			tl.create()
			tl.grant()
			tl.begin()
			tl.succeed()
		}},
		"claimed twice": {OneClaim, func(tl *tale) {
			tl.begin()
			tl.patch(tl.me(), []string{claimPath}, func(_, annotations object) { annotations[claimAnnotation] = "other/lh-n1/" + tl.me().podUID })
			tl.succeed()
		}},
		"submitted twice": {OneSubmission, func(tl *tale) {
			tl.begin()
			tl.exit(1)
			tl.submit(tl.me(), "Failed")
			tl.submit(tl.me(), "Interrupted")
			tl.ended("Failed", "Submission")
			tl.record("Available")
			tl.begin()
			tl.succeed()
		}},
		"a submission removed": {Erased, func(tl *tale) {
			tl.begin()
			tl.exit(1)
			tl.submit(tl.me(), "Failed")
			tl.patch(operator, []string{submissionPath}, func(_, annotations object) { delete(annotations, submissionAnnotation) })
			tl.ended("Failed", "Submission")
			tl.record(deadLettered)
		}},
		"a claim removed": {Erased, func(tl *tale) {
			tl.begin()
			tl.exit(1)
			tl.patch(operator, []string{claimPath}, func(_, annotations object) { delete(annotations, claimAnnotation) })
			tl.revoke()
			tl.record(deadLettered)
		}},
		"claimed by another Pod": {ClaimByHolder, func(tl *tale) {
			tl.create()
			tl.grant()
			tl.record("Claimed")
			tl.claim(stranger)
			tl.wait(11 * time.Second)
			tl.revoke()
			tl.record(deadLettered)
		}},
		"renewed by another Pod": {RenewByClaimer, func(tl *tale) {
			tl.begin()
			tl.renew(stranger)
			tl.succeed()
		}},
		"renewed before any claim": {RenewByClaimer, func(tl *tale) {
			tl.create()
			tl.grant()
			tl.renew(tl.me())
			tl.record("Claimed")
			tl.claim(tl.me())
			tl.start()
			tl.succeed()
		}},
		"submitted by another Pod": {SubmitByClaimer, func(tl *tale) {
			tl.begin()
			tl.row()
			tl.exit(0)
			tl.submit(stranger, succeeded)
			tl.record(completed)
		}},
		"renewed after its submission": {ClosedTerm, func(tl *tale) {
			tl.begin()
			me := tl.me()
			tl.succeed()
			tl.renew(me)
		}},
		"renewed after it was revoked": {ClosedTerm, func(tl *tale) {
			tl.begin()
			tl.expire()
			tl.renew(tl.me())
			tl.record(deadLettered)
		}},
		"submitted after it was revoked": {ClosedTerm, func(tl *tale) {
			tl.begin()
			tl.expire()
			tl.submit(tl.me(), "Fenced")
			tl.ended("Disrupted", "Submission")
			tl.record(deadLettered)
		}},
		"a live holder revoked": {NoEarlyRevoke, func(tl *tale) {
			tl.begin()
			tl.wait(5 * time.Second)
			tl.revoke()
			tl.work(time.Second, tl.running)
			tl.record(deadLettered)
		}},
		"a token from nowhere": {TokenOfGrant, func(tl *tale) {
			tl.begin()
			tl.fail()
			tl.token++
			tl.record("Available")
			tl.begin()
			tl.succeed()
		}},
		"another Pod's token": {TokenOfGrant, func(tl *tale) {
			tl.create()
			tl.grant()
			tl.record("Claimed")
			holder := tl.holder
			tl.revoke()
			tl.grantAgain()
			fresh := tl.holder
			tl.holder = holder
			tl.record("Claimed")
			tl.holder = fresh
			tl.claim(tl.me())
			tl.start()
			tl.succeed()
		}},
		"completed, and then not": {PhaseFinal, func(tl *tale) {
			tl.begin()
			tl.succeed()
			tl.record("Available")
			tl.record(completed)
		}},
		"dead-lettered, and then granted": {PhaseFinal, func(tl *tale) {
			tl.begin()
			tl.fail()
			tl.record(deadLettered)
			tl.begin()
			tl.succeed()
		}},
		"an attempt counted down": {StatusNeverFalls, func(tl *tale) {
			tl.begin()
			tl.fail()
			tl.attempt = 0
			tl.record("Available")
			tl.attempt = 1
			tl.begin()
			tl.succeed()
		}},
		"completed without a submission": {CompletedBySubmission, func(tl *tale) {
			tl.begin()
			tl.exit(0)
			tl.revoke()
			tl.record(completed)
		}},
		"completed by a failure": {CompletedBySubmission, func(tl *tale) {
			tl.begin()
			tl.exit(1)
			tl.submit(tl.me(), "Failed")
			tl.ended("Failed", "Submission")
			tl.record(completed)
		}},
		"completed before the submission": {CompletedBySubmission, func(tl *tale) {
			tl.begin()
			tl.exit(0)
			tl.record(completed)
			tl.submit(tl.me(), succeeded)
		}},
		"a success lost": {SubmissionKept, func(tl *tale) {
			tl.begin()
			tl.exit(0)
			tl.submit(tl.me(), succeeded)
			tl.ended("Disrupted", "Observation")
			tl.record("Available")
			tl.begin()
			tl.succeed()
		}},
		"a failure lost": {SubmissionKept, func(tl *tale) {
			tl.begin()
			tl.exit(1)
			tl.submit(tl.me(), "Failed")
			tl.ended("Disrupted", "Observation")
			tl.record(deadLettered)
		}},
		"two Pods for an attempt": {OnePod, func(tl *tale) {
			tl.create()
			tl.grant()
			tl.makePod()
			tl.revoke()
			tl.grantAgain()
			tl.record("Claimed")
			tl.makePod()
			tl.claim(tl.me())
			tl.start()
			tl.succeed()
		}},
		"a Pod made after the claim": {OnePod, func(tl *tale) {
			tl.begin()
			tl.makePod()
			tl.succeed()
		}},
		"a task that does not end": {EveryTaskEnds, func(tl *tale) {
			tl.begin()
			tl.fail()
		}},
		"a command started twice": {OneStart, func(tl *tale) {
			tl.begin()
			first := tl.running
			tl.start()
			tl.running = append(tl.running, first...)
			tl.succeed()
		}},
		"started before the claim": {StartAfterClaim, func(tl *tale) {
			tl.create()
			tl.grant()
			tl.record("Claimed")
			tl.start()
			tl.wait(time.Second)
			tl.claim(tl.me())
			tl.succeed()
		}},
		"started without a claim": {StartAfterClaim, func(tl *tale) {
			tl.create()
			tl.grant()
			tl.record("Claimed")
			tl.start()
			tl.exit(1)
			tl.revoke()
			tl.record(deadLettered)
		}},
		"started under no term": {StartAfterClaim, func(tl *tale) {
			tl.begin()
			tl.exit(1)
			tl.token++
			tl.start()
			tl.exit(1)
			tl.token--
			tl.submit(tl.me(), "Failed")
			tl.ended("Failed", "Submission")
			tl.record(deadLettered)
		}},
		"a grandchild that outlives the submission": {DeadBeforeSubmission, func(tl *tale) {
			tl.begin()
			child := tl.running[1:]
			tl.succeed()
			tl.work(time.Second, child)
		}},
		"two attempts at once": {NoOverlap, func(tl *tale) {
			tl.begin()
			tl.work(4*time.Second, tl.running)
			first := tl.running
			tl.work(11*time.Second, first)
			tl.revoke()
			tl.ended("Disrupted", "Observation")
			tl.record("Available")
			tl.begin()
			tl.work(time.Second, first, tl.running)
			tl.succeed()
		}},
		"a grandchild beside the next attempt": {NoOverlap, func(tl *tale) {
			tl.begin()
			child := tl.running[1:]
			tl.work(11*time.Second, child)
			tl.revoke()
			tl.ended("Disrupted", "Observation")
			tl.record("Available")
			tl.begin()
			tl.work(time.Second, child, tl.running)
			tl.succeed()
		}},
		"two attempts at once, long after a freeze": {NoOverlap, func(tl *tale) {
			tl.begin()
			first := tl.running
			tl.wait(3 * time.Second)
			tl.work(15*time.Second, first)
			tl.revoke()
			tl.ended("Disrupted", "Observation")
			tl.record("Available")
			tl.begin()
			tl.work(time.Second, first, tl.running)
			tl.succeed()
		}},
		"an old token written over a new one": {RowsFenced, func(tl *tale) {
			tl.begin()
			old := Row{Task: tl.name, Attempt: 1, Token: tl.token}
			tl.fail()
			tl.begin()
			tl.e.Accepted = append(tl.e.Accepted, old)
			tl.succeed()
		}},
		"a row with a token from nowhere": {RowsOfTerms, func(tl *tale) {
			tl.begin()
			tl.e.Refused = append(tl.e.Refused, Row{Task: tl.name, Attempt: 1, Token: 7})
			tl.succeed()
		}},
		"completed, and another wrote last": {LastRowCompletes, func(tl *tale) {
			tl.begin()
			tl.fail()
			tl.create2nd()
			tl.exit(0)
			tl.submit(tl.me(), succeeded)
			tl.record(completed)
		}},
		"a claim that nobody made": {Complete, func(tl *tale) {
			tl.create()
			tl.grant()
			tl.record("Claimed")
			tl.wait(5 * time.Second)
			tl.hide(func() { tl.claim(tl.me()) })
			tl.wait(5 * time.Second)
			tl.start()
			tl.succeed()
		}},
		"a grant over something unseen": {Complete, func(tl *tale) {
			tl.begin()
			tl.exit(1)
			tl.wait(20 * time.Second)
			tl.hide(tl.revoke)
			tl.ended("Disrupted", "Observation")
			tl.record("Available")
			tl.wait(5 * time.Second)
			tl.begin()
			tl.succeed()
		}},
		"a success without a journal": {Complete, func(tl *tale) {
			tl.begin()
			tl.succeed()
			tl.procs = tl.procs[:len(tl.procs)-2]
		}},
		"a Lease of a task that nobody made": {Complete, func(tl *tale) {
			tl.grant()
			tl.revoke()
			tl.isGone = true
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := clean()
			tl := s.task("wrong")
			tc.tell(tl)
			expect(t, Check(s.evidence()), tc.want, "wrong", "uid-wrong", "")
		})
	}
	covered := map[Rule]bool{TokensRise: true} // see below
	for _, tc := range tests {
		covered[tc.want] = true
	}
	for _, r := range rules {
		if !covered[r.name] {
			t.Errorf("no story breaks the rule %s", r.name)
		}
	}
}

// create2nd begins a second attempt that writes no row.
func (tl *tale) create2nd() {
	tl.grant()
	tl.record("Claimed")
	tl.claim(tl.me())
	tl.start()
}

// expect wants violations of one rule, at a task of one of the names.
func expect(t *testing.T, report Report, want Rule, names ...string) {
	t.Helper()
	if len(report.Violations) == 0 {
		t.Fatalf("nothing was found, want a violation of %s", want)
	}
	for _, v := range report.Violations {
		isNamed := false
		for _, name := range names {
			isNamed = isNamed || v.Task == name
		}
		if v.Rule != want || !isNamed {
			t.Errorf("want %s only, got %s", want, v)
		}
		if strings.Contains(v.Evidence, "%!") || len(v.Evidence) < 20 {
			t.Errorf("the evidence is no sentence: %s", v.Evidence)
		}
	}
}

// Tokens of different tasks compare, too: an epoch must not fall from one task to the next.
func TestTokensRiseOverAllTasks(t *testing.T) {
	s := clean()
	above := s.task("above")
	above.epoch = 2
	above.begin()
	above.succeed()
	below := s.task("below")
	below.begin()
	below.succeed()
	expect(t, Check(s.evidence()), TokensRise, "below")
}

func TestATaskThatEndedAsAnotherTokenIsNotKept(t *testing.T) {
	s := clean()
	tl := s.task("changed")
	tl.begin()
	tl.succeed()
	tl.token++
	tl.rv++
	tl.status["fencingToken"] = tl.token // as read at the end; nobody wrote it
	report := Check(s.evidence())
	rules := map[Rule]bool{}
	for _, v := range report.Violations {
		rules[v.Rule] = true
	}
	if !rules[PhaseFinal] || !rules[SubmissionKept] || !rules[TokenOfGrant] {
		t.Errorf("%v", report.Violations)
	}
}

func TestIncompleteEvidenceIsAViolation(t *testing.T) {
	tests := map[string]func(*Evidence){
		"no audit log":                               func(e *Evidence) { e.Events = nil },
		"an audit log that begins late":              func(e *Evidence) { e.Covered.From = e.From.Add(time.Second) },
		"an audit log that ends early":               func(e *Evidence) { e.Covered.To = e.To.Add(-time.Second) },
		"no journals":                                func(e *Evidence) { e.Journals = nil },
		"no rows":                                    func(e *Evidence) { e.Accepted = nil },
		"no Leases at the end":                       func(e *Evidence) { e.LastLeases = nil },
		"no tasks at the end":                        func(e *Evidence) { e.LastTasks = nil },
		"a source that is damaged":                   func(e *Evidence) { e.Damaged = []string{"the disk of the journals was full"} },
		"the first half of the audit log is missing": func(e *Evidence) { e.Events = e.Events[len(e.Events)/2:] },
		"an object that is none":                     func(e *Evidence) { e.LastLeases = append(e.LastLeases, []byte(`{"metadata":{}}`)) },
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			e := clean().evidence()
			damage(&e)
			for _, v := range Check(e).Violations {
				if v.Rule == Complete {
					return
				}
			}
			t.Error("it was not noticed")
		})
	}
}

func TestAFreezeExplainsAnOverlapOnlyIfItIsLong(t *testing.T) {
	for pause, explained := range map[time.Duration]bool{FreezeAfter + time.Second: true, FreezeAfter / 2: false} {
		s := clean()
		tl := s.task("paused")
		tl.begin()
		first := tl.running
		s.work(10*time.Second, first)
		s.wait(pause)
		s.work(journal.Interval, first)
		tl.revoke()
		tl.ended("Disrupted", "Observation")
		tl.record("Available")
		tl.begin()
		s.work(time.Second, first, tl.running)
		tl.succeed()
		isFound := false
		for _, v := range Check(s.evidence()).Violations {
			isFound = isFound || v.Rule == NoOverlap
		}
		if isFound == explained {
			t.Errorf("a pause of %s: explained %v", pause, !isFound)
		}
	}
}
