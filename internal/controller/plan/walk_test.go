package plan

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// walks is how many rounds of rapid's own number of walks are made.
const walks = 30

// TestWalk lets a task live through whatever may happen: controllers that crash or freeze between any two reads and writes,
// stale caches, workers that finish, fail, freeze, die or are cut off, Pods deleted, evicted or lost, a Lease deleted by
// hand, lost and late messages. The checks of walk_check_test.go hold at every write, and once the faults stop the task
// finishes, driven by nothing but events and the times that plans ask for.
func TestWalk(t *testing.T) {
	var mu sync.Mutex
	rules := map[Rule]int{}
	for i := range walks {
		t.Run(fmt.Sprint(i), rapid.MakeCheck(func(t *rapid.T) {
			w := newWorld(t)
			w.ledger.rules, w.ledger.accepted = map[Rule]int{}, map[fencing.Token]fencing.Submission{}
			defer w.stopAll()
			for range 5 { // about 150 events
				t.Repeat(w.events())
			}
			w.settle()
			mu.Lock()
			defer mu.Unlock()
			for rule, n := range w.ledger.rules {
				rules[rule] += n
			}
		}))
	}
	t.Logf("rules that decided: %v", rules)
}

// events are the steps of a walk, by name. The more frequent ones stand more than once.
func (w *world) events() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"pass":             func(*rapid.T) { w.pass() },
		"stale pass":       func(*rapid.T) { w.stalePass() },
		"stale pass again": func(*rapid.T) { w.stalePass() },
		"stale pass too":   func(*rapid.T) { w.stalePass() },
		"deliver task":     func(*rapid.T) { w.deliver(1000, 0, 0) },
		"deliver Lease":    func(*rapid.T) { w.deliver(0, 1, 0) },
		"deliver Pods":     func(*rapid.T) { w.deliver(0, 0, 1) },
		"deliver all":      func(*rapid.T) { w.deliverAll() },
		"sync":             func(*rapid.T) { w.sync() },
		"sync again":       func(*rapid.T) { w.sync() },
		"advance":          func(*rapid.T) { w.advance(time.Duration(1+w.upTo(4)) * time.Second) },
		"wait": func(*rapid.T) {
			w.advance(rapid.SampledFrom([]time.Duration{6, 11, 35, 61}).Draw(w.T, "seconds") * time.Second)
		},
		"thaw leader":  func(*rapid.T) { w.resume() },
		"new leader":   func(*rapid.T) { w.elect() },
		"arrive":       func(*rapid.T) { w.arrive() },
		"finish":       func(*rapid.T) { w.finish() },
		"die":          func(*rapid.T) { w.each(stageWorking, func(p *worker) { p.kill() }) },
		"die early":    func(*rapid.T) { w.each(stageClaiming, func(p *worker) { p.kill() }) },
		"die late":     func(*rapid.T) { w.each(stageSubmitting, func(p *worker) { p.kill() }) },
		"freeze":       func(*rapid.T) { w.each(stageWorking, func(p *worker) { p.isFrozen, p.wasFrozen = true, true }) },
		"thaw":         func(*rapid.T) { w.thaw() },
		"cut":          func(*rapid.T) { w.each("", func(p *worker) { p.isCut = true }) },
		"heal":         func(*rapid.T) { w.heal() },
		"delete Pod":   func(*rapid.T) { w.each("", (*worker).deletePod) },
		"lose Pod":     func(*rapid.T) { w.each("", func(p *worker) { p.editPod(p.pod.UID, nil) }) },
		"evict":        func(*rapid.T) { w.each("", (*worker).evict) },
		"restart":      func(*rapid.T) { w.each(stageEnded, (*worker).restart) },
		"delete Lease": func(*rapid.T) { w.deleteLease() },
		"weather":      func(*rapid.T) { w.changeWeather() },
		"fair":         func(*rapid.T) { w.weather = weather{} },
	}
}

func (w *world) upTo(n int) int { return rapid.IntRange(0, n).Draw(w.T, "n") }

// pass begins a pass that may end anywhere: done, crashed, or frozen. Others act in between.
func (w *world) pass() {
	stopAfter := w.upTo(7)
	isCrash := rapid.Bool().Draw(w.T, "crash")
	p := w.begin()
	for i := 0; ; i++ {
		if _, more := p.next(); !more {
			return
		}
		switch {
		case i < stopAfter:
			if rapid.IntRange(0, 3).Draw(w.T, "meanwhile") == 0 {
				w.advance(500 * time.Millisecond)
			}
		case isCrash:
			w.note("the controller crashes")
			p.stop()
			w.elect()
			return
		default:
			w.note("the controller freezes, another leads")
			w.parked = append(w.parked, p)
			w.elect()
			return
		}
	}
}

