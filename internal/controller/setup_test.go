package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
	"github.com/leasehold-io/leasehold/internal/fencing/mailbox"
)

// claimedLease is a term Lease that its agent holds.
func claimedLease(edits ...func(*coordinationv1.Lease)) *coordinationv1.Lease {
	g := mailbox.Grant{Holder: "pod-1", Attempt: 1, Duration: 10 * time.Second, Time: start}
	lease := g.Lease("default", "a", metav1.OwnerReference{Name: "a", UID: "uid-a"})
	lease.UID = "lease-1"
	lease.Annotations[fencing.ClaimAnnotation] = "nonce/node/uid"
	lease.Spec.RenewTime = new(metav1.NewMicroTime(start))
	for _, edit := range edits {
		edit(lease)
	}
	return lease
}

func renewed(l *coordinationv1.Lease) {
	l.Spec.RenewTime = new(metav1.NewMicroTime(start.Add(time.Second)))
	l.ResourceVersion = "2"
}

func TestIsMoreThanRenewal(t *testing.T) {
	unclaimed := func(l *coordinationv1.Lease) { delete(l.Annotations, fencing.ClaimAnnotation) }
	tests := map[string]struct {
		before, after *coordinationv1.Lease
		want          bool
	}{
		"renewed":               {claimedLease(), claimedLease(renewed), false},
		"seen again":            {claimedLease(), claimedLease(), false},
		"another annotation":    {claimedLease(), claimedLease(func(l *coordinationv1.Lease) { l.Annotations["x"] = "y" }), false},
		"with progress":         {claimedLease(), claimedLease(renewed, func(l *coordinationv1.Lease) { l.Annotations[fencing.ProgressAnnotation] = "{}" }), true},
		"with a checkpoint":     {claimedLease(), claimedLease(renewed, func(l *coordinationv1.Lease) { l.Annotations[fencing.CheckpointAnnotation] = "x" }), false},
		"claimed":               {claimedLease(unclaimed), claimedLease(), true},
		"submitted":             {claimedLease(), claimedLease(func(l *coordinationv1.Lease) { l.Annotations[fencing.SubmissionAnnotation] = "{}" }), true},
		"told to stop":          {claimedLease(), claimedLease(func(l *coordinationv1.Lease) { l.Annotations[fencing.StopAnnotation] = "{}" }), true},
		"revoked":               {claimedLease(), claimedLease(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = new("") }), true},
		"holder removed":        {claimedLease(), claimedLease(func(l *coordinationv1.Lease) { l.Spec.HolderIdentity = nil }), true},
		"granted again":         {claimedLease(), claimedLease(unclaimed, func(l *coordinationv1.Lease) { l.Spec.LeaseTransitions = new(int32(2)) }), true},
		"renewed and submitted": {claimedLease(), claimedLease(renewed, func(l *coordinationv1.Lease) { l.Annotations[fencing.SubmissionAnnotation] = "{}" }), true},
		"deleted and made anew between two looks": {claimedLease(), claimedLease(func(l *coordinationv1.Lease) { l.UID = "lease-2" }), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := isMoreThanRenewal(event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}); got != test.want {
				t.Errorf("more than a renewal: %t, want %t", got, test.want)
			}
		})
	}
	if !isMoreThanRenewal(event.UpdateEvent{ObjectOld: &corev1.Pod{}, ObjectNew: &corev1.Pod{}}) {
		t.Error("what is no Lease is worth a pass")
	}
}

func TestTaskOfPod(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.TaskLabel: "uid-a"}}}
	if diff := cmp.Diff([]string{"uid-a"}, taskOfPod(pod)); diff != "" {
		t.Errorf("index of our Pod (-want +got):\n%s", diff)
	}
	if got := taskOfPod(&corev1.Pod{}); len(got) > 0 {
		t.Errorf("index of another Pod: %v", got)
	}
}

// TestLeasesAreObserved: adds, updates and deletions, seen or missed, reach the observer.
func TestLeasesAreObserved(t *testing.T) {
	w := newWatcher()
	handler := (&Reconciler{Observer: w.Observer, Clock: w.clock}).observeLeases()
	since := func() time.Duration { return w.see(taskNamed("a", "uid-a"), mailbox.Read(claimedLease(renewed))) }

	handler.OnAdd(claimedLease(), true)
	w.pass(2 * time.Second)
	handler.OnUpdate(claimedLease(), claimedLease(renewed))
	w.pass(3 * time.Second)
	if got := since(); got != 2*time.Second {
		t.Errorf("renewal seen at %s, want 2s", got)
	}
	handler.OnDelete(claimedLease(renewed))
	if got := since(); got != 5*time.Second {
		t.Errorf("after a deletion, seen at %s, want 5s", got)
	}
	w.pass(time.Second)
	handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "default/lh", Obj: claimedLease(renewed)})
	if got := since(); got != 6*time.Second {
		t.Errorf("after a missed deletion, seen at %s, want 6s", got)
	}
	if _, known := w.seen[types.UID("uid-a")]; !known {
		t.Error("the task is not known")
	}
}
