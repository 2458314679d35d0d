package plan

import (
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// cmpClaims lets cmp look into claims and stops.
var cmpClaims = cmp.AllowUnexported(fencing.Claim{}, fencing.Stop{})

// decision is one row of a table: a snapshot, and what matters of the plan made from it.
type decision struct {
	given []func(*Snapshot)
	want  want
}

// want is a plan in brief; the zero value does nothing.
type want struct {
	Rule   Rule
	Dead   string // reason of the dead letter, if one is to be made
	Lease  string // "grant HOLDER attempt N [over RV]", "stop REASON GRACE", "revoke", "revoke this version"
	Status string // "PHASE attempt N", with what else the status says in brief; empty: no write
	// Entry is the history entry that the plan adds: "OUTCOME REASON EVIDENCE [exit N] [ACTION]".
	Entry   string
	Waiting string // reason of the Waiting condition in the status, if True
	Ready   string // "STATUS/REASON" of condition Ready in the status
	Pods    string // "create", "delete NAME", "limit NAME SECONDS"
	Requeue time.Duration
	Watch   time.Duration
	Live    bool
	Counts  string
	Deletes bool   // the task
	Turn    string // "asked", or "place" if the task keeps its place and is not granted
}

// tables are all tables of decisions.
var tables = map[string]map[string]decision{
	"resting":   restingTable,
	"available": availableTable,
	"starting":  startingTable,
	"held":      heldTable,
	"submitted": submittedTable,
	"lost":      lostTable,
	"expired":   expiredTable,
	"sweep":     sweepTable,
	"rules":     retryRuleTable,
	"dead":      deadLetterTable,
	"stop":      stopTable,
	"uncertain": uncertainTable,
	"probe":     probeTable,
	"keys":      keyTable,
	"policies":  keyPolicyTable,
	"verify":    verifyTable,
	"mount":     mountTable,
	"deadline":  deadlineTable,
	"worker":    workerTable,
	"turn":      turnTable,
	"queue":     queueTable,
	"revision":  lostRevisionTable,
	"doubt":     lostDoubtTable,
}

// TestDecide runs all tables.
func TestDecide(t *testing.T) {
	for name, table := range tables {
		t.Run(name, func(t *testing.T) { check(t, table) })
	}
}

// TestTablesAreComplete: in some row of the tables each rule decides, and each transition is made; and no other.
func TestTablesAreComplete(t *testing.T) {
	decided := map[Rule]bool{}
	made, legal := map[string]bool{}, map[string]bool{}
	for _, table := range tables {
		for _, test := range table {
			s := given(test.given...)
			p := Decide(s)
			decided[p.Rule] = true
			status := p.Status
			if p.Grant != nil {
				status = Granted(s, p.Grant, "lease-1", fencing.Token(s.Task.Status.FencingToken)+1)
			}
			if status != nil && status.Phase != s.Task.Status.Phase {
				made[fmt.Sprintf("%s to %s", s.Task.Status.Phase, status.Phase)] = true
			}
		}
	}
	for _, tr := range Transitions {
		legal[fmt.Sprintf("%s to %s", tr.From, tr.To)] = true
	}
	if diff := cmp.Diff(legal, made); diff != "" {
		t.Errorf("transitions (-table +made):\n%s", diff)
	}
	names := ruleConstants(t)
	listed := map[string]bool{}
	for _, rule := range rules {
		listed[string(rule.name)] = true
		if !decided[rule.name] {
			t.Errorf("no table has a snapshot in which rule %s decides", rule.name)
		}
	}
	if diff := cmp.Diff(names, listed); diff != "" {
		t.Errorf("constants and list of rules (-constants +list):\n%s", diff)
	}
}

// ruleConstants are the values of the constants of type Rule.
func ruleConstants(t *testing.T) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(gotoken.NewFileSet(), "rules.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Rule" {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			names[value] = true
		}
		return true
	})
	return names
}

