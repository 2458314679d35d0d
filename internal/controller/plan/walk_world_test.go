package plan

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// lagging is one kind at the API server: every version that was ever written, and how far the controller's cache has come.
// Versions are never changed once written.
type lagging[T any] struct {
	versions []T
	seen     int
}

func (l *lagging[T]) live() T   { return l.versions[len(l.versions)-1] }
func (l *lagging[T]) cached() T { return l.versions[l.seen] }
func (l *lagging[T]) write(v T) { l.versions = append(l.versions, v) }
func (l *lagging[T]) lag() int  { return len(l.versions) - 1 - l.seen }

// world is one task and all that acts on it: an API server, a controller with lagging caches, earlier controllers that froze
// in the middle of a pass, and the worker processes on the nodes. There is one true clock; workers' own clocks drift.
type world struct {
	*rapid.T
	// random is for draws in the middle of a pass, where rapid cannot be asked.
	random   *rand.Rand
	clock    time.Time
	revision int64
	task     lagging[*v1alpha1.LeasedTask]
	term     lagging[*fencing.Term]
	pods     lagging[[]*corev1.Pod]

	leader   *leader
	parked   []*parked
	workers  []*worker
	inFlight []func()

	weather weather
	ledger  ledger
	log     []string
}

// weather is what stands in the way of everybody for a while. The zero value is fair.
type weather struct {
	isLossy bool // requests, answers and messages get lost or late
	problem *GrantProblem
	refusal *PodRefusal
}

const walkDuration = fencing.MinDuration

func newWorld(t *rapid.T) *world {
	w := &world{T: t, clock: start, revision: 1000, random: rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))}
	task := newTask()
	task.Spec.Lease.DurationSeconds = int32(walkDuration / time.Second)
	task.Spec.Timeouts.StartSeconds = 60
	task.Spec.StopGraceSeconds = 2
	task.Spec.Retry.MaxAttempts = rapid.Int32Range(1, 3).Draw(t, "maxAttempts")
	task.Spec.Retry.MaxDisruptions = new(rapid.Int32Range(0, 4).Draw(t, "maxDisruptions"))
	task.Spec.Retry.Backoff.MaxSeconds = 4
	task.ResourceVersion = w.nextRevision()
	w.task.write(task)
	w.term.write(nil)
	w.pods.write(nil)
	w.elect()
	return w
}

func (w *world) nextRevision() string {
	w.revision++
	return fmt.Sprint(w.revision)
}

func (w *world) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%7.1fs  ", w.clock.Sub(start).Seconds())+fmt.Sprintf(format, args...))
}

// fail stops the walk and tells how it came to this.
func (w *world) fail(format string, args ...any) {
	w.Helper()
	for _, line := range w.log {
		w.Log(line)
	}
	w.Fatalf(format, args...)
}

// writeStatus is a compare-and-swap on the task, read back as JSON stores it.
func (w *world) writeStatus(decided *v1alpha1.LeasedTask, status *v1alpha1.LeasedTaskStatus) (*v1alpha1.LeasedTask, bool) {
	was := w.task.live()
	if was.ResourceVersion != decided.ResourceVersion {
		return nil, false
	}
	is := was.DeepCopy()
	is.Status = stored(w.T, status)
	is.ResourceVersion = w.nextRevision()
	w.checkStatus(&was.Status, &is.Status)
	w.task.write(is)
	return is, true
}

// stored is a status as the API server gives it back.
func stored(t interface{ Fatal(...any) }, status *v1alpha1.LeasedTaskStatus) (back v1alpha1.LeasedTaskStatus) {
	raw, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	return back
}

// grant is the controller's compare-and-swap that begins a term.
func (w *world) grant(g *mailbox.Grant) (fencing.Token, bool) {
	was := w.term.live()
	if (was == nil) != (g.Over == "") || was != nil && was.ResourceVersion != g.Over {
		return 0, false
	}
	w.checkGrant(was)
	is := &fencing.Term{Name: "lh", UID: "lease-1", Task: "uid-1", Holder: g.Holder, Duration: g.Duration, Attempt: g.Attempt, GrantTime: g.Time}
	if was != nil {
		is.UID = was.UID
	} else {
		is.UID = fmt.Sprintf("lease-%d", w.revision)
	}
	w.writeTerm(is)
	token, err := fencing.NewToken(1, is.ResourceVersion)
	if err != nil {
		w.Fatal(err)
	}
	return token, true
}

// change is a patch on the Lease: it takes effect if allowed says so of the Lease as it stands.
func (w *world) change(allowed func(fencing.Term) bool, edit func(*fencing.Term)) bool {
	was := w.term.live()
	if was == nil || !allowed(*was) {
		return false
	}
	is := *was
	edit(&is)
	w.writeTerm(&is)
	return true
}

func (w *world) writeTerm(term *fencing.Term) {
	term.ResourceVersion = w.nextRevision()
	w.term.write(term)
}

// revoke has the tests of fencing.RevokePatch.
func (w *world) revoke(seen *fencing.Term, isExpired bool) bool {
	return w.change(func(t fencing.Term) bool {
		return t.Holder == seen.Holder && claimOf(&t) == claimOf(seen) && t.Submission == nil &&
			(!isExpired || t.RenewTime.Equal(seen.RenewTime))
	}, func(t *fencing.Term) {
		w.checkRevoke(t)
		t.Holder = ""
	})
}

func claimOf(t *fencing.Term) string {
	if t.Claim == nil {
		return ""
	}
	return t.Claim.String()
}

// createPod makes the Pod and its process-to-be, unless the name is taken.
func (w *world) createPod(task *v1alpha1.LeasedTask) *PodRefusal {
	if w.weather.refusal != nil {
		return w.weather.refusal
	}
	pod := Pod(task, AgentImage{Name: "agent"})
	for _, other := range w.pods.live() {
		if other.Name == pod.Name {
			return nil // made by an earlier pass
		}
	}
	pod.UID = types.UID(fmt.Sprintf("pod-%d", w.revision))
	pod.ResourceVersion = w.nextRevision()
	w.pods.write(append(append([]*corev1.Pod{}, w.pods.live()...), pod))
	w.workers = append(w.workers, newWorker(w, pod, task))
	return nil
}

// editPod replaces a Pod by an edited copy; a nil edit removes it. It is false if there is no such Pod.
func (w *world) editPod(uid types.UID, edit func(*corev1.Pod)) bool {
	var next []*corev1.Pod
	found := false
	for _, pod := range w.pods.live() {
		if pod.UID != uid {
			next = append(next, pod)
			continue
		}
		found = true
		if edit != nil {
			pod = pod.DeepCopy()
			edit(pod)
			pod.ResourceVersion = w.nextRevision()
			next = append(next, pod)
		}
	}
	if found {
		w.pods.write(next)
	}
	return found
}

// advance lets time pass in steps that are short beside every interval of the protocol.
func (w *world) advance(d time.Duration) {
	const step = 500 * time.Millisecond
	for end := w.clock.Add(d); w.clock.Before(end); {
		w.clock = w.clock.Add(step)
		for _, worker := range w.workers {
			worker.tick()
		}
	}
}
