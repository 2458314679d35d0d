package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// worker is the agent of one Pod, and its node.
type worker struct {
	pod   client.ObjectKey
	uid   types.UID
	task  string
	token int64
	claim fencing.Claim

	life    life
	renewed time.Time // start of the last renewal that was accepted
	isDone  bool      // a silent one's command had succeeded in time
	told    bool      // its Lease has told it to stop
	message string    // what the kubelet finds in the termination log
	isKnown bool      // the kubelet has told of its end
	isBound bool      // to a node: then its deletion waits for the kubelet
}

var successful = fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted}

// life is how far a worker is.
type life string

const (
	starting life = "starting"
	working  life = "working" // and renews
	silent   life = "silent"  // it works until its trust ends, and cannot be heard
	ended    life = "ended"
)

func newWorker(pod *corev1.Pod) *worker {
	token, err := strconv.ParseInt(pod.Annotations[v1alpha1.TokenAnnotation], 10, 64)
	if err != nil {
		panic(err) // the operator's Pods have one
	}
	return &worker{pod: client.ObjectKeyFromObject(pod), uid: pod.UID, task: pod.Labels[v1alpha1.TaskLabel], token: token, life: starting,
		claim: fencing.Claim{Nonce: "nonce", Node: node, PodUID: string(pod.UID)}}
}

var modelTiming = fencing.TimingFor(fencing.MinDuration)

// isAlive reports whether the command may run: that of a silent one until its agent has killed it.
func (x *worker) isAlive(now time.Time) bool {
	switch x.life {
	case working:
		return true
	case silent:
		return !x.isDone && now.Before(x.renewed.Add(modelTiming.Trust()+modelTiming.KillBudget))
	case starting, ended:
	}
	return false
}

// claims is the agent's first write. Whoever gets the term must be alone.
func (x *worker) claims(w *world) {
	if w.chance(75) {
		err := w.under.SubResource("binding").Create(w.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: x.pod.Namespace, Name: x.pod.Name}},
			&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: x.pod.Namespace, Name: x.pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}})
		x.isBound = err == nil
	}
	now := w.clock.Now()
	_, err := w.asPod(x, fencing.ClaimPatch(x.pod.Name, x.claim, now))
	w.tracef("%s: claims: %s", x.pod.Name, answer(err))
	if err != nil {
		x.ends(fencing.Fenced, fencing.DeliveryNone)
		return
	}
	x.life, x.renewed = working, now
	for _, other := range w.workers {
		if other != x && other.task == x.task && other.isAlive(now) {
			w.problemf("Pod %s runs, and so does Pod %s, under token %d", x.pod.Name, other.pod.Name, other.token)
		}
	}
}

func (x *worker) renewIfDue(w *world) {
	if x.life == working && !w.clock.Now().Before(x.renewed.Add(modelTiming.Renew)) {
		x.renews(w)
	}
}

func (x *worker) renews(w *world) {
	now := w.clock.Now()
	lease, err := w.asPod(x, fencing.RenewPatch(x.pod.Name, x.claim, now))
	if err != nil {
		w.tracef("%s: renews: %s", x.pod.Name, answer(err))
		x.submits(w, fencing.Submission{Outcome: fencing.Fenced, Reason: fencing.ReasonRenewalFailed})
		return
	}
	x.life, x.renewed = working, now
	x.told = x.told || lease.Annotations[fencing.StopAnnotation] != ""
}

// submits is the agent's last write, made when its command is dead.
func (x *worker) submits(w *world, s fencing.Submission) {
	s.Token = fencing.Token(x.token)
	if s.Outcome == fencing.Succeeded {
		s.Result = new(fmt.Sprint(x.token))
	}
	raw, err := s.Encode()
	if err != nil {
		panic(err)
	}
	_, err = w.asPod(x, fencing.SubmitPatch(x.pod.Name, x.claim, raw))
	w.tracef("%s: submits %s: %s", x.pod.Name, s.Outcome, answer(err))
	if err != nil {
		x.ends(s.Outcome, fencing.DeliveryRefused)
	} else {
		if w.isOver[x.token] {
			w.problemf("%s was taken from Pod %s under token %d, whose attempt was on record as over", s.Outcome, x.pod.Name, x.token)
		}
		w.ledgerOf(x.task).accepted(x.token, s.Outcome)
		x.ends(s.Outcome, fencing.DeliveryAccepted)
	}
	if x.isBound && w.chance(50) { // its kubelet may be quicker than the operators
		x.isTold(w, 0, "Completed", nil)
	}
}

func (x *worker) ends(outcome fencing.Outcome, delivery fencing.Delivery) {
	x.life = ended
	x.message = string(fencing.Report{Token: fencing.Token(x.token), Outcome: outcome, Delivery: delivery}.Encode())
}

