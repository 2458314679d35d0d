package simulator

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// kind is one kind of object: every version that was ever written, oldest first. Versions are never changed once written.
type kind[T any] []version[T]

type version[T any] struct {
	at    time.Duration
	value T
}

func (k kind[T]) live() T { return k[len(k)-1].value }

// apiServer is the only arbiter: one write after the other, each with a revision of its own.
type apiServer struct {
	*world
	revision    int64
	serial      int64 // of UIDs, which never come again
	epoch       int64 // 0: the ConfigMap is missing
	epochBefore int64 // it went missing
	task        kind[*v1alpha1.LeasedTask]
	term        kind[*fencing.Term]
	pods        kind[[]*corev1.Pod]
	dead        *v1alpha1.DeadLetter // the task's; no controller caches it
	backup      *backup
}

func (a *apiServer) begin(task *v1alpha1.LeasedTask) {
	a.revision, a.epoch = 1000, 1
	task.ResourceVersion = a.nextRevision()
	a.task = append(a.task, version[*v1alpha1.LeasedTask]{a.now, task})
	a.term = append(a.term, version[*fencing.Term]{a.now, nil})
	a.pods = append(a.pods, version[[]*corev1.Pod]{a.now, nil})
}

func (a *apiServer) nextRevision() string {
	a.revision++
	return strconv.FormatInt(a.revision, 10)
}

func (a *apiServer) nextUID(kind string) string {
	a.serial++
	return fmt.Sprintf("%s-%d", kind, a.serial)
}

// writeStatus is a compare-and-swap on the task.
func (a *apiServer) writeStatus(decided *v1alpha1.LeasedTask, status *v1alpha1.LeasedTaskStatus) (*v1alpha1.LeasedTask, bool) {
	was := a.task.live()
	if was.ResourceVersion != decided.ResourceVersion {
		return nil, false
	}
	is := new(*was) // what is shared is never changed
	is.Status = *stored(status)
	is.ResourceVersion = a.nextRevision()
	a.checkStatus(&was.Status, &is.Status)
	a.task = append(a.task, version[*v1alpha1.LeasedTask]{a.now, is})
	return is, true
}

// editSpec is what a person asks of the task.
func (a *apiServer) editSpec(edit func(*v1alpha1.LeasedTaskSpec)) {
	is := a.task.live().DeepCopy()
	edit(&is.Spec)
	is.Generation++
	is.ResourceVersion = a.nextRevision()
	a.task = append(a.task, version[*v1alpha1.LeasedTask]{a.now, is})
}

// bury makes the dead letter, unless it is there.
func (a *apiServer) bury(dead *v1alpha1.DeadLetter) {
	a.checkDead(dead)
	if a.dead == nil {
		a.nextRevision()
		a.dead = dead
	}
}

// grant is the compare-and-swap that begins a term.
func (a *apiServer) grant(task *v1alpha1.LeasedTask, g *mailbox.Grant) (*fencing.Term, bool) {
	was := a.term.live()
	if (was == nil) != (g.Over == "") || was != nil && was.ResourceVersion != g.Over {
		return nil, false
	}
	a.checkGrant(was, g.Holder)
	lease := g.Lease(task.Namespace, task.Name, plan.OwnerOf(task))
	lease.UID = types.UID(a.nextUID("lease"))
	if was != nil {
		lease.UID = types.UID(was.UID)
	}
	lease.Spec.AcquireTime = new(metav1.NewMicroTime(lease.Spec.AcquireTime.Truncate(time.Microsecond)))
	is := mailbox.Read(lease)
	a.writeTerm(is)
	return is, true
}

func (a *apiServer) writeTerm(term *fencing.Term) {
	revision := a.nextRevision()
	if term != nil {
		term.ResourceVersion = revision
	}
	a.term = append(a.term, version[*fencing.Term]{a.now, term})
}

// patchLease applies the bytes of one of the protocol's patches.
func (a *apiServer) patchLease(patch []byte, isOperators bool) reply {
	was := a.term.live()
	switch {
	case a.weather.isForbidden && !isOperators:
		return reply{answer: fencing.Refused, isDenied: true}
	case was == nil:
		return reply{answer: fencing.Refused}
	}
	is, answer := answered(*was, patch, isOperators)
	if answer != fencing.Accepted {
		return reply{answer: answer}
	}
	if !isUnchanged(was, &is) {
		a.checkTerm(was, &is)
		a.writeTerm(&is)
	}
	return reply{answer: answer, stop: is.Stop}
}

