package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// Situations that bit users of comparable systems; docs/cases.md lists them all.

// carried is the snapshot that the next pass takes once a plan is carried out, as the API server gives it back.
func carried(t *testing.T, s *Snapshot, p *Plan) *Snapshot {
	t.Helper()
	next := *s
	next.Task, next.Pods = s.Task.DeepCopy(), nil
	for _, pod := range s.Pods {
		next.Pods = append(next.Pods, pod.DeepCopy())
	}
	written := p.Status
	switch {
	case p.Grant != nil:
		token := fencing.Token(max(s.Task.Status.FencingToken, token) + 1)
		next.Term = &fencing.Term{Name: "lh-1", UID: "lease-1", ResourceVersion: fmt.Sprint(token), Task: string(s.Task.UID), Holder: p.Grant.Holder,
			Attempt: p.Grant.Attempt, Duration: p.Grant.Duration, GrantTime: p.Grant.Time}
		next.Since = s.Now
		written = Granted(s, p.Grant, next.Term.UID, token)
	case p.Revoke != nil:
		term := *s.Term
		term.Holder, next.Term = "", &term
	case p.Stop != nil:
		term := *s.Term
		term.Stop, next.Term, next.StoppedSince = p.Stop, &term, s.Now
	}
	if written != nil {
		next.Task.Status = stored(t, written)
	}
	if p.CreatePod {
		pod := Pod(next.Task, AgentImage{Name: "agent"})
		pod.UID, pod.Status.Phase = types.UID("uid of "+pod.Name), corev1.PodPending
		next.Pods = append(next.Pods, pod)
	}
	for _, pod := range p.DeletePods {
		podNamed(&next, pod.Name).DeletionTimestamp = new(metav1.NewTime(s.Now))
	}
	for _, limit := range p.LimitPods {
		podNamed(&next, limit.Pod.Name).Spec.ActiveDeadlineSeconds = &limit.Seconds
	}
	if p.DeleteTask {
		next.Task.DeletionTimestamp = new(metav1.NewTime(s.Now))
	}
	return &next
}

