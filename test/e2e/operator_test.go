package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/test/cluster"
)

const system = cluster.System

// ofOperator are the labels of the operator's Pods.
var ofOperator = client.MatchingLabels{"app.kubernetes.io/name": "leasehold"}

// secondSucceeds fails at once and then takes the given time.
func secondSucceeds(takes time.Duration) string {
	return fmt.Sprintf(`[ "$LEASEHOLD_ATTEMPT" = 1 ] && exit 1; sleep %.0f; echo ok > "$LEASEHOLD_RESULT_FILE"`, takes.Seconds())
}

// mustHaveFailedOnce checks the end of secondSucceeds: nothing was lost and nothing happened twice.
func (s *story) mustHaveFailedOnce(tasks ...*v1alpha1.LeasedTask) {
	s.Helper()
	for _, task := range tasks {
		s.untilFinished(task)
		st := task.Status
		s.must(st.Phase == v1alpha1.PhaseCompleted && st.Attempt == 2 && st.Failures == 1 && st.Disruptions == 0, "task %s: %+v", task.Name, st)
		s.must(st.History[0].FencingToken < st.History[1].FencingToken, "the tokens of task %s do not rise: %+v", task.Name, st.History)
		pods, err := s.Pods(s.ctx, task)
		s.ok(err)
		s.must(len(pods) == 2, "task %s has %d Pods, want one an attempt", task.Name, len(pods))
	}
}

func TestCase14TheOperatorKilledAtAnyMomentLosesAndDoublesNothing(t *testing.T) {
	s := tell(t, alone)
	const count = 12
	tasks := make([]*v1alpha1.LeasedTask, count)
	for i := range tasks {
		tasks[i] = s.start(fmt.Sprintf("t%d", i), secondSucceeds(3*time.Second))
		if i%3 == 2 { // four kills, spread over the grants, claims, failures and completions of the tasks around them
			time.Sleep(1500 * time.Millisecond)
			s.killOperator()
		}
	}
	s.mustHaveFailedOnce(tasks...)
}

func TestTheOperatorDownForTwoLeasesDisturbsNoRunningTask(t *testing.T) {
	s := tell(t, alone)
	task := s.start("undisturbed", "sleep 45; echo done > $LEASEHOLD_RESULT_FILE")
	s.untilRunning(task, 1)
	s.scaleOperator(0)
	time.Sleep(2*lease + 2*time.Second)
	s.scaleOperator(2)
	s.untilFinished(task)
	s.must(task.Status.Phase == v1alpha1.PhaseCompleted && task.Status.Attempt == 1 && task.Status.Disruptions == 0, "status %+v", task.Status)
}

func TestCase39TwoOperatorsAtOnceMakeOnePodAnAttempt(t *testing.T) {
	s := tell(t, alone)
	leader, rival := s.leader(), s.startRival()
	log := filepath.Join(filepath.Dir(s.Kubeconfig()), "audit.log")
	before := s.size(log)
	tasks := make([]*v1alpha1.LeasedTask, 10)
	for i := range tasks {
		tasks[i] = s.start(fmt.Sprintf("t%d", i), secondSucceeds(2*time.Second))
	}
	for _, task := range tasks {
		s.mustBeInOrder(task)
	}
	writes := map[string]int{}
	for _, e := range s.auditSince(log, before) {
		if !e.isRead() && e.isOurs(s.namespace) && e.ObjectRef.Namespace == s.namespace && e.ResponseStatus.Code < 300 {
			for _, pod := range e.User.Extra["authentication.kubernetes.io/pod-name"] {
				writes[pod]++
			}
		}
	}
	s.Logf("writes that counted: leader %d, rival %d", writes[leader.Name], writes[rival.Name])
	s.must(writes[leader.Name] > 0 && writes[rival.Name] > 0, "only one of the two operators acted: %v", writes)
}