// answered is what the API server makes of a patch, and says to it.
func answered(was fencing.Term, patch []byte, isOperators bool) (fencing.Term, fencing.Answer) {
	is, ok := patched(was, patch)
	if !ok || !isOperators && isDenied(&was, &is) {
		return fencing.Term{}, fencing.Refused
	}
	return is, fencing.Accepted
}

// isUnchanged reports whether a patch changed nothing; then it makes no new version.
func isUnchanged(was, is *fencing.Term) bool {
	for _, path := range []string{holderPath, renewPath, claimPath, submissionPath, stopPath} {
		if !isSame(member(was, path), member(is, path)) {
			return false
		}
	}
	return true
}

func (a *apiServer) deleteLease() {
	a.ledger.ended(a.term.live())
	a.ledger.won = 0
	a.writeTerm(nil)
}

// createPod makes a Pod, and the container that will run it; nil: the name is taken.
func (a *apiServer) createPod(pod *corev1.Pod) *corev1.Pod {
	if a.podNamed(pod.Name) != nil {
		return nil
	}
	pod.UID = types.UID(a.nextUID("pod"))
	pod.ResourceVersion = a.nextRevision()
	pod.Spec = corev1.PodSpec{} // a cache keeps no more of it, and no decision reads more
	a.writePods(append(slices.Clip(a.pods.live()), pod))
	a.place(pod)
	return pod
}

func (a *apiServer) podNamed(name string) *corev1.Pod {
	for _, pod := range a.pods.live() {
		if pod.Name == name {
			return pod
		}
	}
	return nil
}

func (a *apiServer) pod(uid types.UID) *corev1.Pod {
	for _, pod := range a.pods.live() {
		if pod.UID == uid {
			return pod
		}
	}
	return nil
}

// editPod replaces a Pod by an edited copy; a nil edit removes it. It is false if there is no such Pod.
func (a *apiServer) editPod(uid types.UID, edit func(*corev1.Pod)) bool {
	var next []*corev1.Pod
	found := false
	for _, pod := range a.pods.live() {
		if pod.UID != uid {
			next = append(next, pod)
			continue
		}
		found = true
		if edit != nil {
			pod = pod.DeepCopy()
			edit(pod)
			pod.ResourceVersion = a.nextRevision()
			next = append(next, pod)
		}
	}
	if found {
		a.writePods(next)
	}
	return found
}

// writePods also rings at every kubelet.
func (a *apiServer) writePods(pods []*corev1.Pod) {
	a.pods = append(a.pods, version[[]*corev1.Pod]{a.now, pods})
	for _, b := range a.boxes {
		b.wakeIn(a.upTo(10*time.Millisecond, 500*time.Millisecond))
	}
}

func (a *apiServer) deletePod(uid types.UID) {
	a.editPod(uid, func(pod *corev1.Pod) {
		if pod.DeletionTimestamp == nil {
			pod.DeletionTimestamp = new(metav1.NewTime(epochStart.Add(a.now).Truncate(time.Second)))
		}
	})
}

// stored is a status as the API server gives it back: times lose what JSON does not keep. TestStored compares it with JSON.
func stored(status *v1alpha1.LeasedTaskStatus) *v1alpha1.LeasedTaskStatus {
	is := status.DeepCopy()
	seconds := func(t *metav1.Time) {
		if t != nil {
			t.Time = t.Truncate(time.Second)
		}
	}
	seconds(is.StartTime)
	seconds(is.CompletionTime)
	seconds(is.Holder.ClaimTime)
	if is.NextAttemptTime != nil {
		is.NextAttemptTime.Time = is.NextAttemptTime.Truncate(time.Microsecond)
	}
	for i := range is.History {
		seconds(is.History[i].StartTime)
		seconds(is.History[i].EndTime)
		seconds(is.History[i].LateSubmission.Time)
	}
	for i := range is.Conditions {
		seconds(&is.Conditions[i].LastTransitionTime)
	}
	return is
}
