package plan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// stage is how far a worker process has come.
type stage string

const (
	stageWaiting    stage = "waiting"    // its container has not started
	stageClaiming   stage = "claiming"   // the agent runs and has not claimed
	stageWorking    stage = "working"    // the child runs
	stageSubmitting stage = "submitting" // the tree is dead, the last word is on its way
	stageEnded      stage = "ended"      // the process is gone
)

// worker is one agent process in one Pod, and the kubelet's view of it.
type worker struct {
	*world
	pod     *corev1.Pod
	attempt int32
	token   fencing.Token
	claim   fencing.Claim
	timing  fencing.Timing // as its own drifting clock measures it

	stage     stage
	startAt   time.Time // when its container starts
	workedAt  time.Time // when its child started
	trusted   time.Time // start of its last successful renewal
	nextRenew time.Time
	word      *fencing.Submission // what it has to say
	sayAt     time.Time           // when its tree is dead
	stopBy    time.Time           // told to stop; killed then
	report    string              // its termination message
	exitCode  int32

	isFrozen   bool // the process does not run
	wasFrozen  bool // it did not, at some time since its last renewal
	isCut      bool // its node does not reach the API server, kubelet included
	isReported bool // the kubelet has reported the end
}

func newWorker(w *world, pod *corev1.Pod, task *v1alpha1.LeasedTask) *worker {
	delay := []time.Duration{0, 0, time.Second, 15 * time.Second, time.Hour}[w.random.IntN(5)]
	drift := 90 + w.random.Int64N(21)
	own := func(d time.Duration) time.Duration { return d * time.Duration(drift) / 100 }
	t := fencing.TimingFor(walkDuration)
	return &worker{
		world: w, pod: pod, attempt: task.Status.Attempt, token: fencing.Token(task.Status.FencingToken), stage: stageWaiting,
		claim:   fencing.Claim{Nonce: fmt.Sprint("n", w.revision), Node: "node-1", PodUID: string(pod.UID)},
		timing:  fencing.Timing{Renew: own(t.Renew), KillBudget: own(t.KillBudget), Duration: own(t.Duration), Margin: own(t.Margin)},
		startAt: w.clock.Add(delay),
	}
}

// isAlive reports whether the child may run now: between two ticks the kill of a fenced tree is exact.
func (p *worker) isAlive() bool {
	return p.stage == stageWorking && (p.isFrozen || p.wasFrozen || p.clock.Before(p.trusted.Add(p.timing.Trust()+p.timing.KillBudget)))
}

// tick is what the process and its kubelet do by themselves.
func (p *worker) tick() {
	p.kubelet()
	if p.isFrozen {
		return
	}
	switch p.stage {
	case stageWaiting, stageEnded:
	case stageClaiming:
		p.tryClaim()
	case stageWorking:
		p.work()
	case stageSubmitting:
		p.trySubmit()
	}
}

func (p *worker) kubelet() {
	if p.isCut {
		return
	}
	pod := p.current()
	switch {
	case pod == nil && p.stage == stageWaiting:
		p.stage = stageEnded
	case pod == nil && p.stopBy.IsZero():
		p.stop()
	case pod == nil:
	case pod.DeletionTimestamp != nil && p.stage == stageWaiting:
		p.stage = stageEnded
		p.editPod(p.pod.UID, nil)
	case pod.DeletionTimestamp != nil && p.stage == stageEnded:
		p.editPod(p.pod.UID, nil)
	case (pod.DeletionTimestamp != nil || pod.Spec.ActiveDeadlineSeconds != nil) && p.stopBy.IsZero():
		p.stop()
	case p.stage == stageWaiting && !p.clock.Before(p.startAt):
		p.start()
	case p.stage == stageEnded && !p.isReported:
		p.reportEnd()
	}
	if !p.stopBy.IsZero() && !p.clock.Before(p.stopBy) && !p.isFrozen && p.stage != stageEnded {
		p.kill()
	}
}

func (p *worker) current() *corev1.Pod {
	for _, pod := range p.pods.live() {
		if pod.UID == p.pod.UID {
			return pod
		}
	}
	return nil
}

func (p *worker) stop() { p.stopBy = p.clock.Add(7 * time.Second) }

func (p *worker) start() {
	p.stage = stageClaiming
	p.editPod(p.pod.UID, func(pod *corev1.Pod) {
		pod.Spec.NodeName = "node-1"
		pod.Status.Phase = corev1.PodRunning
		pod.Status.StartTime = new(metav1.NewTime(p.clock))
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main",
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(p.clock)}}}}
	})
}

func (p *worker) reportEnd() {
	p.isReported = p.editPod(p.pod.UID, func(pod *corev1.Pod) {
		if pod.Status.Phase != corev1.PodFailed {
			pod.Status.Phase = corev1.PodSucceeded
			if p.exitCode != 0 {
				pod.Status.Phase = corev1.PodFailed
			}
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ContainerID: "c", ExitCode: p.exitCode, Message: p.report, FinishedAt: metav1.NewTime(p.clock)}}}}
	})
}