// check runs a table. It also holds what every decision must: the same snapshot gives the same plan, the snapshot is not touched,
// the change of phase is legal, and once it is written there is nothing more to write.
func check(t *testing.T, table map[string]decision) {
	t.Helper()
	for name, test := range table {
		t.Run(name, func(t *testing.T) {
			s, same := given(test.given...), given(test.given...)
			p := Decide(s)
			if diff := cmp.Diff(same, s, cmpClaims); diff != "" {
				t.Errorf("the snapshot was changed:\n%s", diff)
			}
			if diff := cmp.Diff(test.want, brief(s, &p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(Decide(same), p, cmpClaims); diff != "" {
				t.Errorf("the same snapshot gave another plan:\n%s", diff)
			}
			checkWritten(t, s, p)
		})
	}
}

// checkWritten carries a plan out as far as Lease and status go, as the API server stores them, and decides again, until
// something else has to happen. A task that rests is not written.
func checkWritten(t *testing.T, s *Snapshot, p Plan) {
	t.Helper()
	for range 5 {
		if p.Status == nil || p.Grant != nil {
			return
		}
		if !IsLegal(s.Task.Status.Phase, p.Status.Phase) {
			t.Errorf("illegal change of phase from %s to %s", s.Task.Status.Phase, p.Status.Phase)
		}
		checkConditions(t, s.Task, p.Status)
		next := *s
		next.Task = s.Task.DeepCopy()
		next.Task.Status = stored(t, p.Status)
		for _, entry := range next.Task.Status.History {
			if entry.Reason == "" || len(entry.Reason) > 64 || len(entry.Message) > 512 || entry.EndTime == nil {
				t.Errorf("the API server refuses the entry %+v", entry)
			}
		}
		if p.Revoke != nil {
			term := *s.Term
			term.Holder, next.Term = "", &term
		}
		if p.Stop != nil {
			term := *s.Term
			term.Stop, next.Term, next.StoppedSince = p.Stop, &term, s.Now
		}
		s, p = &next, Decide(&next)
	}
	t.Errorf("rule %s writes again and again: %s", p.Rule, cmp.Diff(s.Task.Status, *p.Status))
}

// checkConditions: all conditions are there and agree with the phase.
func checkConditions(t *testing.T, task *v1alpha1.LeasedTask, status *v1alpha1.LeasedTaskStatus) {
	t.Helper()
	if len(status.Conditions) == 0 {
		return // an added late submission leaves them to the next pass
	}
	waits := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionWaiting)
	isStalled := status.Phase == v1alpha1.PhaseDeadLettered || waits != nil && waits.Reason == v1alpha1.WaitingSpecInvalid
	want := map[string]bool{
		v1alpha1.ConditionFinished:        status.Phase.IsFinished(),
		v1alpha1.ConditionReady:           status.Phase == v1alpha1.PhaseCompleted || status.Phase == v1alpha1.PhaseCancelled,
		v1alpha1.ConditionReconciling:     !status.Phase.IsFinished() && !isStalled,
		v1alpha1.ConditionStalled:         isStalled,
		v1alpha1.ConditionLeaseHeld:       isHeld(status),
		v1alpha1.ConditionSucceeded:       status.Phase == v1alpha1.PhaseCompleted,
		v1alpha1.ConditionCancelRequested: task.Spec.Cancel.Reason != "",
		v1alpha1.ConditionWaiting:         meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionWaiting),
	}
	got := map[string]bool{}
	for _, c := range status.Conditions {
		got[c.Type] = c.Status == metav1.ConditionTrue
		if c.Reason == "" || c.ObservedGeneration != *status.ObservedGeneration || c.LastTransitionTime.IsZero() {
			t.Errorf("condition %+v is incomplete", c)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions of phase %s (-want +got):\n%s", status.Phase, diff)
	}
}

func brief(s *Snapshot, p *Plan) want {
	w := want{Rule: p.Rule, Requeue: p.Requeue, Watch: p.Watch, Live: p.NeedsLive(), Deletes: p.DeleteTask}
	switch {
	case p.AskTurn:
		w.Turn = "asked"
	case p.KeepPlace && p.Grant == nil:
		w.Turn = "place"
	}
	switch {
	case p.Grant != nil:
		w.Lease = fmt.Sprintf("grant %s attempt %d over %q", p.Grant.Holder, p.Grant.Attempt, p.Grant.Over)
	case p.Stop != nil:
		w.Lease = fmt.Sprintf("stop %s %d", p.Stop.Reason, p.Stop.GraceSeconds)
	case p.Revoke != nil && p.Revoke.ThisVersion:
		w.Lease = "revoke this version"
	case p.Revoke != nil:
		w.Lease = "revoke"
	case p.TakeKey != nil:
		w.Lease = briefKey("take", p.TakeKey)
	case p.Answer != nil:
		w.Lease = briefKey("answer", p.Answer)
	}
	if p.DeadLetter != nil {
		w.Dead = p.DeadLetter.Spec.Reason
	}
	var pods, counts []string
	if p.CreatePod {
		pods = append(pods, "create")
	}
	for _, pod := range p.DeletePods {
		pods = append(pods, "delete "+pod.Name)
	}
	for _, limit := range p.LimitPods {
		pods = append(pods, fmt.Sprintf("limit %s %d", limit.Pod.Name, limit.Seconds))
	}
	for _, c := range p.Counts {
		counts = append(counts, strings.TrimSuffix(string(c.Counter)+" "+c.Label, " "))
	}
	w.Pods, w.Counts = strings.Join(pods, ", "), strings.Join(counts, ", ")
	if p.Status != nil {
		briefStatus(&w, &s.Task.Status, p.Status)
	}
	return w
}

func briefStatus(w *want, was, is *v1alpha1.LeasedTaskStatus) {
	w.Status = fmt.Sprintf("%s attempt %d", is.Phase, is.Attempt)
	if is.FencingToken != was.FencingToken {
		w.Status += fmt.Sprintf(" token %d", is.FencingToken)
	}
	if is.NextAttemptTime != nil && was.NextAttemptTime == nil {
		w.Status += fmt.Sprintf(" next in %s", is.NextAttemptTime.Sub(now))
	}
	if is.Deadline != nil && !is.Deadline.Equal(was.Deadline) {
		w.Status += fmt.Sprintf(" deadline in %s", is.Deadline.Sub(now))
	}
	if is.RemainingSeconds != nil && was.RemainingSeconds == nil {
		w.Status += fmt.Sprintf(" remaining %d s", *is.RemainingSeconds)
	}
	if is.Result != nil {
		w.Status += " result " + *is.Result
	}
	if len(is.History) > len(was.History) {
		e := is.History[len(is.History)-1]
		w.Entry = fmt.Sprintf("%s %s %s", e.Outcome, e.Reason, e.Evidence)
		if e.ExitCode != nil {
			w.Entry += fmt.Sprintf(" exit %d", *e.ExitCode)
		}
		if e.Action != "" {
			w.Entry += " " + string(e.Action)
		}
	}
	if c := meta.FindStatusCondition(is.Conditions, v1alpha1.ConditionWaiting); c != nil && c.Status == metav1.ConditionTrue {
		w.Waiting = c.Reason
	}
	if c := meta.FindStatusCondition(is.Conditions, v1alpha1.ConditionReady); c != nil {
		w.Ready = fmt.Sprintf("%s/%s", c.Status, c.Reason)
	}
}
