package checker

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"
)

// task is what was seen of one LeasedTask.
type task struct {
	uid, name string
	continues bool // onRenewalFailure: Continue
	terms     []*term
	statuses  []recorded // in the order of the writes
	isDeleted bool
	isAudited bool // a write to it is on record
}

// recorded is a task's status as it was written or read.
type recorded struct {
	taskStatus
	rv int64
	at time.Time
}

func (t *task) last() (last recorded) {
	if n := len(t.statuses); n > 0 {
		last = t.statuses[n-1]
	}
	return last
}

// completion is the first status that says Completed; nil if none does.
func (t *task) completion() *recorded {
	for i := range t.statuses {
		if t.statuses[i].Phase == completed {
			return &t.statuses[i]
		}
	}
	return nil
}

// termOf is the term of a token; nil if there is none.
func (t *task) termOf(token int64) *term {
	for _, tm := range t.terms {
		if tm.hasToken(token) {
			return tm
		}
	}
	return nil
}

// durationOf is the lease duration of an attempt.
func (t *task) durationOf(l *lifetime) time.Duration {
	for _, tm := range t.terms {
		if tm.holder == l.pod {
			return tm.duration
		}
	}
	return 0
}

// hasHiddenGrant is true when a term's token cannot be known, because its grant is not on record.
func (t *task) hasHiddenGrant() bool {
	return slices.ContainsFunc(t.terms, func(tm *term) bool { return tm.grant().isHidden })
}

func (w *world) taskOf(uid string) *task {
	t := w.byUID[uid]
	if t == nil {
		t = &task{uid: uid, name: uid}
		w.byUID[uid] = t
		w.tasks = append(w.tasks, t)
	}
	return t
}

// readTasks collects the statuses of all tasks.
func (w *world) readTasks() {
	for i := range w.Events {
		e := &w.Events[i]
		switch {
		case e.ObjectRef.Resource != tasks || !e.isAccepted():
		case e.Verb == "delete":
			w.noteDeletion(e)
		default:
			w.addTask(e.ResponseObject, e.StageTimestamp, true)
		}
	}
	for _, raw := range w.LastTasks {
		w.addTask(raw, w.To, false)
	}
	for _, t := range w.tasks {
		slices.SortStableFunc(t.statuses, func(a, b recorded) int { return cmp.Compare(a.rv, b.rv) })
		_, t.isDeleted = w.deleted[t.uid]
	}
}

func (w *world) addTask(raw json.RawMessage, at time.Time, isAudited bool) {
	var object taskObject
	if err := json.Unmarshal(raw, &object); err != nil {
		w.damaged("a task on record cannot be read: %v", err)
		return
	}
	rv, err := object.Metadata.revision()
	if err != nil {
		w.damaged("a task on record has no resourceVersion: %.100s", raw)
		return
	}
	t := w.taskOf(object.Metadata.UID)
	t.name, t.isAudited = object.Metadata.Name, t.isAudited || isAudited
	t.continues = object.Spec.Lease.OnRenewalFailure == "Continue"
	w.byName[t.name] = t
	t.statuses = append(t.statuses, recorded{taskStatus: object.Status, rv: rv, at: at})
}