// mustBeInOrder checks the end of secondSucceeds under two operators. One may revoke a grant that the other has not put on record
// yet: that costs a disruption, and nothing has run. Whatever did run, ran under one Pod an attempt, and was charged once.
func (s *story) mustBeInOrder(task *v1alpha1.LeasedTask) {
	s.Helper()
	s.untilFinished(task)
	st := task.Status
	s.must(st.Phase == v1alpha1.PhaseCompleted && int(st.Attempt) == len(st.History), "task %s: %+v", task.Name, st)
	for i, h := range st.History {
		s.must(i == 0 || st.History[i-1].FencingToken < h.FencingToken, "the tokens of task %s do not rise: %+v", task.Name, st.History)
		isFailure := h.Attempt == 1 && h.Reason == fencing.ReasonNonZeroExit
		isRevoked := h.Reason == plan.ReasonRevoked && h.StartTime == nil
		isLast := i == len(st.History)-1 && h.Outcome == v1alpha1.AttemptSucceeded
		s.must(isFailure || isRevoked || isLast, "attempt %d of task %s: %+v", h.Attempt, task.Name, h)
	}
	pods, err := s.Pods(s.ctx, task)
	s.ok(err)
	of := map[string]int{}
	for _, pod := range pods {
		of[pod.Annotations[v1alpha1.AttemptAnnotation]]++
	}
	for attempt, count := range of {
		s.must(count == 1, "attempt %s of task %s has %d Pods", attempt, task.Name, count)
	}
}

func TestCase39ALeaderFrozenPastItsLeaseDoesNoHarmWhenItWakes(t *testing.T) {
	s := tell(t, alone)
	old := s.leader()
	tasks := make([]*v1alpha1.LeasedTask, 10)
	for i := range tasks {
		tasks[i] = s.start(fmt.Sprintf("t%d", i), secondSucceeds(8*time.Second))
		if i == len(tasks)/2 { // in the middle of the grants of the ones, before those of the others
			time.Sleep(500 * time.Millisecond)
			s.frozen(old)
		}
	}
	s.ok(s.Until(s.ctx, tasks[len(tasks)-1], patience, "taken over by the other operator", func(task *v1alpha1.LeasedTask) bool {
		return task.Status.Attempt == 2
	}))
	s.local("thaw", old.Name, "-n", system) // while second attempts start, run and end; it acts on until it gives the election up, 10 s later at most
	for _, task := range tasks {
		s.mustBeInOrder(task)
	}
	s.must(s.leader().Name != old.Name, "the operator that was frozen still leads")
}

func TestCase39AStandbyThatTakesOverHasObservedAllAlong(t *testing.T) {
	s := tell(t, alone)
	const duration, margin = 30 * time.Second, 10 * time.Second
	old := s.leader()
	task := s.start("frozen", secondWins, func(task *v1alpha1.LeasedTask) { task.Spec.Lease.DurationSeconds = int32(duration.Seconds()) })
	s.untilRunning(task, 1)
	s.local("freeze", task.Status.Holder.PodName, "-n", s.namespace)
	renewed := s.renewTime(task)
	// The leader dies 8 s later and is replaced 13 s to 17 s after that, inside the lease. A wait begun anew at the takeover would
	// end 51 s after the last renewal at the earliest. It is frozen and not killed: its Deployment would make a third operator,
	// which has seen nothing and may win the election.
	time.Sleep(8 * time.Second)
	s.frozen(old)
	s.ok(s.Until(s.ctx, task, patience, "granted again", func(task *v1alpha1.LeasedTask) bool { return task.Status.Attempt == 2 }))
	s.must(s.elected() != old.Name, "the leader did not change: this shows nothing")
	term := &coordinationv1.Lease{}
	s.ok(s.Get(s.ctx, key(s.namespace, task.Status.LeaseName), term))
	waited := term.Spec.AcquireTime.Sub(renewed)
	s.Logf("granted %s after the last renewal", waited)
	s.must(waited >= duration && waited < duration+margin, "granted %s after the last renewal, want %s to %s", waited, duration, duration+margin)
}

// killOperator removes the operator's Pods without grace; its Deployment makes new ones.
func (s *story) killOperator() {
	s.Helper()
	s.ok(s.DeleteAllOf(s.ctx, &corev1.Pod{}, client.InNamespace(system), ofOperator, client.GracePeriodSeconds(0)))
}

