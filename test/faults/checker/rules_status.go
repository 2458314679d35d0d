package checker

import "slices"

func tokenOfGrant(_ *world, t *task, f found) {
	var checked int64
	for _, s := range t.statuses {
		if s.FencingToken == checked {
			continue
		}
		checked = s.FencingToken
		tm := t.termOf(checked)
		switch {
		case tm == nil && t.hasHiddenGrant():
		case tm == nil:
			f("the status of revision %d has the token %d, and no grant has the revision %d", s.rv, checked, lowBits(checked))
		case tm.holder != s.Holder.PodName || tm.attempt != s.Attempt:
			f("the status of revision %d says attempt %d of Pod %s with token %d, which was granted as attempt %d to %s",
				s.rv, s.Attempt, s.Holder.PodName, checked, tm.attempt, tm.holder)
		}
	}
}

// tokensRise compares the tokens of all tasks: they guard rows that tasks may share.
func tokensRise(w *world, name Rule) {
	type record struct {
		rv, token int64
		task      *task
	}
	var all []record
	for _, t := range w.tasks {
		for _, s := range t.statuses {
			if tm := t.termOf(s.FencingToken); tm != nil {
				all = append(all, record{tm.grant().rv, s.FencingToken, t})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b record) int { return int(a.rv - b.rv) })
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; b.rv > a.rv && b.token <= a.token {
			w.violate(name, b.task, "its grant of revision %d has the token %d, and the grant before it, of task %s, has %d", b.rv, b.token, a.task.name, a.token)
		}
	}
}

func isFinal(phase string) bool { return phase == completed || phase == deadLettered }

func phaseFinal(_ *world, t *task, f found) {
	for i := 1; i < len(t.statuses); i++ {
		was, is := t.statuses[i-1], t.statuses[i]
		if isFinal(was.Phase) && (is.Phase != was.Phase || is.FencingToken != was.FencingToken) {
			f("it was %s with token %d at revision %d, and %s with token %d at revision %d", was.Phase, was.FencingToken, was.rv, is.Phase, is.FencingToken, is.rv)
		}
	}
}

func statusNeverFalls(_ *world, t *task, f found) {
	for i := 1; i < len(t.statuses); i++ {
		was, is := t.statuses[i-1], t.statuses[i]
		if is.FencingToken < was.FencingToken || is.Attempt < was.Attempt {
			f("attempt %d with token %d at revision %d was followed by attempt %d with token %d at revision %d",
				was.Attempt, was.FencingToken, was.rv, is.Attempt, is.FencingToken, is.rv)
		}
	}
}

func completedBySubmission(_ *world, t *task, f found) {
	done := t.completion()
	if done == nil {
		return
	}
	tm := t.termOf(done.FencingToken)
	if tm == nil {
		return // TokenOfGrant says so
	}
	m := tm.first(submit)
	if m == nil {
		f("it was Completed at revision %d by attempt %d, which submitted nothing", done.rv, tm.attempt)
		return
	}
	s := parseSubmission(m.after.submission)
	if s.Outcome != succeeded || s.Token != done.FencingToken || m.rv >= done.rv && !m.isHidden {
		f("it was Completed at revision %d with token %d; what its attempt %d submitted at revision %d is %q with token %d",
			done.rv, done.FencingToken, tm.attempt, m.rv, s.Outcome, s.Token)
	}
}

// submissionKept: an accepted submission is never lost, unless its Lease was deleted with it.
func submissionKept(w *world, t *task, tm *term, f found) {
	m := tm.first(submit)
	if m == nil || t.isDeleted || tm.grant().isHidden || tm.isRecorded(t, parseSubmission(m.after.submission).Outcome) {
		return
	}
	if !tm.deleted.IsZero() {
		w.report.Counts.LostWithLease++
		return
	}
	f("attempt %d (%s) submitted %s at revision %d, and the status never said so; at the end it is %q with token %d",
		tm.attempt, tm.holder, m.after.submission, m.rv, t.last().Phase, t.last().FencingToken)
}

// isRecorded is true when the status told of what the term's holder submitted.
func (tm *term) isRecorded(t *task, outcome string) bool {
	if outcome == succeeded {
		return t.last().Phase == completed && tm.hasToken(t.last().FencingToken)
	}
	for _, s := range t.statuses {
		for _, h := range s.History {
			if h.Attempt == tm.attempt && tm.hasToken(h.FencingToken) && h.Evidence == "Submission" {
				return true
			}
		}
	}
	return false
}

func everyTaskEnds(_ *world, t *task, f found) {
	if last := t.last(); t.isAudited && !t.isDeleted && !isFinal(last.Phase) {
		f("at the end it is %q, in attempt %d", last.Phase, last.Attempt)
	}
}

func onePod(w *world, name Rule) {
	holders := map[string]*term{}
	for _, t := range w.tasks {
		for _, tm := range t.terms {
			holders[tm.holder] = tm
		}
	}
	type attempt struct {
		task   string
		number int64
	}
	names := map[attempt]string{}
	for _, p := range w.pods {
		tm := holders[p.name]
		if tm == nil {
			w.violate(name, nil, "Pod %s was made at %s, and no term names it", p.name, clock(p.at))
			continue
		}
		t, of := w.byUID[tm.task], attempt{tm.task, tm.attempt}
		if other := names[of]; other != "" && other != p.name {
			w.violate(name, t, "attempt %d has the Pods %s and %s", tm.attempt, other, p.name)
		}
		names[of] = p.name
		if m := tm.first(claim); m != nil && !m.isHidden && p.at.After(m.done) {
			w.violate(name, t, "Pod %s was made at %s, after a claim in its name at %s", p.name, clock(p.at), clock(m.received))
		}
	}
}