// wakes is a silent worker that is heard again: in time it goes on, too late it says what became of its command.
func (x *worker) wakes(w *world) {
	switch {
	case x.isDone:
		x.submits(w, successful)
	case x.isAlive(w.clock.Now()):
		x.renews(w)
	default:
		x.submits(w, fencing.Submission{Outcome: fencing.Fenced, Reason: fencing.ReasonRenewalFailed})
	}
}

// heeds is a worker's answer to a stop; some have finished just before.
func (x *worker) heeds(w *world, otherwise fencing.Outcome) {
	if w.chance(25) {
		x.submits(w, successful)
		return
	}
	x.submits(w, fencing.Submission{Outcome: otherwise, Reason: fencing.ReasonStopped, ExitCode: new(int32(143))})
}

func (x *worker) fails(w *world) {
	x.submits(w, fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, ExitCode: new([]int32{1, 7}[w.random.IntN(2)])})
}

// dies is the end of the container that the agent has nothing to say about; the kubelet has seen it.
func (x *worker) dies(w *world, reason string, evicted bool) {
	x.life = ended
	w.tracef("%s: dies: %s, evicted: %v", x.pod.Name, reason, evicted)
	var conditions []corev1.PodCondition
	if evicted {
		conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "drained"}}
	}
	x.isTold(w, 137, reason, conditions)
}

// isTold writes the kubelet's account of the end.
func (x *worker) isTold(w *world, code int32, reason string, conditions []corev1.PodCondition) {
	now := metav1.Now()
	status := corev1.PodStatus{Phase: corev1.PodFailed, Conditions: conditions, ContainerStatuses: []corev1.ContainerStatus{{Name: "worker",
		State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: x.message,
			ContainerID: "containerd://1", StartedAt: now, FinishedAt: now}}}}}
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": x.uid}, "status": status})
	if err != nil {
		panic(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: x.pod.Namespace, Name: x.pod.Name}}
	err = w.under.Status().Patch(w.ctx, pod, client.RawPatch(types.MergePatchType, raw))
	x.isKnown = true
	w.tracef("kubelet: %s has ended: %s", x.pod.Name, answer(err))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		w.problemf("kubelet: %v", err)
	}
}

// lookedAfter is what the kubelet does about a Pod that is told to end, or whose container has ended.
func (x *worker) lookedAfter(w *world) {
	pod := &corev1.Pod{}
	if err := w.under.Get(w.ctx, x.pod, pod); err != nil || pod.UID != x.uid {
		if x.life == working { // its Pod was taken away behind its kubelet's back, which will not hear of it while it is cut off
			x.life = silent
		}
		x.isKnown = true
		return
	}
	isDeleted := pod.DeletionTimestamp != nil
	isPushed := pod.Spec.ActiveDeadlineSeconds != nil
	if x.life == working && (isDeleted || isPushed) {
		outcome := fencing.Interrupted
		if x.renews(w); x.life != working {
			return
		}
		if x.told {
			outcome = fencing.Cancelled
		}
		x.heeds(w, outcome)
	}
	if x.life == silent && (isDeleted || isPushed) { // cut off from the API server, not from its kubelet
		x.ends(fencing.Fenced, fencing.DeliveryUnknown)
	}
	if x.life == ended && !x.isKnown && x.isBound {
		x.isTold(w, 1, "Error", nil)
	}
	if isDeleted && (x.life == ended || x.life == starting) {
		x.life = ended
		err := w.under.Delete(w.ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &x.uid})
		w.tracef("kubelet: %s is gone: %s", x.pod.Name, answer(err))
	}
}

// vanishes is the deletion of the Pod, gracefully or by force.
func (x *worker) vanishes(w *world, byForce bool) {
	opts := []client.DeleteOption{client.Preconditions{UID: &x.uid}}
	if byForce {
		opts = append(opts, client.GracePeriodSeconds(0))
	}
	err := w.under.Delete(w.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: x.pod.Namespace, Name: x.pod.Name}}, opts...)
	w.tracef("somebody: deletes Pod %s, by force: %v: %s", x.pod.Name, byForce, answer(err))
	switch {
	case err != nil:
	case x.life == starting && (byForce || !x.isBound):
		x.life = ended
	case byForce && x.life == working && w.chance(50):
		x.silences(w)
	}
}

func (x *worker) silences(w *world) {
	x.life, x.isDone = silent, w.chance(30)
	w.tracef("%s: is not heard any more, had succeeded: %v", x.pod.Name, x.isDone)
}

