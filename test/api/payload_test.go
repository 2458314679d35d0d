package api

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// operatorLog is what the operator of this process has logged so far.
var operatorLog logged

type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func fromSecret(name, key string) func(*v1alpha1.LeasedTask) {
	return func(task *v1alpha1.LeasedTask) {
		task.Spec.PayloadFrom.SecretKeyRef = v1alpha1.PayloadKeyReference{Name: name, Key: key}
	}
}

// everything is all that the API server has in the scene's namespace, by kind, but its Secrets.
func (s *scene) everything() map[string]string {
	s.Helper()
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredNamespacedResources()
	s.ok(err)
	all := map[string]string{}
	for _, group := range kinds {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		s.ok(err)
		for _, kind := range group.APIResources {
			if kind.Kind == "Secret" || !strings.Contains(strings.Join(kind.Verbs, " "), "list") {
				continue
			}
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(gv.WithKind(kind.Kind))
			s.ok(admin.List(s.Context(), list, client.InNamespace(s.namespace)))
			for i := range list.Items {
				raw, err := json.Marshal(list.Items[i].Object)
				s.ok(err)
				all[gv.String()+" "+kind.Kind] += string(raw)
			}
		}
	}
	return all
}

// TestCase32APayloadFromASecretIsNowhereButInTheSecret: not in any object of the namespace, not in an event, not in the operator's log;
// of a failed task, its dead letter, its replay and the replay that got another payload.
func TestCase32APayloadFromASecretIsNowhereButInTheSecret(t *testing.T) {
	s := sideBySide(t, nil)
	const canary = "canary-58c1"
	s.ok(admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "order"}, StringData: map[string]string{"body": canary}}))
	_, dead := s.die("discreet", fromSecret("order", "body"))
	spec := v1alpha1.LeasedTaskSpec{}
	s.ok(json.Unmarshal(dead.Spec.Task.Spec.Raw, &spec))
	s.must(spec.PayloadFrom.SecretKeyRef == v1alpha1.PayloadKeyReference{Name: "order", Key: "body"} && spec.Payload == nil, "kept %s", dead.Spec.Task.Spec.Raw)

	s.ok(s.ask(admin, dead, `{"request": 1}`))
	again := s.replayOf(s.untilAnswered(dead, 1))
	s.must(again.Spec.PayloadFrom == spec.PayloadFrom && again.Spec.Payload == nil, "replay %+v", again.Spec)
	s.untilGranted(again, 1)
	s.untilPod(again)
	s.fails(again, "cannot parse the payload either")
	s.until(again, "dead-lettered", in(v1alpha1.PhaseDeadLettered, 1))

	s.ok(s.ask(admin, dead, `{"request": 2, "payload": "mended"}`))
	mended := s.replayOf(s.untilAnswered(dead, 2))
	s.must(!mended.Spec.HasPayloadSource() && *mended.Spec.Payload == "mended", "replay %+v", mended.Spec)
	s.untilGranted(mended, 1)
	s.must(s.untilPod(mended).Annotations[v1alpha1.PayloadAnnotation] == "mended", "Pod without its payload")

	s.untilEvent(dead.UID, "Replayed")
	all := s.everything()
	s.must(strings.Contains(all["v1 Pod"], `"secretName":"order"`) && len(all["v1 Event"]) > 0 && len(all["coordination.k8s.io/v1 Lease"]) > 0 && len(all) > 5, "looked at %d kinds only: %v", len(all), all)
	for kind, text := range all {
		s.must(!strings.Contains(text, canary) && !strings.Contains(text, "Y2FuYXJ5LTU4YzE"), "%s: %s", kind, text)
	}
	s.must(!strings.Contains(operatorLog.String(), canary), "the operator logs it")
}

// TestCase09APayloadThatIsMissingIsNamedAndOnceItIsThereTheTaskRuns: the test plays the kubelet, which tells in events what it cannot mount.
func TestCase09APayloadThatIsMissingIsNamedAndOnceItIsThereTheTaskRuns(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("early", fromSecret("nope", "body"))
	s.untilGranted(task, 1)
	granted, pod := time.Now(), s.untilPod(task)
	s.ok(admin.SubResource("binding").Create(t.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}))
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()})
	s.ok(admin.Status().Update(t.Context(), pod))
	const what = `MountVolume.SetUp failed for volume "leasehold-payload" : secret "nope" not found`
	s.ok(admin.Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: s.namespace, Name: "early.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: s.namespace, Name: pod.Name, UID: pod.UID},
		Type:           corev1.EventTypeWarning, Reason: "FailedMount", Message: what, LastTimestamp: metav1.Now(), Source: corev1.EventSource{Component: "kubelet"},
	}))
	s.until(task, "told", waitsFor(v1alpha1.WaitingVolumeMount, what))
	if took := time.Since(granted); took > 15*time.Second {
		t.Errorf("the cause is told after %s", took)
	}
	s.must(task.Status.StartTime == nil, "a start is recorded: %+v", task.Status)

	a := s.agentOf(task) // somebody has made the Secret
	s.ok(a.claimTerm())
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Succeeded, Reason: fencing.ReasonCompleted, ExitCode: new(int32(0))}))
	s.until(task, "completed", in(v1alpha1.PhaseCompleted, 1))
	s.must(task.Status.Failures == 0 && task.Status.Disruptions == 0, "status %+v", task.Status)
}

func TestCase09APayloadThatStaysMissingEndsTheTaskWithThatCause(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("never", fromSecret("nope", "body"), func(task *v1alpha1.LeasedTask) { task.Spec.Timeouts.StartSeconds = 8 })
	s.untilGranted(task, 1)
	pod := s.untilPod(task)
	s.ok(admin.Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: s.namespace, Name: "never.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: s.namespace, Name: pod.Name, UID: pod.UID},
		Type:           corev1.EventTypeWarning, Reason: "FailedMount", Message: `secret "nope" not found`, LastTimestamp: metav1.Now(),
	}))
	s.ok(admin.SubResource("binding").Create(t.Context(), pod, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}))
	s.until(task, "dead-lettered", in(v1alpha1.PhaseDeadLettered, 1))
	last := task.Status.History[0]
	s.must(last.Reason == "StartTimeout" && strings.Contains(last.Message, `VolumeMount: secret "nope" not found`), "entry %+v", last)
}
