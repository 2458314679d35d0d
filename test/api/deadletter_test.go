package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// fails plays the agent of the task's attempt, which ends it as failed.
func (s *scene) fails(task *v1alpha1.LeasedTask, message string) {
	s.Helper()
	a := s.agentOf(task)
	s.ok(a.claimTerm())
	s.ok(a.submit(fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, Message: message, ExitCode: new(int32(65))}))
}

func oneAttempt(task *v1alpha1.LeasedTask) { task.Spec.Retry.MaxAttempts = 1 }

// die lets a task fail for good, and returns its dead letter.
func (s *scene) die(name string, change ...func(*v1alpha1.LeasedTask)) (*v1alpha1.LeasedTask, *v1alpha1.DeadLetter) {
	s.Helper()
	task := s.start(name, append([]func(*v1alpha1.LeasedTask){oneAttempt}, change...)...)
	s.untilGranted(task, 1)
	s.fails(task, "cannot parse the payload")
	s.until(task, "dead-lettered", in(v1alpha1.PhaseDeadLettered, 1))
	dead := &v1alpha1.DeadLetter{}
	s.ok(admin.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: task.Status.DeadLetterName}, dead))
	return task, dead
}

// deadLetters are all of the scene.
func (s *scene) deadLetters() []v1alpha1.DeadLetter {
	s.Helper()
	list := &v1alpha1.DeadLetterList{}
	s.ok(admin.List(s.Context(), list, client.InNamespace(s.namespace)))
	return list.Items
}

// tasks are the names of all tasks of the scene.
func (s *scene) tasks() (names []string) {
	s.Helper()
	list := &v1alpha1.LeasedTaskList{}
	s.ok(admin.List(s.Context(), list, client.InNamespace(s.namespace)))
	for _, task := range list.Items {
		names = append(names, task.Name)
	}
	return names
}

// noDeadLetters is a quota without room for any.
func (s *scene) noDeadLetters() *corev1.ResourceQuota {
	s.Helper()
	none := corev1.ResourceList{"count/deadletters.leasehold.io": resource.MustParse("0")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: none}}
	s.ok(admin.Create(s.Context(), quota))
	quota.Status.Hard, quota.Status.Used = none, none
	s.ok(admin.Status().Update(s.Context(), quota)) // the controller-manager's part
	return quota
}

func TestCase30ADeadLetterThatCannotBeWrittenIsPendingAndNothingIsLost(t *testing.T) {
	s := set(t, nil)
	quota := s.noDeadLetters()
	payload := "{\"n\": 1.0,  \"s\":\"<& \u00e9 \U0001F600\"}\n"
	before := counted(t, "leasehold_dead_letters_total", "NonZeroExit")
	task := s.start("kept", oneAttempt, func(task *v1alpha1.LeasedTask) {
		task.Spec.Payload = &payload
		task.Spec.TTLSecondsAfterFinished = new(int32(0)) // Case 33: never before the dead letter exists
	})
	s.untilGranted(task, 1)
	s.fails(task, "cannot parse the payload")
	s.until(task, "waiting for its dead letter", waitsFor(v1alpha1.WaitingDeadLetterPending, "exceeded quota: none"))
	version := task.ResourceVersion
	time.Sleep(plan.RefusedRetry + 2*time.Second)
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(task), task))
	s.must(task.Status.Phase == v1alpha1.PhaseExpired && task.ResourceVersion == version && *task.Spec.Payload == payload,
		"version %s, then %s: %+v", version, task.ResourceVersion, task.Status)
	s.must(counted(t, "leasehold_dead_letters_total", "NonZeroExit") == before, "a dead letter was counted that was not written")

	s.ok(admin.Delete(t.Context(), quota))
	s.ok(s.Poll(t.Context(), patience, func() error { // the time to live is over at once
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(task), task); !apierrors.IsNotFound(err) {
			return errStillThere
		}
		return nil
	}))
	dead := s.deadLetters()
	s.must(len(dead) == 1 && dead[0].Spec.Task.UID == string(task.UID) && len(dead[0].OwnerReferences) == 0, "dead letters %+v", dead)
	spec := v1alpha1.LeasedTaskSpec{}
	s.ok(json.Unmarshal(dead[0].Spec.Task.Spec.Raw, &spec))
	s.must(*spec.Payload == payload, "payload %q, want %q", *spec.Payload, payload)
	s.must(counted(t, "leasehold_dead_letters_total", "NonZeroExit") == before+1, "the dead letter was not counted")
	s.untilEvent(dead[0].UID, "DeadLettered")
	s.untilEvent(task.UID, "DeadLettered")
}

// counted is the value of a counter for the value of its one label.
func counted(t *testing.T, name, label string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func (s *scene) untilEvent(about types.UID, reason string) {
	s.Helper()
	s.ok(s.Poll(s.Context(), patience, func() error {
		list := &eventsv1.EventList{}
		if err := admin.List(s.Context(), list, client.InNamespace(s.namespace)); err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Regarding.UID == about && e.Reason == reason }) {
			return fmt.Errorf("no event %s about %s", reason, about)
		}
		return nil
	}))
}

