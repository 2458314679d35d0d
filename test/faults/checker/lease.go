package checker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// sight is a Lease as somebody saw it: in the answer to a write, or at the end.
type sight struct {
	lease *leaseObject
	rv    int64
	event *Event // nil: it was only read
	over  string // the resourceVersion that an update named
}

// readLeases turns what was seen of the Leases into terms.
func (w *world) readLeases() {
	byUID := map[string][]sight{}
	for i := range w.Events {
		e := &w.Events[i]
		if e.ObjectRef.Resource != leases || !e.isAccepted() {
			continue
		}
		if e.Verb == "delete" {
			w.noteDeletion(e)
			continue
		}
		s := sight{event: e}
		var request leaseObject
		if e.Verb == "update" && json.Unmarshal(e.RequestObject, &request) == nil {
			s.over = request.Metadata.ResourceVersion
		}
		w.addSight(byUID, s, e.ResponseObject)
	}
	for _, raw := range w.LastLeases {
		w.addSight(byUID, sight{}, raw)
	}
	for _, seen := range byUID {
		slices.SortStableFunc(seen, func(a, b sight) int { return cmp.Compare(a.rv, b.rv) })
		w.walk(seen)
	}
	for _, t := range w.tasks {
		slices.SortStableFunc(t.terms, func(a, b *term) int { return cmp.Compare(a.grant().rv, b.grant().rv) })
	}
}

func (w *world) addSight(byUID map[string][]sight, s sight, raw json.RawMessage) {
	s.lease = &leaseObject{}
	if err := json.Unmarshal(raw, s.lease); err != nil {
		w.damaged("a Lease on record cannot be read: %v", err)
		return
	}
	rv, err := s.lease.Metadata.revision()
	if err != nil {
		w.damaged("a Lease on record has no resourceVersion: %.100s", raw)
		return
	}
	s.rv = rv
	if labels := s.lease.Metadata.Labels; labels[taskLabel] != "" && labels[keyLabel] == "" {
		byUID[s.lease.Metadata.UID] = append(byUID[s.lease.Metadata.UID], s)
	}
}

// noteDeletion reads the answer to a deletion: the object, or a Status that names its UID.
func (w *world) noteDeletion(e *Event) {
	var gone struct {
		Metadata meta
		Details  struct{ UID string }
	}
	_ = json.Unmarshal(e.ResponseObject, &gone)
	if uid := cmp.Or(gone.Details.UID, gone.Metadata.UID); uid != "" {
		w.deleted[uid] = e.RequestReceivedTimestamp
	}
}

// walk follows one Lease from write to write.
func (w *world) walk(seen []sight) {
	lease := seen[0].lease
	t := w.taskOf(lease.Metadata.Labels[taskLabel])
	var before state
	var rv int64
	at := lease.Metadata.CreationTimestamp
	for _, s := range seen {
		if s.rv == rv {
			continue // a repeat that changed nothing, or a read
		}
		until := w.To
		var own touched
		isBlind := false
		if s.event != nil {
			until, own = s.event.StageTimestamp, touches(s.event)
			isBlind = (s.event.Verb == "create") != (rv == 0) || s.over != "" && s.over != fmt.Sprint(rv)
		}
		after := s.lease.state()
		hidden := after.without(own, before)
		if hidden != before || isBlind {
			hiddenUntil := until
			if rv == 0 {
				hiddenUntil = at.Add(time.Second) // it was created in this second
			}
			w.unaudited(t, s.lease, before, hidden, at, hiddenUntil)
			w.apply(t, s, before, hidden, func(m *move) { m.isHidden = true })
		}
		w.apply(t, s, hidden, after, func(m *move) { m.isBlind = isBlind })
		before, rv, at = after, s.rv, until
	}
}

// unaudited judges a change that nobody on record made.
func (w *world) unaudited(t *task, lease *leaseObject, before, after state, from, to time.Time) {
	w.report.Counts.Unaudited++
	if !w.mayHide(lease.Metadata.Name, from, to) {
		w.violate(Complete, t, "Lease %s went from %q to %q, or was written at least, between %s and %s without a request on record",
			lease.Metadata.Name, before, after, clock(from), clock(to))
	}
}

// mayHide is true when a write to a Lease may be missing from the audit log.
func (w *world) mayHide(lease string, from, to time.Time) bool {
	for _, o := range w.Outages {
		if o.overlaps(from, to) {
			return true
		}
	}
	for i := range w.Events {
		e := &w.Events[i]
		if e.ObjectRef.Resource == leases && e.ObjectRef.Name == lease && e.isDoubtful() &&
			(Interval{e.RequestReceivedTimestamp, e.StageTimestamp}).overlaps(from, to) {
			return true
		}
	}
	return false
}

// apply adds the steps of a change to the terms of a task.
func (w *world) apply(t *task, s sight, before, after state, mark func(*move)) {
	for _, m := range steps(before, after) {
		m.rv = s.rv
		if s.event != nil {
			m.received, m.done, m.by = s.event.RequestReceivedTimestamp, s.event.StageTimestamp, s.event.author()
		}
		mark(&m)
		uid := s.lease.Metadata.UID
		if m.kind == grant {
			t.terms = append(t.terms, &term{task: t.uid, lease: uid, attempt: s.lease.Spec.LeaseTransitions, holder: m.after.holder,
				duration: time.Duration(s.lease.Spec.LeaseDurationSeconds) * time.Second, deleted: w.deleted[uid]})
		}
		if n := len(t.terms); n > 0 {
			t.terms[n-1].moves = append(t.terms[n-1].moves, m)
		}
	}
}