// owner edits the spec, as whoever made the task does.
func (w *world) owner(task *modelTask, what, patch string) {
	err := w.under.Patch(w.ctx, w.object(task), client.RawPatch(types.MergePatchType, []byte(patch)))
	w.tracef("owner: %s %s: %s", what, task.key.Name, answer(err))
	if err != nil && !apierrors.IsInvalid(err) {
		w.problemf("owner: %v", err)
	}
}

func (w *world) object(task *modelTask) *v1alpha1.LeasedTask {
	return &v1alpha1.LeasedTask{ObjectMeta: metav1.ObjectMeta{Namespace: task.key.Namespace, Name: task.key.Name}}
}

// deletesLease is somebody who should not.
func (w *world) deletesLease(task *modelTask) {
	task.ledger.mu.Lock()
	task.ledger.leaseDeleted = true
	task.ledger.mu.Unlock()
	err := w.under.Delete(w.ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: task.key.Namespace, Name: mailbox.Name(task.uid)}})
	w.tracef("somebody: deletes the Lease of %s: %s", task.key.Name, answer(err))
}

func (w *world) ledgerOf(uid string) *ledger {
	for _, task := range w.tasks {
		if task.uid == uid {
			return task.ledger
		}
	}
	panic(errors.New("no task " + uid))
}

// turn is something that may happen, as often as its weight says.
type turn struct {
	weight int
	do     func(*world, *modelTask)
}

// any gives a turn to some worker of the task that is in the given life; to none if there is none.
func (w *world) any(task *modelTask, in life, do func(*worker)) {
	var fit []*worker
	for _, x := range w.workers {
		if x.task == task.uid && x.life == in {
			fit = append(fit, x)
		}
	}
	if len(fit) > 0 {
		do(fit[w.random.IntN(len(fit))])
	}
}

// others are the turns of everybody but the operators.
var others = []turn{
	{14, func(w *world, t *modelTask) { w.any(t, starting, func(x *worker) { x.claims(w) }) }},
	{3, func(w *world, t *modelTask) {
		w.any(t, working, func(x *worker) { x.submits(w, successful) })
	}},
	{6, func(w *world, t *modelTask) { w.any(t, working, func(x *worker) { x.fails(w) }) }},
	{4, func(w *world, t *modelTask) { w.any(t, working, func(x *worker) { x.silences(w) }) }},
	{4, func(w *world, t *modelTask) { w.any(t, silent, func(x *worker) { x.wakes(w) }) }},
	{3, func(w *world, t *modelTask) { w.any(t, working, func(x *worker) { x.dies(w, "Error", false) }) }},
	{2, func(w *world, t *modelTask) { w.any(t, starting, func(x *worker) { x.dies(w, "StartError", false) }) }},
	{1, func(w *world, t *modelTask) { w.any(t, working, func(x *worker) { x.dies(w, "OOMKilled", false) }) }},
	{2, func(w *world, t *modelTask) { w.any(t, working, func(x *worker) { x.dies(w, "Error", true) }) }},
	{2, func(w *world, t *modelTask) { w.any(t, working, func(x *worker) { x.vanishes(w, w.chance(50)) }) }},
	{1, func(w *world, t *modelTask) { w.any(t, starting, func(x *worker) { x.vanishes(w, w.chance(50)) }) }},
	{3, func(w *world, t *modelTask) { w.any(t, working, func(x *worker) { x.lookedAfter(w) }) }},
	{3, func(w *world, t *modelTask) { w.any(t, silent, func(x *worker) { x.lookedAfter(w) }) }},
	{4, func(w *world, t *modelTask) { w.any(t, ended, func(x *worker) { x.lookedAfter(w) }) }},
	{5, func(w *world, t *modelTask) {
		w.any(t, working, func(x *worker) {
			if x.told {
				x.heeds(w, fencing.Cancelled)
			}
		})
	}},
	{3, func(w *world, t *modelTask) { w.owner(t, "suspends", `{"spec":{"suspend":true}}`) }},
	{4, func(w *world, t *modelTask) { w.owner(t, "resumes", `{"spec":{"suspend":false}}`) }},
	{1, func(w *world, t *modelTask) {
		w.owner(t, "cancels", `{"spec":{"cancel":{"reason":"no longer needed"}}}`)
	}},
	{1, func(w *world, t *modelTask) { w.deletesLease(t) }},
}

func totalOf(turns []turn) (sum int) {
	for _, m := range turns {
		sum += m.weight
	}
	return sum
}

// happens makes one turn of the list.
func (w *world) happens(turns []turn, task *modelTask) {
	n := w.random.IntN(totalOf(turns))
	for _, m := range turns {
		if n -= m.weight; n < 0 {
			m.do(w, task)
			return
		}
	}
}
