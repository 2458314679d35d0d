package plan

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const missing = `MountVolume.SetUp failed for volume "leasehold-payload" : secret "nope" not found`

// mountTable: a Pod that has a node, and waits for its volumes. The grant is a minute old.
var mountTable = map[string]decision{
	"what is in the way is said": {
		given: []func(*Snapshot){granted, mounting, mountTrouble},
		want:  waitsToStart(RuleStarting, "VolumeMount", mountRefresh),
	},
	"nobody knows yet": {
		given: []func(*Snapshot){granted, mounting},
		want:  waitsToStart(RuleStarting, "PodStarting", mountRetry),
	},
	"it is asked soon after the grant": {
		given: []func(*Snapshot){granted, mounting, since(2 * time.Second)},
		want:  waitsToStart(RuleStarting, "PodStarting", mountPatience-2*time.Second),
	},
	"a Pod that had to wait for its node has its time from then on": {
		given: []func(*Snapshot){granted, mounting, scheduled(-2 * time.Second)},
		want:  waitsToStart(RuleStarting, "PodStarting", mountPatience-2*time.Second),
	},
	"the start timeout comes first": {
		given: []func(*Snapshot){granted, mounting, startSeconds(63)},
		want:  waitsToStart(RuleStarting, "PodStarting", 3*time.Second),
	},
	"volumes that are mounted are not asked about": {
		given: []func(*Snapshot){granted, mounting, podCondition(corev1.PodReadyToStartContainers, corev1.ConditionTrue, "")},
		want:  waitsToStart(RuleStarting, "PodStarting", left),
	},
	"the start timeout quotes it": {
		given: []func(*Snapshot){granted, mounting, mountTrouble, startSeconds(60)},
		want:  cannotStart("StartTimeout Pod", "delete "+holder),
	},
	"and a rule may name it": {
		given: []func(*Snapshot){granted, mounting, mountTrouble, startSeconds(60), retryRules(onReason("Ignore", "VolumeMount"))},
		want:  triesAgain("Disrupted StartTimeout Pod Ignore", "delete "+holder),
	},
}

func mounting(s *Snapshot) {
	s.Pods[0].Spec.NodeName = "node-1"
	s.Pods[0].Status = corev1.PodStatus{Phase: corev1.PodPending, StartTime: at(-50 * time.Second),
		Conditions:            []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}},
		InitContainerStatuses: []corev1.ContainerStatus{{Name: installer, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}}}
}

// scheduled is a Pod that got its node then.
func scheduled(then time.Duration) func(*Snapshot) {
	return onPod(func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: *at(then)})
	})
}

func mountTrouble(s *Snapshot) { s.MountTrouble = missing }

func TestWhenAPodIsAskedAboutItsVolumes(t *testing.T) {
	tests := map[string]struct {
		given []func(*Snapshot)
		want  bool
	}{
		"a minute after the grant": {[]func(*Snapshot){granted, mounting}, true},
		"by an older kubelet":      {[]func(*Snapshot){granted, mounting, onPod(func(p *corev1.Pod) { p.Status.Conditions = nil })}, true},
		"on a node for long":       {[]func(*Snapshot){granted, mounting, scheduled(-50 * time.Second)}, true},
		"on a node just now":       {[]func(*Snapshot){granted, mounting, scheduled(-4 * time.Second)}, false},
		"seen again just now":      {[]func(*Snapshot){granted, mounting, scheduled(-50 * time.Second), since(4 * time.Second)}, false},
		"by a clock that is ahead": {[]func(*Snapshot){granted, mounting, scheduled(time.Hour)}, true},
		"when its time is over":    {[]func(*Snapshot){granted, mounting, scheduled(-4 * time.Second), startSeconds(60)}, true},
		"too soon":                 {[]func(*Snapshot){granted, mounting, since(4 * time.Second)}, false},
		"without a node":           {[]func(*Snapshot){granted, mounting, onPod(func(p *corev1.Pod) { p.Spec.NodeName = "" })}, false},
		"without a Pod":            {[]func(*Snapshot){granted, noPod}, false},
		"once claimed":             {[]func(*Snapshot){claimed, mounting}, false},
		"on its way out":           {[]func(*Snapshot){granted, mounting, podDeleted}, false},
		"without a term":           {[]func(*Snapshot){granted, mounting, leaseGone}, false},
		"when a container ran": {[]func(*Snapshot){granted, mounting, onPod(func(p *corev1.Pod) {
			p.Status.Conditions = nil
			p.Status.InitContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		})}, false},
	}
	for name, test := range tests {
		if got := given(test.given...).IsMounting(); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestMountCauses(t *testing.T) {
	event := func(age time.Duration, message string) corev1.Event {
		return corev1.Event{Reason: "FailedMount", Message: message, LastTimestamp: metav1.NewTime(now.Add(-age))}
	}
	const all = "Unable to attach or mount volumes: unmounted volumes=[leasehold-payload]: timed out waiting for the condition"
	tests := map[string]struct {
		events []corev1.Event
		want   string
	}{
		"none":                        {nil, ""},
		"one":                         {[]corev1.Event{event(1, missing)}, missing},
		"the latest":                  {[]corev1.Event{event(9, "old"), event(1, missing), event(5, "older")}, missing},
		"the cause, not the symptom":  {[]corev1.Event{event(9, missing), event(1, all)}, missing},
		"the cause after the symptom": {[]corev1.Event{event(1, all), event(9, missing)}, missing},
		"the symptom, for want of it": {[]corev1.Event{event(1, all)}, all},
		"combined":                    {[]corev1.Event{event(1, "(combined from similar events): "+missing)}, missing},
		"a series":                    {[]corev1.Event{{Message: missing, Series: &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(now)}}, event(1, "old")}, missing},
	}
	for name, test := range tests {
		causes := MountCauses{}
		for i := range test.events {
			test.events[i].InvolvedObject.UID = "pod-1"
			causes.Add(&test.events[i])
			other := test.events[i]
			other.InvolvedObject.UID, other.Message, other.LastTimestamp = "pod-2", "of another Pod", metav1.NewTime(now.Add(time.Hour))
			causes.Add(&other)
		}
		if got := causes.Of("pod-1"); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
