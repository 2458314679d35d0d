package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/leasehold-io/leasehold/internal/controller"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// move is one write to the term Lease, as a client meant it.
type move struct {
	Kind       string // grant, claim, renew, submit, stop, revoke
	Holder     string
	Claim      string
	Submission string
	Seen, Stop string // of a stop: the one before it, and its own
}

// termState is the model: what the Lease says, and the revision that it says it at.
type termState struct {
	Holder, Claim, Submission, Stop string
	Revision                        int64
}

// apply is the protocol in a few lines, written down a second time on purpose: whether a move may be made, and what the
// Lease says then.
func (m move) apply(s termState) (bool, termState) {
	isMine := s.Holder == m.Holder && s.Claim == m.Claim
	next := s
	switch m.Kind {
	case "grant":
		return s.Submission != "" || s.Holder == "", termState{Holder: m.Holder}
	case "claim":
		next.Claim = m.Claim
		return s.Holder == m.Holder && s.Claim == "", next
	case "renew":
		return isMine && s.Submission == "", s
	case "submit":
		next.Submission = m.Submission
		return isMine && (s.Submission == "" || s.Submission == m.Submission), next
	case "stop":
		next.Stop = m.Stop
		return isMine && s.Holder != "" && s.Submission == "" && s.Stop == m.Seen, next
	case "revoke":
		next.Holder = ""
		return isMine && s.Holder != "" && s.Submission == "", next
	}
	panic(m.Kind)
}

// A client learns that its move was made, that it was refused, or, for a grant whose resourceVersion was overtaken, nothing.
const (
	made      = "made"
	refused   = "refused"
	overtaken = "overtaken"
)

// outcome is what a client learned. A move that was made comes with the revision that the API server gave it, and may not
// take effect before one of a lower revision: that makes the check stronger, and its search short.
type outcome struct {
	Verdict  string
	Revision int64
}

var termModel = porcupine.Model{
	// Refusals change nothing, and hundreds of them that overlap have more orders than can be searched. So each part has all
	// moves that were made and the refusals of one client. What that gives up is the order between two clients' refusals.
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		effects, parts := []porcupine.Operation{}, map[int][]porcupine.Operation{}
		for _, op := range history {
			switch op.Output.(outcome).Verdict {
			case made:
				effects = append(effects, op)
			case refused:
				parts[op.ClientId] = append(parts[op.ClientId], op)
			}
		}
		all := [][]porcupine.Operation{}
		for _, part := range parts {
			all = append(all, append(part, effects...))
		}
		return all
	},
	Init: func() any { return termState{} },
	Step: func(state, input, output any) (bool, any) {
		before, out := state.(termState), output.(outcome)
		may, after := input.(move).apply(before)
		switch out.Verdict {
		case made:
			isRepeat := out.Revision == before.Revision // an identical submission writes nothing
			after.Revision = out.Revision
			return may && (out.Revision > before.Revision || isRepeat), after
		case refused:
			return !may, state
		default:
			return true, state
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %v", input, output) },
}

// contest is one Lease that many clients fight for, through the policies that guard it.
type contest struct {
	*scene
	lease   types.NamespacedName
	holders []holder
	begin   time.Time

	mu      sync.Mutex
	history []porcupine.Operation
}

// holder is a Pod, and a client with its bound token.
type holder struct {
	name, uid string
	client    client.Client
}

func TestTheTermLeaseIsLinearizableUnderContention(t *testing.T) {
	const clients, moves = 32, 60
	s := set(t, nil)
	c := &contest{scene: s, lease: types.NamespacedName{Namespace: s.namespace, Name: "lh-contested"}, begin: time.Now()}
	s.ok(admin.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: controller.WorkerRole},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: controller.WorkerRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.namespace, Name: "default"}},
	}))
	for i := range 2 {
		c.holders = append(c.holders, c.newHolder(fmt.Sprintf("holder-%d", i)))
	}
	s.ok(admin.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: c.lease.Namespace, Name: c.lease.Name,
		Labels: map[string]string{mailbox.TaskLabel: "contested"}, Annotations: map[string]string{mailbox.TaskNameAnnotation: "contested"},
	}}))
	c.waitForPolicies()

	var all sync.WaitGroup
	for id := range clients {
		all.Go(func() {
			for n := range moves {
				if id%4 == 0 {
					c.controllerMove(id)
				} else {
					c.agentMove(id, n)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d moves, by outcome: %v", len(c.history), c.outcomes())
	result, info := porcupine.CheckOperationsVerbose(termModel, c.history, time.Minute)
	if result != porcupine.Ok {
		path := t.TempDir() + "/history.html"
		_ = porcupine.VisualizePath(termModel, info, path)
		t.Fatalf("the history is %s; see %s", result, path)
	}
}

// newHolder makes a Pod and a client that speaks with its bound token.
func (c *contest) newHolder(name string) holder {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "worker", Image: "worker"}}}}
	c.ok(admin.Create(c.Context(), pod))
	return holder{name, string(pod.UID), c.speakerOf(pod)}
}

