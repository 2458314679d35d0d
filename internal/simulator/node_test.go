package simulator

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// node is the machine that one Pod runs on. Its clock may run 10 % fast, or as slow as leaves 10 % to the controllers' clocks.
type node struct {
	name  string
	clock clock

	isFrozen    bool // nothing on it runs
	frozenSince time.Duration
	standsStill bool // its clock does not go on meanwhile, as a paused virtual machine's
	isCutOut    bool // requests do not get out
	isCutIn     bool // answers do not get in
}

func (n *node) isCut() bool { return n.isCutOut || n.isCutIn }

// box is one Pod on its node: the kubelet's work for it, and its containers.
type box struct {
	*world
	node *node
	uid  types.UID
	name string
	// what the environment of the container says
	token   int64
	attempt int32
	isProbe bool

	startsAt  time.Duration
	wakesAt   time.Duration
	killsAt   time.Duration // told to stop; what lives then is killed
	processes []*process    // each but the first is a restart in place
	isGone    bool
	// isReported: the kubelet has reported the end of the latest process.
	isReported bool
}

// place gives a new Pod to a node. Some images take long to pull.
func (w *world) place(pod *corev1.Pod) {
	delays := []time.Duration{0, 0, 300 * time.Millisecond, time.Second, 3 * time.Second, 15 * time.Second}
	if !w.isSettling && w.oneIn(16) {
		delays = []time.Duration{time.Hour}
	}
	b := &box{world: w, uid: pod.UID, name: pod.Name, killsAt: never, startsAt: w.now + delays[w.random.IntN(len(delays))],
		node: &node{name: fmt.Sprintf("node-%d", len(w.boxes)+1), clock: clock{perMille: 918 + w.random.Int64N(1100-918+1)}}}
	if w.oneIn(4) {
		b.node.clock.perMille = 918 // nine tenths of the fastest controller's
	}
	if _, err := fmt.Sscan(pod.Annotations[v1alpha1.TokenAnnotation], &b.token); err != nil {
		b.startsAt = never // somebody else's Pod; it runs something else
	}
	if _, err := fmt.Sscan(pod.Annotations[v1alpha1.AttemptAnnotation], &b.attempt); err != nil {
		b.startsAt = never
	}
	b.isProbe = pod.Annotations[v1alpha1.ProbeForAnnotation] != ""
	b.wakesAt = b.startsAt
	w.boxes = append(w.boxes, b)
	w.actors = append(w.actors, b)
}

func (b *box) wakeIn(d time.Duration) { b.wakesAt = min(b.wakesAt, b.now+d) }

func (b *box) due() time.Duration {
	if b.isGone || b.node.isFrozen {
		return never
	}
	return min(b.wakesAt, b.killsAt)
}

func (b *box) act() {
	if b.now >= b.killsAt {
		b.killsAt = never
		for _, p := range b.processes {
			p.kill()
		}
	}
	b.wakesAt = never
	isStarted := len(b.processes) > 0
	switch isAlone := b.node.isCut() || b.weather.isDown; {
	case isAlone && isStarted:
	case isAlone && b.now < b.startsAt:
		b.wakesAt = b.startsAt
	case isAlone:
		b.run() // what a kubelet has seen once, it starts without asking again
	case isStarted:
		b.watch()
	default:
		b.watchWaiting()
	}
}

// watchWaiting looks after a Pod whose container has not been started.
func (b *box) watchWaiting() {
	pod := b.api.pod(b.uid)
	switch {
	case pod == nil:
		b.isGone = true
	case pod.DeletionTimestamp != nil:
		b.isGone = true
		b.api.editPod(b.uid, nil)
	case isFinished(pod):
		b.isGone = true
	case b.now < b.startsAt:
		b.wakesAt = b.startsAt
	default:
		b.run()
		b.wakeIn(0)
	}
}

// watch looks after one whose container was started.
func (b *box) watch() {
	pod := b.api.pod(b.uid)
	latest := b.processes[len(b.processes)-1]
	hasEnded := latest.stage == ended
	switch {
	case pod == nil && hasEnded:
		b.isGone = true
	case pod == nil, !hasEnded && (pod.DeletionTimestamp != nil || isFinished(pod)):
		b.stop()
	case !hasEnded && pod.Status.Phase == "":
		b.reportRunning()
	case hasEnded && !b.isReported:
		b.reportEnd(latest)
		b.wakeIn(100 * time.Millisecond)
	case hasEnded && pod.DeletionTimestamp != nil:
		b.isGone = true
		b.api.editPod(b.uid, nil)
	case !hasEnded && pod.Spec.ActiveDeadlineSeconds != nil:
		limit := pod.Status.StartTime.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second).Sub(epochStart)
		if b.wakesAt = limit; b.now >= limit {
			b.wakesAt = never
			b.stop()
		}
	}
}

