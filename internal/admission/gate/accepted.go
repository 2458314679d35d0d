package gate

import "time"

// assumeFor is how long an accepted task counts as pending without being seen. A create can fail after it was accepted, by a
// quota for example; then nothing is ever seen of it.
const assumeFor = 30 * time.Second

// accepted are the tasks that were accepted and are not seen yet.
type accepted struct {
	tasks map[string]string // tenant by UID
	order []acceptance      // the oldest first; may name tasks that are seen by now
}

type acceptance struct {
	uid string
	at  time.Time
}

func (a *accepted) has(uid string) bool {
	_, is := a.tasks[uid]
	return is
}

func (a *accepted) add(t Task, now time.Time) {
	if a.tasks == nil {
		a.tasks = map[string]string{}
	}
	a.tasks[t.UID] = t.Tenant
	a.order = append(a.order, acceptance{uid: t.UID, at: now})
}

// remove takes one out, and reports whether it was there.
func (a *accepted) remove(uid string) (tenant string, was bool) {
	tenant, was = a.tasks[uid]
	delete(a.tasks, uid)
	return tenant, was
}

// overdue returns the task that was accepted longest ago if it is not to be waited for any more.
func (a *accepted) overdue(now time.Time) (uid string, is bool) {
	for len(a.order) > 0 {
		first := a.order[0]
		if a.has(first.uid) && now.Sub(first.at) < assumeFor {
			return "", false
		}
		a.order = a.order[1:]
		if a.has(first.uid) {
			return first.uid, true
		}
	}
	a.order = nil // what it grew to is given back
	return "", false
}
