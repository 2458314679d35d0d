package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// spent is a Pod whose container ended so long ago, of a task that completed a second later.
func spent(name string, ago time.Duration, edits ...func(*Finished)) Finished {
	task := newTask()
	task.Status.Phase, task.Status.CompletionTime = v1alpha1.PhaseCompleted, at(time.Second-ago)
	f := Finished{Task: task, Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: *at(-24 * time.Hour)},
		Status: corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ContainerID: "c", FinishedAt: *at(-ago)}}}}}}}
	for _, edit := range edits {
		edit(&f)
	}
	return f
}

func endedAs(phase v1alpha1.Phase) func(*Finished) {
	return func(f *Finished) { f.Task.Status.Phase = phase }
}

// unseen is a Pod of which nobody saw how it ended: its node was lost, say.
func unseen(f *Finished) {
	f.Pod.Status.ContainerStatuses[0].State.Terminated.Reason = "ContainerStatusUnknown"
}

func TestCase33TheLastPodsStayAndTheOldestGo(t *testing.T) {
	tests := map[string]struct {
		keep  int
		pods  []Finished
		want  string
		again time.Duration
	}{
		"none":            {keep: 2},
		"as many as stay": {keep: 2, pods: []Finished{spent("a", time.Hour), spent("b", 2*time.Hour)}},
		"one more: the oldest, by its end and not by its making": {keep: 2, want: "b", pods: []Finished{
			spent("a", time.Hour, func(f *Finished) { f.Pod.CreationTimestamp = *at(-90 * time.Hour) }), spent("b", 3*time.Hour), spent("c", 2*time.Hour)}},
		"oldest first": {keep: 1, want: "c b", pods: []Finished{spent("a", time.Hour), spent("b", 2*time.Hour), spent("c", 3*time.Hour)}},
		"no Pod stays": {keep: 0, want: "b a", pods: []Finished{spent("a", time.Hour), spent("b", 2*time.Hour)}},
		"a task that goes on keeps its Pods, and they do not count": {keep: 1, pods: []Finished{
			spent("a", time.Hour), spent("b", 2*time.Hour, endedAs(v1alpha1.PhaseAvailable)), spent("c", 3*time.Hour, endedAs(v1alpha1.PhaseExpired)), spent("d", 4*time.Hour, endedAs(v1alpha1.PhaseRunning))}},
		"dead-lettered and cancelled ones go as any": {keep: 0, want: "b a", pods: []Finished{
			spent("a", time.Hour, endedAs(v1alpha1.PhaseCancelled)), spent("b", 2*time.Hour, endedAs(v1alpha1.PhaseDeadLettered))}},
		"one that has just ended waits for its record": {keep: 0, pods: []Finished{spent("a", 11*time.Second)}, again: 20 * time.Second},
		"and then goes": {keep: 0, want: "a", pods: []Finished{spent("a", 31*time.Second)}},
		"one that nobody saw end may have a worker that wakes": {keep: 0, pods: []Finished{spent("a", 61*time.Second, unseen)}, again: 4 * time.Minute},
		"not for ever": {keep: 0, want: "a", pods: []Finished{spent("a", 301*time.Second, unseen)}},
		"the first of those that wait is looked at first": {keep: 0, again: 5 * time.Second, pods: []Finished{spent("a", 11*time.Second), spent("b", 26*time.Second)}},
		"one that goes already is left to go":             {keep: 0, pods: []Finished{spent("a", time.Hour, func(f *Finished) { f.Pod.DeletionTimestamp = at(0) })}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pods, again := Surplus(test.pods, test.keep, now)
			var names []string
			for _, pod := range pods {
				names = append(names, pod.Name)
			}
			if got := strings.Join(names, " "); got != test.want || again != test.again {
				t.Errorf("deletes %q and looks again in %s, want %q and %s", got, again, test.want, test.again)
			}
		})
	}
}

func TestCase33TenThousandFinishedPodsComeDownToThoseThatStay(t *testing.T) {
	var all []Finished
	for i := range 10000 {
		all = append(all, spent(fmt.Sprintf("pod-%d", i), time.Hour+time.Duration(i*7919%10000)*time.Second))
	}
	pods, again := Surplus(all, 100, now)
	if len(pods) != 9900 || again != 0 {
		t.Fatalf("%d are deleted, again in %s", len(pods), again)
	}
	ends := make([]time.Time, 0, len(pods))
	for _, pod := range pods {
		ends = append(ends, endOf(Finished{Pod: pod}))
	}
	for i, end := range ends[1:] {
		if end.Before(ends[i]) {
			t.Fatalf("%s goes before %s", ends[i], end)
		}
	}
	if diff := cmp.Diff(now.Add(-time.Hour-100*time.Second).UTC(), ends[len(ends)-1].UTC()); diff != "" {
		t.Errorf("the youngest that goes (-want +got):\n%s", diff)
	}
}