func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// stop tells all processes of the Pod to end, and kills what lives after the Pod's grace.
func (b *box) stop() {
	if b.killsAt != never {
		return
	}
	b.killsAt = b.now + stopGrace + submitReserve
	for _, p := range b.processes {
		p.terminate()
	}
}

// run starts a process in the container.
func (b *box) run() {
	p := b.newProcess()
	b.processes, b.isReported, b.killsAt = append(b.processes, p), false, never
	b.world.processes = append(b.world.processes, p)
	b.actors = append(b.actors, p)
	b.note("%s starts on %s as %s", b.name, b.node.name, p.claim)
}

func (b *box) wall() metav1.Time { return metav1.NewTime(epochStart.Add(b.now).Truncate(time.Second)) }

func (b *box) reportRunning() {
	b.api.editPod(b.uid, func(pod *corev1.Pod) {
		pod.Spec.NodeName = b.node.name
		pod.Status.Phase = corev1.PodRunning
		if pod.Status.StartTime == nil {
			pod.Status.StartTime = new(b.wall())
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: b.container(),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: b.wall()}}}}
	})
}

// reportEnd is the kubelet's account of how the latest process ended. If that one was killed, nobody can tell that it was not
// the first, should that still live.
func (b *box) reportEnd(p *process) {
	for _, other := range b.processes {
		other.isForgotten = other.isForgotten || p.isDead && other != p
	}
	b.isReported = b.api.editPod(b.uid, func(pod *corev1.Pod) {
		if pod.Status.StartTime == nil {
			pod.Status.StartTime = new(b.wall())
		}
		if pod.Status.Phase != corev1.PodFailed {
			pod.Status.Phase = corev1.PodSucceeded
			if p.exitCode != 0 {
				pod.Status.Phase = corev1.PodFailed
			}
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: b.container(), State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ContainerID: "c", ExitCode: p.exitCode, Message: p.report, StartedAt: b.wall(), FinishedAt: b.wall()}}}}
	})
}

// container is the one that works.
func (b *box) container() string {
	if b.isProbe {
		return "look"
	}
	return "main"
}

// freeze stops everything on the node.
func (b *box) freeze(standsStill bool) {
	if b.node.isFrozen {
		return
	}
	b.note("%s freezes; its clock stands still: %t", b.node.name, standsStill)
	b.node.isFrozen, b.node.standsStill, b.node.frozenSince = true, standsStill, b.now
	for _, p := range b.processes {
		p.wasFrozen = true
	}
}

func (b *box) thaw() {
	if !b.node.isFrozen {
		return
	}
	b.note("%s goes on", b.node.name)
	b.node.isFrozen = false
	if b.node.standsStill {
		b.node.clock.stood += b.now - b.node.frozenSince
	}
	b.wakeIn(0)
	for _, p := range b.processes {
		p.thaw()
	}
}

func (b *box) cut(out, in bool) {
	b.note("%s is cut off: out %t, in %t", b.node.name, out, in)
	b.node.isCutOut, b.node.isCutIn = b.node.isCutOut || out, b.node.isCutIn || in
}

func (b *box) heal() {
	b.node.isCutOut, b.node.isCutIn = false, false
	b.wakeIn(0)
}

// evict ends a Pod as a kubelet short of memory does: at once, and with a reason.
func (b *box) evict() {
	if b.node.isCut() || b.node.isFrozen || b.weather.isDown || b.api.pod(b.uid) == nil {
		return
	}
	b.note("%s is evicted", b.name)
	b.api.editPod(b.uid, func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Evicted"
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet"}}
	})
	for _, p := range b.processes {
		p.kill()
	}
}

// collect is what Pod garbage collection does about a node that it takes for lost, whatever runs there.
func (b *box) collect() {
	if !b.node.isCut() && !b.node.isFrozen {
		return
	}
	b.note("%s is garbage-collected", b.name)
	b.api.editPod(b.uid, func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodFailed
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"}}
	})
}

// restart is another process in the same Pod, which a kubelet that lost its records may start.
func (b *box) restart() {
	pod := b.api.pod(b.uid)
	if len(b.processes) == 0 || b.isReported || b.isGone || b.node.isFrozen || b.node.isCut() || pod == nil || pod.DeletionTimestamp != nil {
		return
	}
	b.note("%s restarts in place", b.name)
	b.run()
}