func TestADeadLetterOfAnotherTaskIsNotTakenForOurs(t *testing.T) {
	s := sideBySide(t, nil)
	task := s.start("mine", oneAttempt)
	other := &v1alpha1.DeadLetter{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: plan.Name("mine", "-"+plan.ShortHash(string(task.UID)))},
		Spec: v1alpha1.DeadLetterSpec{Task: v1alpha1.DeadLetterTask{Name: "other", UID: "other"}, IdempotencyKey: "other",
			Reason: "BudgetExceeded", Fingerprint: "0123456789abcdef"},
	}
	other.Spec.Task.Spec.Raw = []byte(`{}`)
	s.ok(admin.Create(t.Context(), other))
	s.untilGranted(task, 1)
	s.fails(task, "no")
	s.until(task, "waiting for its name", waitsFor(v1alpha1.WaitingDeadLetterPending, "keeps another task, of UID other"))
	s.ok(admin.Delete(t.Context(), other))
	s.until(task, "dead-lettered", in(v1alpha1.PhaseDeadLettered, 1))
	s.must(task.Status.DeadLetterName == other.Name, "dead letter %s", task.Status.DeadLetterName)
}

// TestCase14OneDeadLetterFromEveryCutPoint lets the operator die after each of its writes, the one between dead letter and
// phase among them.
func TestCase14OneDeadLetterFromEveryCutPoint(t *testing.T) {
	t.Parallel()
	for after := 0; ; after++ {
		m := newMortal(t, after)
		once := m.task.DeepCopy()
		oneAttempt(once)
		m.ok(admin.Patch(t.Context(), once, mergeFrom(m.task)))
		a := m.claimed(1)
		m.ok(a.submit(fencing.Submission{Outcome: fencing.Failed, Reason: fencing.ReasonNonZeroExit, Message: "no", ExitCode: new(int32(65))}))
		m.until("dead-lettered", in(v1alpha1.PhaseDeadLettered, 1))
		dead := m.deadLetters()
		m.must(len(dead) == 1 && dead[0].Spec.Task.UID == string(m.task.UID) && dead[0].Name == m.task.Status.DeadLetterName && len(dead[0].Spec.History) == 1,
			"dead after write %d (%s): %+v", after, m.lastWords, dead)
		if !m.hasDied {
			t.Logf("%d writes, a death after each", after)
			return
		}
	}
}

func TestCase30NothingIsWrittenIntoATerminatingNamespace(t *testing.T) {
	s := sideBySide(t, nil)
	quota := s.noDeadLetters()
	task := s.start("doomed", oneAttempt)
	s.untilGranted(task, 1)
	s.fails(task, "no")
	s.until(task, "waiting for its dead letter", waitsFor(v1alpha1.WaitingDeadLetterPending, "exceeded quota"))
	s.ok(admin.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	s.ok(admin.Delete(t.Context(), quota))
	time.Sleep(plan.RefusedRetry + 3*time.Second)
	s.must(len(s.deadLetters()) == 0, "a dead letter was written")
	s.ok(admin.Get(t.Context(), client.ObjectKeyFromObject(task), task))
	s.must(task.Status.Phase == v1alpha1.PhaseExpired, "phase %s", task.Status.Phase)
}

func TestCase32ASecretStaysAReferenceAndAPayloadStaysWhereItWasPut(t *testing.T) {
	s := sideBySide(t, nil)
	const canary, secret = "canary-7f3a", "swordfish-7f3a"
	s.ok(admin.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "db"}, StringData: map[string]string{"password": secret}}))
	task, dead := s.die("discreet", func(task *v1alpha1.LeasedTask) {
		task.Spec.Payload = new(canary)
		task.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "PASSWORD", ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "db"}, Key: "password"}}}}
	})
	s.must(strings.Contains(string(dead.Spec.Task.Spec.Raw), canary) && strings.Contains(string(dead.Spec.Task.Spec.Raw), "secretKeyRef"), "spec %s", dead.Spec.Task.Spec.Raw)
	s.untilEvent(dead.UID, "DeadLettered")
	events := &eventsv1.EventList{}
	s.ok(admin.List(t.Context(), events, client.InNamespace(s.namespace)))
	task.Spec, task.ManagedFields = v1alpha1.LeasedTaskSpec{}, nil
	dead.Spec.Task.Spec.Raw = nil
	for what, o := range map[string]any{"task": task, "dead letter": dead, "events": events} {
		raw, err := json.Marshal(o)
		s.ok(err)
		s.must(!strings.Contains(string(raw), canary) && !strings.Contains(string(raw), secret), "%s: %s", what, raw)
	}
}

// TestKubectlGetSaysWhatFailed reads the table that kubectl prints.
func TestKubectlGetSaysWhatFailed(t *testing.T) {
	s := sideBySide(t, nil)
	_, dead := s.die("shown")
	web, err := rest.HTTPClientFor(config)
	s.ok(err)
	s.ok(s.Poll(t.Context(), patience, func() error {
		url := strings.TrimSuffix(config.Host, "/") + "/apis/leasehold.io/v1alpha1/namespaces/" + s.namespace + "/deadletters/" + dead.Name
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		s.ok(err)
		request.Header.Set("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
		answer, err := web.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		table := metav1.Table{}
		s.ok(json.NewDecoder(answer.Body).Decode(&table))
		if got := fmt.Sprint(table.Rows[0].Cells[1:6]); got != "[shown BudgetExceeded NonZeroExit NotReplayed "+dead.Spec.Fingerprint+"]" {
			return fmt.Errorf("row %s", got)
		}
		return nil
	}))
}

func isReady(dead *v1alpha1.DeadLetter, reason string) bool {
	c := meta.FindStatusCondition(dead.Status.Conditions, v1alpha1.ConditionReady)
	return c != nil && c.Reason == reason
}
