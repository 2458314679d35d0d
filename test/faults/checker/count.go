package checker

// Counts say how much the verdict rests on.
type Counts struct {
	Tasks, Completed, DeadLettered, Deleted int

	Terms, Claims, Renewals, Submissions, Successes, Revokes int
	// RefusedSubmissions are requests, repeats included; RefusedClaims and RefusedRenewals too.
	RefusedSubmissions, RefusedClaims, RefusedRenewals int

	LeasesDeleted int
	// LostWithLease are submissions that went with a Lease that somebody deleted.
	LostWithLease int
	// Unaudited are writes seen in their effect only.
	Unaudited int

	Pods, Commands, Processes, Beats, Freezes int
	// OverlapsOfFrozen and OverlapsOfContinue are pairs of attempts that a freeze, or the task's own wish, explains.
	OverlapsOfFrozen, OverlapsOfContinue int

	AcceptedRows, RefusedRows int
}

func (w *world) count() {
	c := &w.report.Counts
	c.Tasks, c.Pods, c.Processes = len(w.tasks), len(w.pods), len(w.Journals)
	c.AcceptedRows, c.RefusedRows = len(w.Accepted), len(w.Refused)
	deletedLeases := map[string]bool{}
	for _, t := range w.tasks {
		switch last := t.last(); {
		case last.Phase == completed:
			c.Completed++
		case last.Phase == deadLettered:
			c.DeadLettered++
		case t.isDeleted:
			c.Deleted++
		}
		c.Commands += len(w.attempts[t.name])
		c.Terms += len(t.terms)
		for _, tm := range t.terms {
			c.Claims += len(tm.of(claim))
			c.Renewals += len(tm.of(renew))
			c.Submissions += len(tm.of(submit))
			c.Revokes += len(tm.of(revoke))
			if m := tm.first(submit); m != nil && parseSubmission(m.after.submission).Outcome == succeeded {
				c.Successes++
			}
			if !tm.deleted.IsZero() {
				deletedLeases[tm.lease] = true
			}
		}
	}
	c.LeasesDeleted = len(deletedLeases)
	for i := range w.Journals {
		c.Beats += len(w.Journals[i].Beats)
		c.Freezes += len(w.Journals[i].Pauses(FreezeAfter))
	}
	w.countRefusals()
}

// countRefusals reads what agents were told no to: proof that they spoke too late.
func (w *world) countRefusals() {
	c := &w.report.Counts
	for i := range w.Events {
		e := &w.Events[i]
		if e.ObjectRef.Resource != leases || e.isAccepted() || e.isDoubtful() || e.author().podName == "" {
			continue
		}
		switch t := touches(e); {
		case t == everything:
		case t.submission:
			c.RefusedSubmissions++
		case t.claim:
			c.RefusedClaims++
		case t.renewed:
			c.RefusedRenewals++
		}
	}
}
