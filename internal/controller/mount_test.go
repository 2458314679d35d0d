package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// kubelets are events of a cluster, as its API server lists them: page by page.
type kubelets struct {
	events  []corev1.Event
	page    int // of so many; 0: all at once
	err     error
	lists   map[string]int
	meet    chan struct{} // closed: a list waits no longer
	arrived chan struct{} // told by a list that waits
}

func (k *kubelets) client() client.Client {
	k.lists = map[string]int{}
	return interceptor.NewClient(nil, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			asked := client.ListOptions{}
			asked.ApplyOptions(opts)
			k.lists[asked.Namespace]++
			if k.meet != nil {
				k.arrived <- struct{}{}
				<-k.meet
			}
			if k.err != nil {
				return k.err
			}
			from := 0
			if asked.Continue != "" {
				if _, err := fmt.Sscan(asked.Continue, &from); err != nil {
					return err
				}
			}
			to := len(k.events)
			if k.page > 0 && from+k.page < to {
				to = from + k.page
				list.SetContinue(fmt.Sprint(to))
			}
			list.(*corev1.EventList).Items = k.events[from:to]
			return nil
		},
	})
}

func cannotMount(pod string) corev1.Event {
	return corev1.Event{Reason: "FailedMount", Message: pod + " lacks a Secret", LastTimestamp: metav1.NewTime(start),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", UID: types.UID(pod)}}
}

func looking(k *kubelets) (*Reconciler, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(start)
	return &Reconciler{Live: k.client(), Clock: clock}, clock
}

// TestOneLookServesAllPodsOfANamespace: a thousand Pods that an autoscaler's nodes arrive for at once, each with several updates.
func TestOneLookServesAllPodsOfANamespace(t *testing.T) {
	k := &kubelets{page: 7}
	for i := range 20 {
		k.events = append(k.events, cannotMount(fmt.Sprint("pod-", i)))
	}
	r, clock := looking(k)
	const pages = 3
	for range 50 {
		for i := range 20 {
			if got, want := r.mountTrouble(t.Context(), "default", fmt.Sprint("pod-", i)), fmt.Sprintf("pod-%d lacks a Secret", i); got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		}
		if got := r.mountTrouble(t.Context(), "default", "pod-20"); got != "" {
			t.Fatalf("a Pod of which nothing is said: %q", got)
		}
	}
	if n := k.lists["default"]; n != pages {
		t.Errorf("%d lists of events, want %d", n, pages)
	}
	r.mountTrouble(t.Context(), "other", "pod-0")
	if n := k.lists["other"]; n != pages {
		t.Errorf("%d lists of another namespace's, want %d", n, pages)
	}
	k.events = append(k.events, cannotMount("pod-20"))
	clock.Step(mountKept)
	if got := r.mountTrouble(t.Context(), "default", "pod-20"); got != "pod-20 lacks a Secret" || k.lists["default"] != 2*pages {
		t.Errorf("later: %q, %d lists, want %d", got, k.lists["default"], 2*pages)
	}
}

// TestWhoComesDuringALookDoesNotWait: a list takes long where there are many events, and may not hold up all workers.
func TestWhoComesDuringALookDoesNotWait(t *testing.T) {
	k := &kubelets{events: []corev1.Event{cannotMount("a")}}
	r, clock := looking(k)
	r.mountTrouble(t.Context(), "default", "a")
	k.meet, k.arrived = make(chan struct{}), make(chan struct{})
	k.events = append(k.events, cannotMount("b"))
	clock.Step(mountKept)
	answer := make(chan string)
	go func() { answer <- r.mountTrouble(t.Context(), "default", "b") }()
	<-k.arrived
	clock.Step(10 * mountKept)
	if a, b := r.mountTrouble(t.Context(), "default", "a"), r.mountTrouble(t.Context(), "default", "b"); a != "a lacks a Secret" || b != "" {
		t.Errorf("meanwhile %q and %q, want what was known", a, b)
	}
	close(k.meet)
	if b := <-answer; b != "b lacks a Secret" || k.lists["default"] != 2 {
		t.Errorf("who looks finds %q, with %d lists", b, k.lists["default"])
	}
}

// TestALookThatFailsIsNotRepeatedAtOnce: and what was known before is not forgotten for it.
func TestALookThatFailsIsNotRepeatedAtOnce(t *testing.T) {
	k := &kubelets{events: []corev1.Event{cannotMount("a")}}
	r, clock := looking(k)
	r.mountTrouble(t.Context(), "default", "a")
	k.err = errors.New("etcd is busy")
	clock.Step(mountKept)
	for range 3 {
		if got := r.mountTrouble(t.Context(), "default", "a"); got != "a lacks a Secret" {
			t.Errorf("got %q", got)
		}
	}
	if n := k.lists["default"]; n != 2 {
		t.Errorf("%d lists, want 2", n)
	}
}

// TestWhatIsKeptOfEventsIsBounded: in each namespace, and over all that ever were.
func TestWhatIsKeptOfEventsIsBounded(t *testing.T) {
	k := &kubelets{page: 1}
	for i := range 2 * mountPages {
		k.events = append(k.events, cannotMount(fmt.Sprint(i)))
	}
	r, clock := looking(k)
	for i := range 100 {
		r.mountTrouble(t.Context(), fmt.Sprint("namespace-", i), "0")
		clock.Step(mountKept)
	}
	if n := k.lists["namespace-0"]; n != mountPages {
		t.Errorf("%d pages are read", n)
	}
	if n := len(r.mounts.of); n > int(mountForgotten/mountKept)+1 {
		t.Errorf("%d namespaces are remembered", n)
	}
}
