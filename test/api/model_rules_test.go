package api

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// edge is a change of phase.
type edge struct{ From, To v1alpha1.Phase }

// ledger is the abstract model of one task: what each written status must be, given the one before it and what the API server
// took from workers. It knows nothing of Leases, Pods and time.
type ledger struct {
	mu sync.Mutex
	// floor is the highest token of the task's ancestors.
	floor int64
	// said is what the API server accepted as submission, by token.
	said map[int64]fencing.Outcome
	// leaseDeleted: somebody deleted the task's Lease, and with it what stood there.
	leaseDeleted bool

	last     *v1alpha1.LeasedTask // as last written
	edges    map[edge]int
	problems []string
}

func newLedger(floor int64) *ledger {
	return &ledger{floor: floor, said: map[int64]fencing.Outcome{}, edges: map[edge]int{}}
}

func (l *ledger) accepted(token int64, outcome fencing.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said[token] = outcome
}

func (l *ledger) problemf(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// wrote takes the next version of the task, as the API server tells it.
func (l *ledger) wrote(next *v1alpha1.LeasedTask) {
	l.mu.Lock()
	defer l.mu.Unlock()
	prev := l.last
	if prev == nil {
		prev = &v1alpha1.LeasedTask{}
	}
	was, is := &prev.Status, &next.Status
	if !isListed(was.Phase, is.Phase) {
		l.problemf("%s to %s is no transition of the published table", was.Phase, is.Phase)
	}
	if was.Phase != is.Phase {
		l.edges[edge{was.Phase, is.Phase}]++
	}
	l.checkGrant(was, next)
	l.checkBudgets(was, next)
	l.checkEnd(was, next)
	l.checkConditions(next)
	l.last = next.DeepCopy()
}

// isListed looks into the table itself.
func isListed(from, to v1alpha1.Phase) bool {
	return from == to || slices.ContainsFunc(plan.Transitions, func(t plan.Transition) bool { return t.From == from && t.To == to })
}

// checkGrant: a new attempt is the next one, under a token above all before it, with budget left, and not while its owner wants
// nothing to run. One that is recorded because it has spoken already began before that.
func (l *ledger) checkGrant(was *v1alpha1.LeasedTaskStatus, next *v1alpha1.LeasedTask) {
	is := &next.Status
	isNew := is.Phase == v1alpha1.PhaseClaimed && was.Phase != v1alpha1.PhaseClaimed
	switch {
	case !isNew && (is.FencingToken != was.FencingToken || is.Attempt != was.Attempt):
		l.problemf("attempt %d under token %d became attempt %d under %d in phase %s", was.Attempt, was.FencingToken, is.Attempt, is.FencingToken, is.Phase)
	case !isNew:
	case is.Attempt != was.Attempt+1:
		l.problemf("attempt %d follows attempt %d", is.Attempt, was.Attempt)
	case is.FencingToken <= max(was.FencingToken, l.floor):
		l.problemf("token %d is not above %d, nor the ancestor's %d", is.FencingToken, was.FencingToken, l.floor)
	case is.Failures >= next.Spec.Retry.Attempts() || is.Disruptions > next.Spec.Retry.ForgivenDisruptions():
		l.problemf("attempt %d begins after %d failures and %d disruptions", is.Attempt, is.Failures, is.Disruptions)
	case (next.Spec.IsSuspended() || next.Spec.IsCancelled()) && l.said[is.FencingToken] == "":
		l.problemf("attempt %d begins though the task is suspended or cancelled", is.Attempt)
	}
}

// checkBudgets: an attempt is charged once, with its entry in the history, to the budget that its outcome names.
func (l *ledger) checkBudgets(was *v1alpha1.LeasedTaskStatus, next *v1alpha1.LeasedTask) {
	is := &next.Status
	want := [2]int32{was.Failures, was.Disruptions}
	switch len(is.History) - len(was.History) {
	case 0:
	case 1:
		entry := is.History[len(is.History)-1]
		if isAttached(is) && was.Phase == v1alpha1.PhaseAvailable && entry.Attempt == was.Attempt+1 && entry.FencingToken == 0 {
			break // another task of its key had done the work
		}
		if entry.Attempt != was.Attempt || entry.FencingToken != was.FencingToken || entry.Reason == "" || entry.EndTime == nil ||
			was.Phase != v1alpha1.PhaseClaimed && was.Phase != v1alpha1.PhaseRunning {
			l.problemf("the entry %+v was made in phase %s of attempt %d under token %d", entry, was.Phase, was.Attempt, was.FencingToken)
		}
		switch entry.Outcome {
		case v1alpha1.AttemptFailed:
			want[0]++
		case v1alpha1.AttemptDisrupted:
			want[1]++
		case v1alpha1.AttemptSucceeded, v1alpha1.AttemptStopped:
		}
	default:
		l.problemf("the history grew from %d to %d entries in one write", len(was.History), len(is.History))
	}
	if got := [2]int32{is.Failures, is.Disruptions}; got != want {
		l.problemf("failures and disruptions are %v, want %v", got, want)
	}
	for i := range min(len(was.History), len(is.History)) {
		if old, now := was.History[i], is.History[i]; old.Attempt != now.Attempt || old.Outcome != now.Outcome || old.Reason != now.Reason || old.FencingToken != now.FencingToken {
			l.problemf("the history was changed: %+v became %+v", old, now)
		}
	}
}

// isAttached reports whether the task was completed by another one's work: a replay by that of another replay. What that result is
// worth is for the ledger of that one.
func isAttached(is *v1alpha1.LeasedTaskStatus) bool {
	n := len(is.History)
	return n > 0 && is.History[n-1].Reason == plan.ReasonAttached && is.History[n-1].Evidence == v1alpha1.EvidenceKey
}

// checkEnd: there is one end, it is what the API server took from the worker or what the owner asked for, and it stays.
func (l *ledger) checkEnd(was *v1alpha1.LeasedTaskStatus, next *v1alpha1.LeasedTask) {
	is := &next.Status
	successes := 0
	for _, entry := range is.History {
		if entry.Outcome == v1alpha1.AttemptSucceeded {
			successes++
		}
	}
	isCompleted := is.Phase == v1alpha1.PhaseCompleted
	hadTerm := was.Phase == v1alpha1.PhaseClaimed || was.Phase == v1alpha1.PhaseRunning
	isOver := hadTerm && is.Phase != v1alpha1.PhaseClaimed && is.Phase != v1alpha1.PhaseRunning
	if was.Phase.IsFinished() && (is.Phase != was.Phase || len(is.History) != len(was.History) || !is.CompletionTime.Equal(was.CompletionTime)) {
		l.problemf("the task was %s and was changed: %+v", was.Phase, is)
	}
	if is.Phase.IsFinished() != (is.CompletionTime != nil) || is.Phase.IsFinished() && is.NextAttemptTime != nil {
		l.problemf("phase %s with completionTime %v, nextAttemptTime %v", is.Phase, is.CompletionTime, is.NextAttemptTime)
	}
	if isCompleted != (successes == 1) || successes > 1 || isCompleted != (is.Result != nil) {
		l.problemf("phase %s with %d successes, result %v", is.Phase, successes, is.Result)
	}
	if isCompleted && !isAttached(is) && (l.said[is.FencingToken] != fencing.Succeeded || *is.Result != fmt.Sprint(is.FencingToken)) {
		l.problemf("Completed under token %d with result %q, and its worker said %q", is.FencingToken, *is.Result, l.said[is.FencingToken])
	}
	if isOver && !isCompleted && l.said[was.FencingToken] == fencing.Succeeded && !l.leaseDeleted {
		l.problemf("the API server took a success under token %d, and the task is %s", was.FencingToken, is.Phase)
	}
	if is.Phase == v1alpha1.PhaseCancelled && was.Phase != is.Phase && !next.Spec.IsCancelled() {
		l.problemf("Cancelled, and nobody asked for it")
	}
	if is.Phase == v1alpha1.PhaseDeadLettered && is.DeadLetterName == "" {
		l.problemf("DeadLettered without a dead letter")
	}
}

// checkConditions: they agree with the phase, all of them, in every version.
func (l *ledger) checkConditions(next *v1alpha1.LeasedTask) {
	phase := next.Status.Phase
	if phase == "" {
		return
	}
	for kind, want := range map[string]bool{
		v1alpha1.ConditionFinished:    phase.IsFinished(),
		v1alpha1.ConditionReady:       phase == v1alpha1.PhaseCompleted || phase == v1alpha1.PhaseCancelled,
		v1alpha1.ConditionReconciling: !phase.IsFinished(),
		v1alpha1.ConditionStalled:     phase == v1alpha1.PhaseDeadLettered,
		v1alpha1.ConditionSucceeded:   phase == v1alpha1.PhaseCompleted,
	} {
		if meta.IsStatusConditionTrue(next.Status.Conditions, kind) != want {
			l.problemf("condition %s is %v in phase %s", kind, !want, phase)
		}
	}
}

// TestTheModelOfATaskFindsWhatMustNotHappen breaks each of its rules once.
func TestTheModelOfATaskFindsWhatMustNotHappen(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	write := func(l *ledger, change func(*v1alpha1.LeasedTask)) {
		next := &v1alpha1.LeasedTask{}
		if l.last != nil {
			next = l.last.DeepCopy()
		}
		change(next)
		phase := next.Status.Phase
		for kind, holds := range map[string]bool{
			v1alpha1.ConditionFinished: phase.IsFinished(), v1alpha1.ConditionReady: phase == v1alpha1.PhaseCompleted || phase == v1alpha1.PhaseCancelled,
			v1alpha1.ConditionReconciling: !phase.IsFinished(), v1alpha1.ConditionStalled: phase == v1alpha1.PhaseDeadLettered,
			v1alpha1.ConditionSucceeded: phase == v1alpha1.PhaseCompleted,
		} {
			value := metav1.ConditionFalse
			if holds {
				value = metav1.ConditionTrue
			}
			meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{Type: kind, Status: value})
		}
		l.wrote(next)
	}
	// A life that breaks no rule: a failure, then a success.
	grant := func(token int64) func(*v1alpha1.LeasedTask) {
		return func(t *v1alpha1.LeasedTask) {
			t.Status.Phase, t.Status.Attempt, t.Status.FencingToken = v1alpha1.PhaseClaimed, t.Status.Attempt+1, token
		}
	}
	end := func(phase v1alpha1.Phase, outcome v1alpha1.AttemptOutcome) func(*v1alpha1.LeasedTask) {
		return func(t *v1alpha1.LeasedTask) {
			st := &t.Status
			st.Phase = phase
			st.History = append(st.History, v1alpha1.AttemptRecord{Attempt: st.Attempt, FencingToken: st.FencingToken, Outcome: outcome, Reason: "R", EndTime: &now})
			switch outcome {
			case v1alpha1.AttemptFailed:
				st.Failures++
			case v1alpha1.AttemptDisrupted:
				st.Disruptions++
			case v1alpha1.AttemptSucceeded:
				st.Result = new(fmt.Sprint(st.FencingToken))
			case v1alpha1.AttemptStopped:
			}
			if phase.IsFinished() {
				st.CompletionTime = &now
			}
		}
	}
	accept := func(t *v1alpha1.LeasedTask) { t.Status.Phase = v1alpha1.PhaseAvailable }
	failure, success := end(v1alpha1.PhaseAvailable, v1alpha1.AttemptFailed), end(v1alpha1.PhaseCompleted, v1alpha1.AttemptSucceeded)
	attached := func(t *v1alpha1.LeasedTask) {
		success(t)
		t.Status.History[0] = v1alpha1.AttemptRecord{Attempt: 1, Outcome: v1alpha1.AttemptSucceeded, Reason: plan.ReasonAttached, Evidence: v1alpha1.EvidenceKey, EndTime: &now}
	}
	lives := map[string][]func(*v1alpha1.LeasedTask){
		"":                           {accept, grant(10), failure, grant(12), success},
		"was made in phase Claimed":  {accept, grant(10), attached},
		"no transition":              {accept, func(t *v1alpha1.LeasedTask) { t.Status.Phase = v1alpha1.PhaseRunning }},
		"is not above":               {accept, grant(10), failure, grant(10)},
		"follows attempt":            {accept, grant(10), failure, grant(11), failure, func(t *v1alpha1.LeasedTask) { grant(14)(t); t.Status.Attempt++ }},
		"ancestor's":                 {accept, grant(5)},
		"became attempt":             {accept, grant(10), func(t *v1alpha1.LeasedTask) { t.Status.Phase, t.Status.FencingToken = v1alpha1.PhaseRunning, 11 }},
		"failures and 0 disruptions": {accept, func(t *v1alpha1.LeasedTask) { t.Spec.Retry.MaxAttempts = 1 }, grant(10), failure, grant(12)},
		"suspended or cancelled":     {accept, func(t *v1alpha1.LeasedTask) { t.Spec.Suspend = new(true) }, grant(9)},
		"failures and disruptions":   {accept, grant(10), func(t *v1alpha1.LeasedTask) { failure(t); t.Status.Failures++ }},
		"entries in one write":       {accept, grant(10), func(t *v1alpha1.LeasedTask) { failure(t); failure(t) }},
		"was made in phase":          {accept, grant(10), failure, failure},
		"history was changed":        {accept, grant(10), failure, func(t *v1alpha1.LeasedTask) { t.Status.History[0].Reason = "S" }},
		"and was changed":            {accept, grant(10), failure, grant(12), success, func(t *v1alpha1.LeasedTask) { t.Status.CompletionTime = new(metav1.NewTime(now.Add(time.Second))) }},
		"with completionTime":        {accept, grant(10), failure, grant(12), func(t *v1alpha1.LeasedTask) { success(t); t.Status.CompletionTime = nil }},
		"with 0 successes":           {accept, grant(10), failure, grant(12), func(t *v1alpha1.LeasedTask) { success(t); t.Status.History[1].Outcome = v1alpha1.AttemptStopped }},
		"its worker said":            {accept, grant(10), success},
		"took a success":             {accept, grant(12), end(v1alpha1.PhaseExpired, v1alpha1.AttemptDisrupted)},
		"nobody asked":               {accept, func(t *v1alpha1.LeasedTask) { t.Status.Phase, t.Status.CompletionTime = v1alpha1.PhaseCancelled, &now }},
		"without a dead letter": {accept, grant(10), end(v1alpha1.PhaseExpired, v1alpha1.AttemptFailed),
			func(t *v1alpha1.LeasedTask) {
				t.Status.Phase, t.Status.CompletionTime = v1alpha1.PhaseDeadLettered, &now
			}},
	}
	for problem, life := range lives {
		t.Run(problem, func(t *testing.T) {
			l := newLedger(7)
			l.accepted(10, fencing.Failed)
			l.accepted(12, fencing.Succeeded)
			for i, change := range life {
				write(l, change)
				if i < len(life)-1 && len(l.problems) > 0 {
					t.Fatalf("after %d of %d writes: %q", i+1, len(life), l.problems)
				}
			}
			if problem == "" && len(l.problems) > 0 || problem != "" && !contains(l.problems, problem) {
				t.Errorf("found %q", l.problems)
			}
		})
	}
	l := newLedger(0)
	l.wrote(&v1alpha1.LeasedTask{Status: v1alpha1.LeasedTaskStatus{Phase: v1alpha1.PhaseAvailable}})
	if !contains(l.problems, "condition Reconciling is false in phase Available") {
		t.Errorf("found %q", l.problems)
	}
}

// ledgers are the models of all tasks of the model's namespace, by UID.
type ledgers struct {
	mu  sync.Mutex
	all map[types.UID]*ledger
	// early are versions of tasks that nobody has entered yet: the watch may be quicker than the answer to a create.
	early map[types.UID][]*v1alpha1.LeasedTask
}

func (b *ledgers) enter(uid types.UID, floor int64) *ledger {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := newLedger(floor)
	b.all[uid] = l
	for _, version := range b.early[uid] {
		l.wrote(version)
	}
	delete(b.early, uid)
	return l
}

func (b *ledgers) wrote(task *v1alpha1.LeasedTask) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.all[task.UID]; l != nil {
		l.wrote(task)
		return
	}
	b.early[task.UID] = append(b.early[task.UID], task)
}

func (b *ledgers) leave(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.all, uid)
	delete(b.early, uid)
}

// contains reports whether one of the sentences has the words.
func contains(sentences []string, words string) bool {
	return slices.ContainsFunc(sentences, func(s string) bool { return strings.Contains(s, words) })
}