// speakerOf is a client with a token that is bound to the Pod, as its agent has one.
func (s *scene) speakerOf(pod *corev1.Pod) client.Client {
	s.Helper()
	bound := rest.AnonymousClientConfig(config)
	bound.BearerToken, bound.QPS = s.boundToken(pod), -1
	speaker, err := client.New(bound, client.Options{Scheme: admin.Scheme()})
	s.ok(err)
	return speaker
}

// waitForPolicies waits until a Pod that does not hold the Lease is told so by the policy.
func (c *contest) waitForPolicies() {
	c.ok(c.Poll(c.Context(), patience, func() error {
		_, err := c.patch(c.holders[0].client, []byte(`[{"op":"add","path":"/spec/renewTime","value":"2026-01-01T00:00:00.000001Z"}]`))
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "does not hold this Lease") {
			return nil
		}
		return errors.Join(err, errors.New("the policy does not answer yet"))
	}))
}

func (c *contest) patch(by client.Client, patch []byte) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: c.lease.Namespace, Name: c.lease.Name}}
	return lease, by.Patch(c.Context(), lease, client.RawPatch(types.JSONPatchType, patch))
}

// agentMove claims, renews or submits as one of two processes of one of the Pods, whether or not that makes sense now.
func (c *contest) agentMove(id, n int) {
	h := c.holders[rand.IntN(len(c.holders))]
	claim := fencing.Claim{Nonce: fmt.Sprintf("process-%d", rand.IntN(2)), Node: node, PodUID: h.uid}
	m := move{Holder: h.name, Claim: claim.String()}
	var patch []byte
	switch rand.IntN(5) {
	case 0, 1:
		m.Kind, patch = "claim", fencing.ClaimPatch(h.name, claim, time.Now())
	case 2, 3:
		m.Kind, patch = "renew", fencing.RenewPatch(h.name, claim, time.Now())
	default:
		m.Kind, m.Submission = "submit", fmt.Sprintf(`{"token":1,"outcome":"Failed","message":"%d of %d"}`, n%2, id)
		patch = fencing.SubmitPatch(h.name, claim, []byte(m.Submission))
	}
	c.note(id, m, func() (outcome, error) { return outcomeOf(c.patch(h.client, patch)) })
}

// controllerMove looks, and grants what has ended, or stops or revokes what has not.
func (c *contest) controllerMove(id int) {
	lease := &coordinationv1.Lease{}
	c.ok(admin.Get(c.Context(), c.lease, lease))
	term := mailbox.Read(lease)
	if term.IsOpen() {
		m := move{Kind: "revoke", Holder: term.Holder}
		if term.Claim != nil {
			m.Claim = term.Claim.String()
		}
		patch := fencing.RevokePatch(term, false)
		switch rand.IntN(4) {
		case 0, 1:
			return // let it live
		case 2:
			stop := fencing.Stop{Reason: fmt.Sprintf("By%d", id), Time: time.Now()}
			m.Kind, m.Stop, patch = "stop", stop.String(), fencing.StopPatch(term, stop)
			if term.Stop != nil {
				m.Seen = term.Stop.String()
			}
		}
		c.note(id, m, func() (outcome, error) { return outcomeOf(c.patch(admin, patch)) })
		return
	}
	m := move{Kind: "grant", Holder: c.holders[rand.IntN(len(c.holders))].name}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &m.Holder, nil
	delete(lease.Annotations, fencing.ClaimAnnotation)
	delete(lease.Annotations, fencing.SubmissionAnnotation)
	delete(lease.Annotations, fencing.StopAnnotation)
	c.note(id, m, func() (outcome, error) {
		err := admin.Update(c.Context(), lease)
		if apierrors.IsConflict(err) {
			return outcome{Verdict: overtaken}, nil
		}
		return outcomeOf(lease, err)
	})
}