func podNamed(s *Snapshot, name string) *corev1.Pod {
	for _, pod := range s.Pods {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

// writes reports whether a plan writes anything, and does not merely wait.
func (p *Plan) writes() bool {
	return p.Keep != nil || p.Grant != nil || p.Stop != nil || p.Revoke != nil || p.DeadLetter != nil || p.Status != nil || p.CreatePod || p.DeleteTask ||
		len(p.DeletePods) > 0 || len(p.LimitPods) > 0
}

// settled carries out one plan after another, without time passing, until one writes nothing.
func settled(t *testing.T, s *Snapshot) *Snapshot {
	t.Helper()
	for range 8 {
		p := Decide(s)
		if !p.writes() {
			return s
		}
		s = carried(t, s, &p)
	}
	p := Decide(s)
	t.Fatalf("rule %s writes again and again", p.Rule)
	return nil
}

// TestReconcilingTwiceWritesNothing: from every row of every table, in every phase and whatever it waits for, a task that is
// left alone is not written again.
func TestReconcilingTwiceWritesNothing(t *testing.T) {
	rests := map[string]bool{}
	for name, table := range tables {
		for row, test := range table {
			t.Run(name+"/"+row, func(t *testing.T) {
				s := settled(t, given(test.given...))
				if again := Decide(s); again.writes() || len(again.Events)+len(again.Counts) > 0 {
					t.Errorf("rule %s writes, or tells, again: %+v", again.Rule, again)
				}
				rests[string(s.Task.Status.Phase)] = true
				if c := meta.FindStatusCondition(s.Task.Status.Conditions, v1alpha1.ConditionWaiting); c != nil && c.Status == metav1.ConditionTrue {
					rests[c.Reason] = true
				}
			})
		}
	}
	for _, phase := range phases[1:] {
		if !rests[string(phase)] {
			t.Errorf("no task rests in phase %s", phase)
		}
	}
	for _, reason := range waitingReasons(t) {
		if !rests[reason] {
			t.Errorf("no task rests while it waits for %s", reason)
		}
	}
}

func TestCase02NoSecondPodWhileTheFirstShutsDownUnderALiveLease(t *testing.T) {
	shutsDown := []func(*Snapshot){onRecord, podRuns, podDeleted}
	for what, looks := range map[string]func(*Snapshot){
		"is being deleted":                   func(*Snapshot) {},
		"was deleted by force":               noPod,
		"is Failed, says who did not see it": onPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
	} {
		for _, age := range []time.Duration{0, 5 * time.Second, 29*time.Second + 999*time.Millisecond} {
			s := settled(t, given(append(shutsDown, since(age), looks)...))
			if p := Decide(s); p.Grant != nil || p.CreatePod || s.Task.Status.Phase != v1alpha1.PhaseRunning {
				t.Errorf("it %s, last renewed %s ago: rule %s, phase %s", what, age, p.Rule, s.Task.Status.Phase)
			}
		}
	}
	// Whichever is first: its container has ended, or its lease has.
	for what, ends := range map[string][]func(*Snapshot){
		"the container has ended": {since(time.Second), workerDied(143, "Error", ""), podDeleted},
		"the lease has expired":   {since(30 * time.Second)},
	} {
		s := settled(t, given(append(shutsDown, ends...)...))
		if s.Task.Status.NextAttemptTime == nil {
			t.Fatalf("%s: phase %s", what, s.Task.Status.Phase)
		}
		s.Now = s.Task.Status.NextAttemptTime.Time
		p := Decide(s)
		if p.Grant == nil || !p.CreatePod || s.Task.Status.Disruptions != 1 || s.Task.Status.Failures != 0 {
			t.Errorf("%s: rule %s, %+v", what, p.Rule, s.Task.Status)
		}
	}
}

func TestCase04AnExitCodeOfZeroIsNoSuccess(t *testing.T) {
	tests := map[string]struct {
		given []func(*Snapshot)
		want  string
	}{
		"its Pod was being deleted":      {[]func(*Snapshot){workerDied(0, "Completed", ""), podDeleted}, "Disrupted PodDeleted"},
		"it was drained":                 {[]func(*Snapshot){workerDied(0, "Completed", ""), podCondition(corev1.DisruptionTarget, corev1.ConditionTrue, "EvictionByEvictionAPI")}, "Disrupted EvictionByEvictionAPI"},
		"nobody had told it to":          {[]func(*Snapshot){workerDied(0, "Completed", "")}, "Failed WorkerVanished"},
		"its agent says that it was":     {[]func(*Snapshot){submits(fencing.Interrupted)}, "Disrupted Why"},
		"its agent could not submit":     {[]func(*Snapshot){workerDied(0, "Completed", report(fencing.Succeeded, fencing.DeliveryUnknown, "Completed"))}, "Disrupted SubmissionLost"},
		"its agent says so for another":  {[]func(*Snapshot){submits(fencing.Succeeded, func(s *fencing.Submission) { s.Token++ })}, "Failed TokenMismatch"},
		"its Pod's phase is Succeeded":   {[]func(*Snapshot){since(time.Hour), onPod(func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodSucceeded} })}, "Failed LeaseExpired"},
		"and its Pod is gone since then": {[]func(*Snapshot){since(time.Hour), noPod}, "Disrupted PodDeleted"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := settled(t, given(append([]func(*Snapshot){onRecord}, test.given...)...))
			st := s.Task.Status
			if last := lastOf(st.History); fmt.Sprintf("%s %s", last.Outcome, last.Reason) != test.want || st.Phase != v1alpha1.PhaseAvailable || st.Result != nil {
				t.Errorf("phase %s, result %v, history %+v; want %s, and another attempt", st.Phase, st.Result, st.History, test.want)
			}
		})
	}
}

// attempts plays one attempt after another that all end as given, each after its pause, until there is no other. It returns the
// number of grants, and the pause before each.
func attempts(t *testing.T, s *Snapshot, ends ...func(*Snapshot)) (pauses []time.Duration) {
	t.Helper()
	for len(pauses) < 50 {
		s.Since = s.Now
		*s = *settled(t, s)
		if s.Task.Status.Phase.IsFinished() || s.Task.Status.Phase == v1alpha1.PhaseExpired {
			return pauses
		}
		if s.Task.Status.Phase != v1alpha1.PhaseClaimed {
			next := s.Task.Status.NextAttemptTime
			pauses[len(pauses)-1] = next.Sub(s.Now)
			s.Now = next.Time
			*s = *settled(t, s)
		}
		pod := podNamed(s, s.Task.Status.Holder.PodName)
		s.Pods = []*corev1.Pod{pod}
		c := fencing.ParseClaim("nonce/node-1/" + string(pod.UID))
		s.Term.Claim, s.Term.RenewTime = &c, s.Now
		ends[len(pauses)%len(ends)](s)
		pauses = append(pauses, 0)
	}
	t.Fatal("there is no end of attempts")
	return nil
}