// stalePass is a pass on caches of which one may be far behind another.
func (w *world) stalePass() {
	w.deliver(w.upTo(2), w.upTo(2), w.upTo(2))
	w.pass()
}

// sync is a pass without trouble on what the caches hold by now.
func (w *world) sync() {
	w.deliverAll()
	if w.leader.isDue(w.clock) {
		w.run(w.begin())
	}
}

func (w *world) run(p *parked) {
	for more := true; more; {
		_, more = p.next()
	}
}

func (w *world) deliverAll() { w.deliver(1000, 1000, 1000) }

func (w *world) resume() {
	if len(w.parked) == 0 {
		return
	}
	p := w.parked[0]
	w.parked = w.parked[1:]
	w.note("a frozen controller goes on")
	w.run(p)
}

func (w *world) stopAll() {
	for _, p := range w.parked {
		p.stop()
	}
}

// each lets something happen to one worker in the given stage; empty: in any but the last.
func (w *world) each(in stage, happen func(*worker)) {
	var able []*worker
	for _, p := range w.workers {
		if p.stage == in || in == "" && p.stage != stageEnded {
			able = append(able, p)
		}
	}
	if len(able) > 0 {
		happen(rapid.SampledFrom(able).Draw(w.T, "worker"))
	}
}

func (w *world) finish() {
	w.each(stageWorking, func(p *worker) {
		if !p.isFrozen {
			p.say(rapid.SampledFrom([]fencing.Outcome{fencing.Succeeded, fencing.Failed, fencing.Failed, fencing.Interrupted}).Draw(w.T, "outcome"), "ByDraw", p.clock)
		}
	})
}

func (w *world) thaw() {
	for _, p := range w.workers {
		p.isFrozen = false
	}
}

func (w *world) heal() {
	for _, p := range w.workers {
		p.isCut = false
	}
}

func (p *worker) deletePod() {
	p.note("somebody deletes %s", p.pod.Name)
	p.editPod(p.pod.UID, func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.NewTime(p.clock)) })
}

func (p *worker) evict() {
	if p.isCut || p.isFrozen || p.current() == nil {
		return
	}
	p.editPod(p.pod.UID, func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted"
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet"}}
	})
	p.kill()
}

// restart is a second process in the same Pod, which a kubelet that lost its records may start before it reported the first.
func (p *worker) restart() {
	if p.isReported || p.isCut || p.current() == nil || p.current().DeletionTimestamp != nil {
		return
	}
	again := *p
	again.stage, again.claim.Nonce, again.stopBy, again.word = stageClaiming, p.claim.Nonce+"'", time.Time{}, nil
	p.isReported = true // the kubelet speaks of the second one from now on
	p.workers = append(p.workers, &again)
	p.note("%s restarts in place", p.pod.Name)
}

func (w *world) arrive() {
	if len(w.inFlight) > 0 {
		late := w.inFlight[0]
		w.inFlight = w.inFlight[1:]
		late()
	}
}

func (w *world) deleteLease() {
	if t := w.term.live(); t != nil && rapid.IntRange(0, 2).Draw(w.T, "delete") == 0 {
		w.note("somebody deletes the Lease")
		w.nextRevision()
		w.term.write(nil)
		w.ledger.won = 0
	}
}

func (w *world) changeWeather() {
	w.weather = weather{isLossy: rapid.Bool().Draw(w.T, "lossy")}
	switch w.upTo(6) {
	case 0:
		w.weather.problem = &GrantProblem{Reason: v1alpha1.WaitingEpochMissing, Message: "no epoch"}
	case 1:
		w.weather.refusal = &PodRefusal{Kind: RefusedQuota, Message: "exceeded quota"}
	case 2:
		w.weather.refusal = &PodRefusal{Kind: RefusedPolicy, Message: "violates PodSecurity"}
	case 3:
		w.weather.refusal = &PodRefusal{Kind: RefusedTaken, Message: "taken"}
	}
}

// settle lets the faults stop and the task finish. Nothing but events and timers starts a pass.
func (w *world) settle() {
	w.note("the faults stop")
	w.weather = weather{}
	w.thaw()
	w.heal()
	for len(w.parked) > 0 {
		w.resume()
	}
	for len(w.inFlight) > 0 {
		w.arrive()
	}
	const bound = 15 * time.Minute
	for end := w.clock.Add(bound); w.clock.Before(end); w.advance(500 * time.Millisecond) {
		for range 10 {
			w.sync()
		}
		for _, p := range w.workers {
			if p.stage == stageWorking && p.clock.Sub(p.workedAt) > 3*time.Second {
				p.say(fencing.Succeeded, fencing.ReasonCompleted, p.clock)
			}
		}
		if w.task.live().Status.Phase.IsFinished() {
			w.checkEnd()
			return
		}
	}
	w.fail("the task is still %s, attempt %d, %s after the last fault", w.task.live().Status.Phase, w.task.live().Status.Attempt, bound)
}
