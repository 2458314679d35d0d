package checker

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold-io/leasehold/test/faults/journal"
)

// Rule names what must hold; see the package's documentation.
type Rule string

// Violation is a broken rule and the evidence for it, in one sentence.
type Violation struct {
	Rule     Rule
	Task     string
	Evidence string
}

func (v Violation) String() string { return fmt.Sprintf("%s: task %s: %s", v.Rule, v.Task, v.Evidence) }

// Report is the verdict.
type Report struct {
	Violations []Violation
	Counts     Counts
}

// Check judges the evidence. Violations are in the order of the tasks' names, and of the rules for each.
func Check(e Evidence) Report {
	w := &world{Evidence: e, byUID: map[string]*task{}, byName: map[string]*task{}, deleted: map[string]time.Time{}}
	w.readTasks()
	w.readLeases()
	w.readJournals()
	w.readPods()
	for _, r := range rules {
		r.check(w, r.name)
	}
	w.count()
	slices.SortStableFunc(w.report.Violations, func(a, b Violation) int { return cmp.Compare(a.Task, b.Task) })
	return w.report
}

// world is the evidence, put in order.
type world struct {
	Evidence
	tasks   []*task
	byUID   map[string]*task
	byName  map[string]*task
	deleted map[string]time.Time // by UID, Leases and tasks alike
	pods    []podMade
	// attempts are the processes of each task and token, in the order in which they started.
	attempts map[string][]*lifetime
	report   Report
}

type podMade struct {
	name string
	at   time.Time
}

func (w *world) violate(rule Rule, t *task, format string, args ...any) {
	name := ""
	if t != nil {
		name = t.name
	}
	w.report.Violations = append(w.report.Violations, Violation{Rule: rule, Task: name, Evidence: fmt.Sprintf(format, args...)})
}

func (w *world) damaged(format string, args ...any) { w.violate(Complete, nil, format, args...) }

func (w *world) readPods() {
	for i := range w.Events {
		if e := &w.Events[i]; e.ObjectRef.Resource == pods && e.Verb == "create" && e.isAccepted() {
			w.pods = append(w.pods, podMade{name: e.ObjectRef.Name, at: e.RequestReceivedTimestamp})
		}
	}
}

// FreezeAfter is the pause between two beats of a process that says: it was not running.
const FreezeAfter = 2 * time.Second

// lifetime is what the processes of one attempt wrote about themselves.
type lifetime struct {
	attempt   int
	token     int64
	pod       string
	processes []journal.Process
}

func (l *lifetime) started() time.Time { return l.processes[0].Started }

// lastSeen is when the last of its processes was seen running.
func (l *lifetime) lastSeen() (last time.Time) {
	for i := range l.processes {
		if at := l.processes[i].LastSeen(); at.After(last) {
			last = at
		}
	}
	return last
}

// wokeAfter is true when one of its processes was frozen, and woke after the given time.
func (l *lifetime) wokeAfter(t time.Time) bool {
	for i := range l.processes {
		for _, pause := range l.processes[i].Pauses(FreezeAfter) {
			if pause.To.After(t) {
				return true
			}
		}
	}
	return false
}

// readJournals groups the processes of each attempt: those of one task that were given one token.
func (w *world) readJournals() {
	w.attempts = map[string][]*lifetime{}
	for _, p := range w.Journals {
		all := w.attempts[p.Task]
		i := slices.IndexFunc(all, func(l *lifetime) bool { return l.token == p.Token && l.pod == p.Pod })
		if i < 0 {
			i = len(all)
			all = append(all, &lifetime{attempt: p.Attempt, token: p.Token, pod: p.Pod})
		}
		all[i].processes = append(all[i].processes, p)
		w.attempts[p.Task] = all
	}
}
