package outage

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/cluster"
)

// Start is an attempt that started: its Pod was made. The API server's time is in whole seconds.
type Start struct {
	Task    string
	Attempt int
	At      time.Time
}

// Pause is one on record: from the end of an attempt, in whole seconds, to the time of the next.
type Pause struct {
	Task        string
	Ended, Next time.Time
}

// Change is one of the breaker's, in whole seconds.
type Change struct {
	At    time.Time
	State string
}

// Level is how many attempts were under way from a time on.
type Level struct {
	At       time.Time
	UnderWay int
}

// witness notes what the API server tells of a namespace.
type witness struct {
	mu       sync.Mutex
	starts   []Start
	pauses   []Pause
	changes  []Change
	levels   []Level
	pods     map[string]bool // by name
	ended    map[pauseID]bool
	underWay map[string]bool // by task
}

// pauseID names the pause after an attempt.
type pauseID struct {
	task    string
	attempt int32
}

// watchOver begins to watch; it ends with the context.
func watchOver(ctx context.Context, c *cluster.Cluster, namespace string) (*witness, error) {
	w := &witness{pods: map[string]bool{}, ended: map[pauseID]bool{}, underWay: map[string]bool{}}
	watched, err := cache.New(c.Config, cache.Options{Scheme: c.Scheme(), DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		return nil, err
	}
	for _, kind := range []client.Object{&corev1.Pod{}, &v1alpha1.LeasedTask{}, &v1alpha1.TaskQueue{}} {
		informer, err := watched.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: w.see, UpdateFunc: func(_, now any) { w.see(now) }})
		if err != nil {
			return nil, err
		}
	}
	go func() { _ = watched.Start(ctx) }() // an error is told by the wait for it
	if !watched.WaitForCacheSync(ctx) {
		return nil, errors.Join(errors.New("the watch did not begin"), ctx.Err())
	}
	return w, nil
}

func (w *witness) see(o any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := o.(type) {
	case *corev1.Pod:
		w.seePod(o)
	case *v1alpha1.LeasedTask:
		w.seeTask(o)
	case *v1alpha1.TaskQueue:
		w.seeBreaker(&o.Status.Breaker)
	}
}

func (w *witness) seePod(pod *corev1.Pod) {
	attempt, err := strconv.Atoi(pod.Annotations[v1alpha1.AttemptAnnotation])
	if err != nil || w.pods[pod.Name] {
		return
	}
	w.pods[pod.Name] = true
	w.starts = append(w.starts, Start{Task: pod.Annotations[v1alpha1.TaskNameAnnotation], Attempt: attempt, At: pod.CreationTimestamp.Time})
}

func (w *witness) seeTask(task *v1alpha1.LeasedTask) {
	isUnderWay := task.Status.Phase == v1alpha1.PhaseClaimed || task.Status.Phase == v1alpha1.PhaseRunning
	if isUnderWay != w.underWay[task.Name] {
		if w.underWay[task.Name] = true; !isUnderWay {
			delete(w.underWay, task.Name)
		}
		w.levels = append(w.levels, Level{At: time.Now(), UnderWay: len(w.underWay)})
	}
	next, history := task.Status.NextAttemptTime, task.Status.History
	id := pauseID{task.Name, task.Status.Attempt}
	if next == nil || len(history) == 0 || w.ended[id] {
		return
	}
	w.ended[id] = true
	w.pauses = append(w.pauses, Pause{Task: task.Name, Ended: history[len(history)-1].EndTime.Time, Next: next.Time})
}

func (w *witness) seeBreaker(b *v1alpha1.BreakerStatus) {
	if b.Since == nil || len(w.changes) > 0 && w.changes[len(w.changes)-1] == (Change{At: b.Since.Time, State: b.State}) {
		return
	}
	w.changes = append(w.changes, Change{At: b.Since.Time, State: b.State})
}
