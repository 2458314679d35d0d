package checker

// The rules; the package's documentation says what each demands.
const (
	Complete              Rule = "Evidence"
	GrantOverOpen         Rule = "GrantOverOpen"
	OneClaim              Rule = "OneClaim"
	OneSubmission         Rule = "OneSubmission"
	Erased                Rule = "Erased"
	ClaimByHolder         Rule = "ClaimByHolder"
	RenewByClaimer        Rule = "RenewByClaimer"
	SubmitByClaimer       Rule = "SubmitByClaimer"
	ClosedTerm            Rule = "ClosedTerm"
	NoEarlyRevoke         Rule = "NoEarlyRevoke"
	TokenOfGrant          Rule = "TokenOfGrant"
	TokensRise            Rule = "TokensRise"
	PhaseFinal            Rule = "PhaseFinal"
	StatusNeverFalls      Rule = "StatusNeverFalls"
	CompletedBySubmission Rule = "CompletedBySubmission"
	SubmissionKept        Rule = "SubmissionKept"
	OnePod                Rule = "OnePod"
	EveryTaskEnds         Rule = "EveryTaskEnds"
	OneStart              Rule = "OneStart"
	StartAfterClaim       Rule = "StartAfterClaim"
	DeadBeforeSubmission  Rule = "DeadBeforeSubmission"
	NoOverlap             Rule = "NoOverlap"
	RowsFenced            Rule = "RowsFenced"
	RowsOfTerms           Rule = "RowsOfTerms"
	LastRowCompletes      Rule = "LastRowCompletes"
)

// rules are asked in this order. What was found while the evidence was put in order stands before them.
var rules = []struct {
	name  Rule
	check func(*world, Rule)
}{
	{Complete, isComplete},
	{GrantOverOpen, forMoves(grant, grantOverOpen)},
	{OneClaim, forTerms(atMostOne(claim))},
	{OneSubmission, forTerms(atMostOne(submit))},
	{Erased, forMoves(erase, erased)},
	{ClaimByHolder, forMoves(claim, claimByHolder)},
	{RenewByClaimer, forMoves(renew, byClaimer)},
	{SubmitByClaimer, forMoves(submit, byClaimer)},
	{ClosedTerm, forTerms(closedTerm)},
	{NoEarlyRevoke, forMoves(revoke, noEarlyRevoke)},
	{TokenOfGrant, forTasks(tokenOfGrant)},
	{TokensRise, tokensRise},
	{PhaseFinal, forTasks(phaseFinal)},
	{StatusNeverFalls, forTasks(statusNeverFalls)},
	{CompletedBySubmission, forTasks(completedBySubmission)},
	{SubmissionKept, forTerms(submissionKept)},
	{OnePod, onePod},
	{EveryTaskEnds, forTasks(everyTaskEnds)},
	{OneStart, forTasks(oneStart)},
	{StartAfterClaim, forTasks(startAfterClaim)},
	{DeadBeforeSubmission, forTerms(deadBeforeSubmission)},
	{NoOverlap, forTasks(noOverlap)},
	{RowsFenced, forTasks(rowsFenced)},
	{RowsOfTerms, forTasks(rowsOfTerms)},
	{LastRowCompletes, forTasks(lastRowCompletes)},
}

// found is how a check tells what is wrong.
type found func(format string, args ...any)

func forTasks(check func(*world, *task, found)) func(*world, Rule) {
	return func(w *world, name Rule) {
		for _, t := range w.tasks {
			check(w, t, func(format string, args ...any) { w.violate(name, t, format, args...) })
		}
	}
}

func forTerms(check func(*world, *task, *term, found)) func(*world, Rule) {
	return forTasks(func(w *world, t *task, f found) {
		for _, tm := range t.terms {
			check(w, t, tm, f)
		}
	})
}

// forMoves checks the moves of a kind that somebody is on record for.
func forMoves(kind moveKind, check func(*world, *term, *move, found)) func(*world, Rule) {
	return forTerms(func(w *world, _ *task, tm *term, f found) {
		for _, m := range tm.of(kind) {
			if !m.isHidden {
				check(w, tm, m, f)
			}
		}
	})
}

// isComplete finds sources that are empty or do not reach far enough: a checker that saw nothing must not say that all is well.
func isComplete(w *world, _ Rule) {
	for _, what := range w.Damaged {
		w.damaged("%s", what)
	}
	for _, source := range []struct {
		name string
		seen int
	}{
		{"the audit log", len(w.Events)}, {"the last Leases", len(w.LastLeases)}, {"the last tasks", len(w.LastTasks)},
		{"the journals", len(w.Journals)}, {"the rows", len(w.Accepted)},
	} {
		if source.seen == 0 {
			w.damaged("%s: nothing was seen", source.name)
		}
	}
	if w.From.IsZero() || w.Covered.From.After(w.From) {
		w.damaged("the audit log begins at %s, later than the run at %s", clock(w.Covered.From), clock(w.From))
	}
	if w.Covered.To.Before(w.To) {
		w.damaged("the audit log ends at %s, before the run at %s", clock(w.Covered.To), clock(w.To))
	}
	for _, t := range w.tasks {
		if !t.isAudited {
			w.violate(Complete, t, "it, or a Lease that names it, was seen, and no write to it is on record")
		}
		for _, tm := range t.terms {
			if m := tm.first(submit); m != nil && parseSubmission(m.after.submission).Outcome == succeeded && !w.hasJournal(t, tm) {
				w.violate(Complete, t, "attempt %d submitted a success, and its command wrote no journal to the end", tm.attempt)
			}
		}
	}
}

// hasJournal is true when the command of a term wrote that it ended well.
func (w *world) hasJournal(t *task, tm *term) bool {
	for _, l := range w.attempts[t.name] {
		for _, p := range l.processes {
			if tm.holder == l.pod && p.Exit != nil && *p.Exit == 0 {
				return true
			}
		}
	}
	return false
}