// outcomeOf reads an answer exactly as an agent does.
func outcomeOf(lease *coordinationv1.Lease, err error) (outcome, error) {
	if err == nil {
		revision, err := strconv.ParseInt(lease.ResourceVersion, 10, 64)
		return outcome{made, revision}, err
	}
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		return outcome{}, err
	}
	s := status.Status()
	body, encodeErr := json.Marshal(s)
	if encodeErr == nil && fencing.Classify(int(s.Code), body) == fencing.Refused {
		return outcome{Verdict: refused}, nil
	}
	return outcome{}, errors.Join(err, encodeErr)
}

func (c *contest) note(id int, m move, do func() (outcome, error)) {
	call := time.Since(c.begin).Nanoseconds()
	out, err := do()
	back := time.Since(c.begin).Nanoseconds()
	if err != nil {
		c.Errorf("%+v: %v", m, err)
		out = outcome{Verdict: overtaken}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, porcupine.Operation{ClientId: id, Input: m, Call: call, Output: out, Return: back})
}

func (c *contest) outcomes() map[string]int {
	counts := map[string]int{}
	for _, op := range c.history {
		counts[op.Input.(move).Kind+" "+op.Output.(outcome).Verdict]++
	}
	return counts
}

func TestTheModelFindsWhatMustNotHappen(t *testing.T) {
	grant := porcupine.Operation{ClientId: 0, Input: move{Kind: "grant", Holder: "p"}, Call: 0, Output: outcome{made, 1}, Return: 1}
	claim := func(id int, claim string, revision, at int64) porcupine.Operation {
		return porcupine.Operation{ClientId: id, Input: move{Kind: "claim", Holder: "p", Claim: claim}, Call: at, Output: outcome{made, revision}, Return: at + 1}
	}
	submit := func(id int, claim, submission string, verdict string, revision, at int64) porcupine.Operation {
		return porcupine.Operation{ClientId: id, Input: move{Kind: "submit", Holder: "p", Claim: claim, Submission: submission}, Call: at, Output: outcome{verdict, revision}, Return: at + 1}
	}
	stop := func(id int, claim, seen, stop string, revision, at int64) porcupine.Operation {
		return porcupine.Operation{ClientId: id, Input: move{Kind: "stop", Holder: "p", Claim: claim, Seen: seen, Stop: stop}, Call: at, Output: outcome{made, revision}, Return: at + 1}
	}
	nobody := submit(9, "x", "s", refused, 0, 1) // each part needs a client that was refused
	tests := map[string][]porcupine.Operation{
		"two claims":                {grant, claim(1, "a", 2, 2), claim(2, "b", 3, 4), nobody},
		"two submissions":           {grant, claim(1, "a", 2, 2), submit(1, "a", "s", made, 3, 4), submit(1, "a", "t", made, 4, 6), nobody},
		"a foreign submission":      {grant, claim(1, "a", 2, 2), submit(2, "b", "s", made, 3, 4), nobody},
		"a refusal without a cause": {grant, claim(1, "a", 2, 2), submit(1, "a", "s", refused, 0, 4)},
		"a stop after a submission": {grant, claim(1, "a", 2, 2), submit(1, "a", "s", made, 3, 4), stop(2, "a", "", "t", 4, 6), nobody},
		"a stop over another":       {grant, claim(1, "a", 2, 2), stop(2, "a", "", "t", 3, 4), stop(3, "a", "", "u", 4, 6), nobody},
		"a stop before the claim":   {grant, claim(1, "a", 2, 2), stop(2, "", "", "t", 3, 4), nobody},
		"a revision that goes back": {grant, claim(1, "a", 3, 2), submit(1, "a", "s", made, 2, 4), nobody},
	}
	for name, history := range tests {
		if porcupine.CheckOperations(termModel, history) {
			t.Errorf("%s: found linearizable", name)
		}
	}
}
