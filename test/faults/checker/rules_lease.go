package checker

func grantOverOpen(_ *world, tm *term, m *move, f found) {
	if m.before.isOpen() && !m.isBlind {
		f("attempt %d was granted to %s at revision %d over a term %s", tm.attempt, tm.holder, m.rv, m.before)
	}
}

func atMostOne(kind moveKind) func(*world, *task, *term, found) {
	return func(_ *world, _ *task, tm *term, f found) {
		if all := tm.of(kind); len(all) > 1 {
			f("attempt %d (%s) has %d accepted writes of kind %s, at revision %d and again at %d", tm.attempt, tm.holder, len(all), kind, all[0].rv, all[1].rv)
		}
	}
}

func erased(_ *world, tm *term, m *move, f found) {
	f("attempt %d (%s): %s removed claim or submission of a term %s at revision %d", tm.attempt, tm.holder, m.by, m.before, m.rv)
}

func claimByHolder(_ *world, tm *term, m *move, f found) {
	if m.by.podName != m.before.holder || m.by.podUID != podUIDOf(m.after.claim) {
		f("attempt %d (%s): %s wrote the claim %s at revision %d", tm.attempt, m.before.holder, m.by, m.after.claim, m.rv)
	}
}

// byClaimer: whoever renews or submits is the Pod that the claim names.
func byClaimer(_ *world, tm *term, m *move, f found) {
	if m.before.claim == "" || m.by.podUID != podUIDOf(m.before.claim) {
		f("attempt %d (%s): %s made a %s at revision %d, and the claim is %q", tm.attempt, tm.holder, m.by, m.kind, m.rv, m.before.claim)
	}
}

func closedTerm(_ *world, _ *task, tm *term, f found) {
	for i := range tm.moves {
		m := &tm.moves[i]
		switch m.kind {
		case claim, renew:
			if m.before.isOpen() {
				continue
			}
		case submit: // a second submission has a rule of its own
			if m.before.holder != "" || m.before.submission != "" {
				continue
			}
		case grant, revoke, erase:
			continue
		}
		f("attempt %d (%s): a %s was accepted at revision %d when the term was already %s", tm.attempt, tm.holder, m.kind, m.rv, m.before)
	}
}

// noEarlyRevoke finds a live holder that was fenced: revoked within the lease duration, with processes that beat on.
func noEarlyRevoke(w *world, tm *term, m *move, f found) {
	var alive *move
	for i := range tm.moves {
		if k := tm.moves[i].kind; tm.moves[i].rv < m.rv && (k == claim || k == renew) {
			alive = &tm.moves[i]
		}
	}
	if alive == nil || alive.isHidden || m.done.Sub(alive.received) >= tm.duration {
		return
	}
	for _, l := range w.attempts[w.byUID[tm.task].name] {
		if l.pod == tm.holder && l.lastSeen().After(m.done) {
			f("attempt %d (%s) was revoked at %s, %s after its last renewal, and a process of it was seen at %s",
				tm.attempt, tm.holder, clock(m.received), m.received.Sub(alive.received), clock(l.lastSeen()))
		}
	}
}
