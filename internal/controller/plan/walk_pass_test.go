package plan

import (
	"fmt"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// leader is the memory of one controller process: what it has observed, and what will wake it.
type leader struct {
	mark    string
	since   time.Time
	isDirty bool      // an event asks for a pass
	again   time.Time // a pass asked to be repeated; zero: none did
	judge   time.Time // the held term's timer; zero: none
}

// elect starts a new controller: its caches list anew, it has observed nothing, and every task is worth a pass.
func (w *world) elect() {
	w.leader = &leader{isDirty: true, mark: "unseen"}
	w.task.seen, w.term.seen, w.pods.seen = len(w.task.versions)-1, len(w.term.versions)-1, len(w.pods.versions)-1
	w.leader.see(w.term.live(), w.clock)
}

// see is what controller.Observer does with a record.
func (l *leader) see(term *fencing.Term, now time.Time) time.Time {
	mark := "absent"
	if term != nil {
		mark = term.Mark()
	}
	if mark != l.mark {
		l.mark, l.since, l.judge = mark, now, time.Time{}
		if term != nil && term.State() == fencing.Claimed {
			l.judge = now.Add(term.Duration)
		}
	}
	return l.since
}

func (l *leader) requeue(now time.Time, d time.Duration) {
	if at := now.Add(d); d > 0 && (l.again.IsZero() || at.Before(l.again)) {
		l.again = at
	}
}

// isDue reports whether something asks for a pass, and takes note that it comes.
func (l *leader) isDue(now time.Time) bool {
	isPast := func(at time.Time) bool { return !at.IsZero() && !now.Before(at) }
	due := l.isDirty || isPast(l.again) || isPast(l.judge)
	if isPast(l.again) {
		l.again = time.Time{}
	}
	if isPast(l.judge) {
		l.judge = time.Time{}
	}
	l.isDirty = false
	return due
}

// deliver brings the caches forward, by at most n versions of each kind. What a renewal alone changed asks for no pass.
func (w *world) deliver(tasks, terms, pods int) {
	if n := min(tasks, w.task.lag()); n > 0 {
		w.task.seen += n
		w.leader.isDirty = true
	}
	for range min(terms, w.term.lag()) {
		was := w.term.cached()
		w.term.seen++
		is := w.term.cached()
		w.leader.see(is, w.clock)
		if was == nil || is == nil || was.UID != is.UID || was.Attempt != is.Attempt || was.Holder != is.Holder || was.State() != is.State() {
			w.leader.isDirty = true
		}
	}
	if n := min(pods, w.pods.lag()); n > 0 {
		w.pods.seen += n
		w.leader.isDirty = true
	}
}

// parked is a pass of a controller that froze in the middle of it.
type parked struct {
	next func() (struct{}, bool)
	stop func()
}

// begin starts a pass. Each call of next takes it past one read or write.
func (w *world) begin() *parked {
	l := w.leader
	next, stop := iter.Pull(func(yield func(struct{}) bool) {
		w.reconcile(l, func() bool { return yield(struct{}{}) })
	})
	return &parked{next, stop}
}

func (w *world) reconcile(l *leader, goOn func() bool) {
	s := w.snapshot(w.task.cached(), w.term.cached(), w.pods.cached())
	s.Since = l.see(s.Term, s.Now)
	p := Decide(s)
	if p.NeedsLive() {
		task := w.task.live()
		if !goOn() {
			return
		}
		term := w.term.live()
		if !goOn() {
			return
		}
		s = w.snapshot(task, term, w.pods.live())
		s.Live, s.Since = true, l.see(s.Term, s.Now)
		if !goOn() {
			return
		}
		p = Decide(s)
	}
	w.execute(l, s, p, goOn)
}

func (w *world) snapshot(task *v1alpha1.LeasedTask, term *fencing.Term, pods []*corev1.Pod) *Snapshot {
	return &Snapshot{Now: w.clock, Task: task, Term: term, Pods: pods, Suffix: fmt.Sprintf("%06x", w.random.IntN(1<<24)), Jitter: w.random.Float64()}
}

// execute is what controller.execute does, and may stop or pause after every write.
func (w *world) execute(l *leader, s *Snapshot, p Plan, goOn func() bool) {
	w.ledger.rules[p.Rule]++
	switch {
	case p.Grant != nil:
		if s.GrantProblem = w.weather.problem; s.GrantProblem != nil {
			w.execute(l, s, Decide(s), goOn)
			return
		}
		token, ok := w.grant(p.Grant)
		w.note("rule %s grants attempt %d to %s: %t", p.Rule, p.Grant.Attempt, p.Grant.Holder, ok)
		if !ok {
			l.requeue(w.clock, time.Second)
			return
		}
		s.Term = w.term.live()
		p.Status = Granted(s, p.Grant, s.Term.UID, token)
		s.Since = l.see(s.Term, s.Now)
		if !goOn() {
			return
		}
	case p.Revoke != nil:
		ok := w.revoke(s.Term, p.Revoke.Expired)
		w.note("rule %s revokes: %t", p.Rule, ok)
		if !ok {
			l.requeue(w.clock, time.Second)
			return
		}
		if !goOn() {
			return
		}
	}
	if p.Status != nil {
		next, ok := w.writeStatus(s.Task, p.Status)
		w.note("rule %s writes status %s, attempt %d: %t", p.Rule, p.Status.Phase, p.Status.Attempt, ok)
		if !ok {
			l.requeue(w.clock, time.Second)
			return
		}
		s.Task = next
		if !goOn() {
			return
		}
	}
	if p.CreatePod {
		if s.PodRefusal = w.createPod(s.Task); s.PodRefusal != nil {
			w.execute(l, s, Decide(s), goOn)
			return
		}
		if !goOn() {
			return
		}
	}
	w.tidy(&p)
	if p.Watch > 0 {
		l.judge = w.clock.Add(p.Watch)
	}
	l.requeue(w.clock, p.Requeue)
}

func (w *world) tidy(p *Plan) {
	for _, pod := range p.DeletePods {
		w.note("rule %s deletes %s", p.Rule, pod.Name)
		w.checkDelete(pod)
		w.editPod(pod.UID, func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(w.clock)) })
	}
	for _, limit := range p.LimitPods {
		w.note("rule %s limits %s", p.Rule, limit.Pod.Name)
		w.checkDelete(limit.Pod)
		w.editPod(limit.Pod.UID, func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = &limit.Seconds })
	}
}