// frozen stops all processes of the leader's Pod until the test ends. The next test finds it started anew: until then it acts.
func (s *story) frozen(pod *corev1.Pod) {
	s.Helper()
	restarts := pod.Status.ContainerStatuses[0].RestartCount
	s.Cleanup(func() {
		ctx := context.Background()
		_, _ = s.Localcluster(ctx, "thaw", pod.Name, "-n", system)
		s.ok(s.Poll(ctx, patience, func() error {
			if err := s.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
				return err
			}
			if pod.Status.ContainerStatuses[0].RestartCount == restarts {
				return fmt.Errorf("operator %s was thawed and still acts", pod.Name)
			}
			return nil
		}))
	})
	s.local("freeze", pod.Name, "-n", system)
}

// leader waits until the operator is whole, with one Pod that leads and one that stands by, and returns the one that leads.
func (s *story) leader() (leader *corev1.Pod) {
	s.Helper()
	s.ok(s.Poll(s.ctx, patience, func() error {
		pods := &corev1.PodList{}
		if err := s.List(s.ctx, pods, client.InNamespace(system), ofOperator); err != nil {
			return err
		}
		holder, ready := s.elected(), 0
		leader = nil
		for i := range pods.Items {
			if !isReady(&pods.Items[i]) {
				continue
			}
			ready++
			if pods.Items[i].Name == holder {
				leader = &pods.Items[i]
			}
		}
		if leader == nil || ready != 2 {
			return fmt.Errorf("the operator has %d Pods that are ready; %q leads", ready, holder)
		}
		return nil
	}))
	return leader
}

// elected is the name of the Pod that leads, as the election has it.
func (s *story) elected() string {
	s.Helper()
	election := &coordinationv1.Lease{}
	s.ok(s.Get(s.ctx, key(system, "leasehold-manager"), election))
	s.must(election.Spec.HolderIdentity != nil, "nobody was ever elected")
	name, _, _ := strings.Cut(*election.Spec.HolderIdentity, "_")
	return name
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// startRival starts one more operator that acts without being the leader.
func (s *story) startRival() *corev1.Pod {
	s.Helper()
	installed := &appsv1.Deployment{}
	s.ok(s.Get(s.ctx, key(system, "leasehold-manager"), installed))
	rival := &corev1.Pod{ // its labels are not the Deployment's, which would adopt it
		ObjectMeta: metav1.ObjectMeta{Namespace: system, GenerateName: "rival-", Labels: map[string]string{"story": s.namespace}},
		Spec:       installed.Spec.Template.Spec,
	}
	manager := &rival.Spec.Containers[0]
	all := len(manager.Args)
	manager.Args = slices.DeleteFunc(manager.Args, func(arg string) bool { return arg == "--leader-elect" })
	s.must(len(manager.Args) == all-1, "the operator's arguments are not as expected: %v", manager.Args)
	s.ok(s.Create(s.ctx, rival))
	s.Cleanup(func() { _ = s.Delete(context.Background(), rival, client.GracePeriodSeconds(0)) })
	s.ok(s.Poll(s.ctx, patience, func() error {
		if err := s.Get(s.ctx, client.ObjectKeyFromObject(rival), rival); err != nil {
			return err
		}
		if !isReady(rival) {
			return fmt.Errorf("operator %s is not ready", rival.Name)
		}
		return nil
	}))
	return rival
}

func (s *story) scaleOperator(replicas int) {
	s.Helper()
	s.kubectl("scale", "-n", system, "deployment/leasehold-manager", fmt.Sprintf("--replicas=%d", replicas))
	s.ok(s.Poll(s.ctx, patience, func() error {
		pods := &corev1.PodList{}
		if err := s.List(s.ctx, pods, client.InNamespace(system), ofOperator); err != nil {
			return err
		}
		if len(pods.Items) != replicas {
			return fmt.Errorf("the operator has %d Pods, want %d", len(pods.Items), replicas)
		}
		return nil
	}))
}