// kill ends the process without a word.
func (p *worker) kill() {
	p.note("%s is killed", p.pod.Name)
	p.end(137, "")
}

func (p *worker) end(code int32, report string) {
	p.stage, p.exitCode, p.report = stageEnded, code, report
}

// answer is what the process learns of a request.
type answer string

const (
	yes     answer = "yes"
	no      answer = "no"
	nothing answer = "nothing"
)

// send makes a request that has the given effect when it arrives. It may get lost, arrive later, or its answer may get lost.
func (p *worker) send(effect func() bool) answer {
	if p.isCut {
		return nothing
	}
	fate := "ok"
	if p.weather.isLossy {
		fate = rapid.SampledFrom([]string{"ok", "lost", "late", "unanswered"}).Draw(p.T, "fate")
	}
	switch fate {
	case "lost":
		return nothing
	case "late":
		p.inFlight = append(p.inFlight, func() { effect() })
		return nothing
	}
	stands := effect()
	switch {
	case fate == "unanswered":
		return nothing
	case stands:
		return yes
	}
	return no
}

// isMine has the tests of a renewal and of a submission.
func (p *worker) isMine(t fencing.Term) bool {
	return t.Holder == p.pod.Name && claimOf(&t) == p.claim.String()
}

func (p *worker) tryClaim() {
	answer := p.send(func() bool {
		repeat := func(t fencing.Term) bool { return p.isMine(t) && t.Submission == nil }
		first := func(t fencing.Term) bool { return t.Holder == p.pod.Name && t.Claim == nil && t.Submission == nil }
		return p.change(repeat, p.renewed) || p.change(first, func(t *fencing.Term) {
			t.Claim = &p.claim
			p.renewed(t)
			p.note("%s claims", p.pod.Name)
		})
	})
	switch answer {
	case yes:
		p.stage, p.workedAt = stageWorking, p.clock
		p.trust()
	case no:
		p.end(1, string(fencing.Report{Token: p.token, Outcome: fencing.Fenced, Delivery: fencing.DeliveryNone}.Encode()))
	case nothing:
	}
}

func (p *worker) trust() {
	p.trusted, p.nextRenew, p.wasFrozen = p.clock, p.clock.Add(p.timing.Renew), false
}

func (p *worker) renewed(t *fencing.Term) {
	t.RenewTime = p.clock
	p.ledger.renewed = p.clock
}

func (p *worker) work() {
	switch fenceAt := p.trusted.Add(p.timing.Trust()); {
	case !p.clock.Before(fenceAt):
		p.say(fencing.Fenced, fencing.ReasonRenewalFailed, fenceAt.Add(p.timing.KillBudget))
	case !p.stopBy.IsZero():
		p.say(fencing.Interrupted, fencing.ReasonTerminated, p.clock)
	case !p.clock.Before(p.nextRenew):
		answer := p.send(func() bool {
			return p.change(func(t fencing.Term) bool { return p.isMine(t) && t.Submission == nil }, p.renewed)
		})
		switch answer {
		case yes:
			p.trust()
		case no:
			p.say(fencing.Fenced, fencing.ReasonRenewalFailed, p.clock)
		case nothing:
		}
	}
}

// say ends the child's tree, at the given time at the latest, and gives the agent its last word.
func (p *worker) say(outcome fencing.Outcome, reason string, deadBy time.Time) {
	p.stage, p.sayAt = stageSubmitting, deadBy
	p.word = &fencing.Submission{Token: p.token, Outcome: outcome, Reason: reason}
	if outcome == fencing.Succeeded {
		p.word.Result = new(fmt.Sprintf("result of attempt %d", p.attempt))
	}
	p.note("%s wants to submit %s", p.pod.Name, outcome)
}

func (p *worker) trySubmit() {
	if p.clock.Before(p.sayAt) {
		return
	}
	answer := p.send(func() bool {
		isRepeat := func(t fencing.Term) bool { return p.isMine(t) && t.Submission == p.word }
		return isRepeat(deref(p.term.live())) || p.change(func(t fencing.Term) bool { return p.isMine(t) && t.Submission == nil }, func(t *fencing.Term) {
			t.Submission = p.word
			p.accepted(t)
		})
	})
	report := fencing.Report{Token: p.token, Outcome: p.word.Outcome, Reason: p.word.Reason}
	switch answer {
	case yes:
		report.Delivery = fencing.DeliveryAccepted
	case no:
		report.Delivery = fencing.DeliveryRefused
	case nothing:
		return
	}
	p.note("%s has submitted %s: %s", p.pod.Name, p.word.Outcome, report.Delivery)
	code := int32(0)
	if p.word.Outcome != fencing.Succeeded {
		code = 1
	}
	p.end(code, string(report.Encode()))
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