func noJitter(t *v1alpha1.LeasedTask) { t.Spec.Retry.Backoff.Jitter = v1alpha1.JitterNone }

func TestCase05LossesOfTheClustersUseNoAttemptAndEndAllTheSame(t *testing.T) {
	lost := func(edit func(*corev1.Pod)) func(*Snapshot) {
		return func(s *Snapshot) { workerDied(137, "Error", "")(s); edit(s.Pods[0]) }
	}
	condition := func(reason string) func(*Snapshot) {
		return lost(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason}}
		})
	}
	s := given(onTask(func(t *v1alpha1.LeasedTask) {
		noJitter(t)
		t.Spec.Retry.MaxAttempts, t.Spec.Retry.MaxDisruptions = 1, new(int32(4))
	}))
	pauses := attempts(t, s, condition("PreemptionByScheduler"), condition("TerminationByKubelet"), condition("DeletionByTaintManager"),
		lost(func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(s.Now)) }),
		lost(func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", ContainerStatuses: p.Status.ContainerStatuses}
		}))
	want := []time.Duration{1, 2, 4, 8, 0}
	for i := range want {
		if len(pauses) != len(want) || pauses[i] != want[i]*time.Second {
			t.Fatalf("pauses %v, want %v s, and no other attempt", pauses, want)
		}
	}
	st := s.Task.Status
	if st.Phase != v1alpha1.PhaseDeadLettered || st.Failures != 0 || st.Disruptions != 5 || len(st.History) != 5 {
		t.Errorf("status %+v", st)
	}
}

// TestCase05ARefusalOfTheKubeletsUsesNoAttempt: it took the Pod from the scheduler, and had no room after all.
func TestCase05ARefusalOfTheKubeletsUsesNoAttempt(t *testing.T) {
	s := settled(t, given(granted, onPod(func(p *corev1.Pod) {
		p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "node has no room"}
	})))
	if st := s.Task.Status; st.Failures != 0 || st.Disruptions != 1 || lastOf(st.History).Reason != ReasonPodFailed {
		t.Errorf("status %+v", st)
	}
}

func TestCase07APoisonTaskIsGivenUpAfterItsAttemptsAndSaysThatItsWorkerVanished(t *testing.T) {
	s := given(onTask(func(t *v1alpha1.LeasedTask) { noJitter(t); t.Spec.Retry.MaxAttempts = 3 }))
	pauses := attempts(t, s, workerDied(137, "Error", ""))
	if len(pauses) != 3 || pauses[0] != time.Second || pauses[1] != 2*time.Second {
		t.Fatalf("pauses %v, want three attempts", pauses)
	}
	dead := s.deadLetter()
	if s.Task.Status.Phase != v1alpha1.PhaseDeadLettered || dead.Spec.Attempts != 3 || !strings.Contains(dead.Spec.Message, "WorkerVanished") ||
		!strings.Contains(dead.Spec.Message, "its agent reported nothing") {
		t.Errorf("phase %s, dead letter %+v", s.Task.Status.Phase, dead.Spec)
	}
}

// TestCase17TheWorkersClockDecidesNothing: renewals are stamped by a clock that is wrong by minutes; what counts is when they were
// seen. A dead holder is replaced one duration after its last renewal was seen, which is well before two.
func TestCase17TheWorkersClockDecidesNothing(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, -10 * time.Minute, 0, 10 * time.Minute, time.Hour} {
		skewed := onTerm(func(term *fencing.Term) { term.RenewTime = now.Add(skew) })
		held := settled(t, given(onRecord, podRuns, skewed, since(29*time.Second)))
		if held.Task.Status.Phase != v1alpha1.PhaseRunning {
			t.Errorf("a clock wrong by %s: taken over early: %+v", skew, held.Task.Status)
		}
		dead := settled(t, given(onRecord, podRuns, skewed, since(30*time.Second)))
		if dead.Task.Status.Phase != v1alpha1.PhaseAvailable {
			t.Errorf("a clock wrong by %s: not taken over: %+v", skew, dead.Task.Status)
		}
	}
}
