package checker

import "github.com/leasehold-io/leasehold/test/faults/journal"

func oneStart(w *world, t *task, f found) {
	starts := map[int64]int{}
	for _, l := range w.attempts[t.name] {
		for _, p := range l.processes {
			if p.Role == journal.Main {
				starts[l.token]++
				if starts[l.token] == 2 {
					f("the command of attempt %d (token %d) started again at %s, in Pod %s", l.attempt, l.token, clock(p.Started), l.pod)
				}
			}
		}
	}
}

func startAfterClaim(w *world, t *task, f found) {
	if t.hasHiddenGrant() {
		return
	}
	for _, l := range w.attempts[t.name] {
		tm := t.termOf(l.token)
		if tm == nil || tm.holder != l.pod {
			f("a command started at %s in Pod %s with token %d, and no term was granted so", clock(l.started()), l.pod, l.token)
			continue
		}
		m := tm.first(claim)
		switch {
		case m == nil:
			f("the command of attempt %d started at %s in Pod %s, which never claimed", l.attempt, clock(l.started()), l.pod)
		case !m.isHidden && l.started().Before(m.received):
			f("the command of attempt %d started at %s in Pod %s, before its claim at %s", l.attempt, clock(l.started()), l.pod, clock(m.received))
		}
	}
}

func deadBeforeSubmission(w *world, t *task, tm *term, f found) {
	m := tm.first(submit)
	if m == nil || m.isHidden {
		return
	}
	for _, l := range w.attempts[t.name] {
		if l.pod == tm.holder && l.lastSeen().After(m.received) {
			f("attempt %d (%s) submitted at %s, and a process of it was seen at %s", tm.attempt, tm.holder, clock(m.received), clock(l.lastSeen()))
		}
	}
}

func noOverlap(w *world, t *task, f found) {
	all := w.attempts[t.name]
	for _, earlier := range all {
		for _, later := range all {
			if later.token <= earlier.token || !later.started().Before(earlier.lastSeen()) {
				continue
			}
			switch {
			case t.continues:
				w.report.Counts.OverlapsOfContinue++
			case earlier.wokeAfter(later.started().Add(-t.durationOf(earlier))):
				w.report.Counts.OverlapsOfFrozen++
			default:
				f("attempt %d started at %s, and a process of attempt %d was seen at %s and had not been frozen",
					later.attempt, clock(later.started()), earlier.attempt, clock(earlier.lastSeen()))
			}
		}
	}
}

func rowsFenced(w *world, t *task, f found) {
	var highest int64
	for _, r := range w.Accepted {
		if r.Task != t.name {
			continue
		}
		if r.Token < highest {
			f("a row with token %d was accepted after one with %d", r.Token, highest)
			return
		}
		highest = r.Token
	}
}

func rowsOfTerms(w *world, t *task, f found) {
	if t.hasHiddenGrant() {
		return
	}
	checked := map[int64]bool{}
	for _, rows := range [][]Row{w.Accepted, w.Refused} {
		for _, r := range rows {
			if r.Task == t.name && !checked[r.Token] && t.termOf(r.Token) == nil {
				f("a row of attempt %d carries the token %d, which was never granted", r.Attempt, r.Token)
			}
			checked[r.Token] = checked[r.Token] || r.Task == t.name
		}
	}
}

func lastRowCompletes(w *world, t *task, f found) {
	done := t.completion()
	if done == nil {
		return
	}
	var last Row
	for _, r := range w.Accepted {
		if r.Task == t.name {
			last = r
		}
	}
	if last.Token != done.FencingToken {
		f("it was Completed with token %d, and its last row has the token %d", done.FencingToken, last.Token)
	}
}
