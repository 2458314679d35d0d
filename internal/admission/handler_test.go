package admission

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	testclock "k8s.io/utils/clock/testing"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// replica is one replica's webhook, with a clock that stands still, and a watch that shows what the test says.
type replica struct {
	*testing.T
	ledger *Ledger
	clock  *testclock.FakePassiveClock
	events taskEvents
	queues toolscache.ResourceEventHandler
	asked  int
}

func newReplica(t *testing.T) *replica {
	r := &replica{T: t, ledger: NewLedger(), clock: testclock.NewFakePassiveClock(start)}
	f := &feed{ledger: r.ledger, clock: r.clock}
	r.events, r.queues = taskEvents{f}, f.queueEvents()
	return r
}

// serve is the answer to a question over HTTP.
func (r *replica) serve(review admissionv1.AdmissionReview) *httptest.ResponseRecorder {
	body, err := json.Marshal(review)
	if err != nil {
		r.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	newHandler(r.ledger, r.clock).ServeHTTP(w, req)
	return w
}

func (r *replica) review(task *v1alpha1.LeasedTask, isDryRun bool) admissionv1.AdmissionReview {
	raw, err := json.Marshal(task)
	if err != nil {
		r.Fatal(err)
	}
	review := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "request", Namespace: task.Namespace, Operation: admissionv1.Create, DryRun: &isDryRun, Object: runtime.RawExtension{Raw: raw}}}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	return review
}

// ask is what the API server is told about a new task.
func (r *replica) ask(task *v1alpha1.LeasedTask) *admissionv1.AdmissionResponse {
	r.Helper()
	w := r.serve(r.review(task, false))
	answer := admissionv1.AdmissionReview{}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.Response == nil {
		r.Fatalf("%v: %s", err, w.Body)
	}
	return answer.Response
}

// accepts is how many of ten new tasks are accepted.
func (r *replica) accepts(tenant string) (n int) {
	r.Helper()
	for range 10 {
		r.asked++
		if r.ask(newTaskFor(fmt.Sprint("asked-", r.asked), tenant)).Allowed {
			n++
		}
	}
	return n
}

func newTaskFor(name, tenant string) *v1alpha1.LeasedTask {
	task := &v1alpha1.LeasedTask{}
	task.Namespace, task.Name, task.UID = "shop", name, types.UID("uid-"+name)
	task.CreationTimestamp = metav1.NewTime(start)
	task.Spec.QueueName, task.Spec.Tenant = "orders", tenant
	return task
}

func queueWith(a v1alpha1.AdmissionSpec) *v1alpha1.TaskQueue {
	queue := &v1alpha1.TaskQueue{Spec: v1alpha1.TaskQueueSpec{Admission: a}}
	queue.Namespace, queue.Name = "shop", "orders"
	return queue
}

func TestARefusalCarriesItsCodeItsLimitAndWhenToTryAgain(t *testing.T) {
	tests := map[string]struct {
		with       v1alpha1.RefusalAnswer
		wantCode   int32
		wantReason metav1.StatusReason
	}{
		"by default":         {"", 429, metav1.StatusReasonTooManyRequests},
		"TooManyRequests":    {v1alpha1.RefuseTooManyRequests, 429, metav1.StatusReasonTooManyRequests},
		"ServiceUnavailable": {v1alpha1.RefuseServiceUnavailable, 503, metav1.StatusReasonServiceUnavailable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newReplica(t)
			r.queues.OnAdd(queueWith(v1alpha1.AdmissionSpec{Rate: 1, PeriodSeconds: 20, RefuseWith: test.with}), true)
			r.ledger.Open(start)
			if got := r.ask(newTaskFor("a", "")); !got.Allowed {
				t.Fatalf("the first is refused: %+v", got)
			}
			got := r.ask(newTaskFor("b", ""))
			if got.Allowed || got.Result.Code != test.wantCode || got.Result.Reason != test.wantReason || got.Result.Details.RetryAfterSeconds != 20 {
				t.Errorf("%+v", got.Result)
			}
			for _, want := range []string{"TaskQueue orders", "more than 1 tasks in 20s", "spec.admission.rate", "in 20 s"} {
				if !strings.Contains(got.Result.Message, want) {
					t.Errorf("the message does not say %q: %s", want, got.Result.Message)
				}
			}
		})
	}
}

func TestAnOpenBreakerClosesTheQueueIfTheQueueSaysSo(t *testing.T) {
	tests := map[string]struct {
		says     v1alpha1.BreakerAdmission
		state    string
		override v1alpha1.BreakerOverride
		refuses  bool
		retry    int32
	}{
		"open":                                  {says: v1alpha1.BreakerRefuse, state: "Open", refuses: true, retry: 25},
		"held open":                             {says: v1alpha1.BreakerRefuse, state: "Open", override: v1alpha1.BreakerForcedOpen, refuses: true, retry: 60},
		"half-open":                             {says: v1alpha1.BreakerRefuse, state: "HalfOpen"},
		"held open, which no leader has read":   {says: v1alpha1.BreakerRefuse, state: "Closed", override: v1alpha1.BreakerForcedOpen, refuses: true, retry: 60},
		"held closed, which no leader has read": {says: v1alpha1.BreakerRefuse, state: "Open", override: v1alpha1.BreakerForcedClosed},
		"closed":                                {says: v1alpha1.BreakerRefuse, state: "Closed"},
		"open, by unset":                        {state: "Open"},
		"open, accepted":                        {says: v1alpha1.BreakerAccept, state: "Open"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newReplica(t)
			queue := queueWith(v1alpha1.AdmissionSpec{MaxPending: 100, WhileBreakerOpen: test.says})
			queue.Spec.Breaker = v1alpha1.BreakerSpec{SameFailures: 1, OpenSeconds: 30, Override: test.override}
			queue.Status.Breaker = v1alpha1.BreakerStatus{State: test.state, Since: new(metav1.NewTime(start.Add(-5 * time.Second)))}
			r.queues.OnAdd(queue, true)
			r.ledger.Open(start)
			got := r.ask(newTaskFor("a", ""))
			if got.Allowed == test.refuses || test.refuses && got.Result.Details.RetryAfterSeconds != test.retry {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestWhatIsNotKnownIsNotAnswered(t *testing.T) {
	r := newReplica(t)
	if w := r.serve(r.review(newTaskFor("a", ""), false)); w.Code != http.StatusServiceUnavailable {
		t.Errorf("answered with %d before the cache was there: %s", w.Code, w.Body)
	}
	r.ledger.Open(start)
	if got := r.ask(newTaskFor("a", "")); !got.Allowed {
		t.Errorf("a queue that does not exist takes every task: %+v", got.Result)
	}
	task := newTaskFor("a", "")
	task.Spec.QueueName = ""
	if got := r.ask(task); !got.Allowed {
		t.Errorf("%+v", got.Result)
	}
	broken := r.review(task, false)
	broken.Request.Object.Raw = []byte(`{"spec":[]}`)
	if w := r.serve(broken); !strings.Contains(w.Body.String(), `"code":400`) {
		t.Errorf("%s", w.Body)
	}
}

func TestADryRunIsAnsweredAndNotCharged(t *testing.T) {
	r := newReplica(t)
	r.queues.OnAdd(queueWith(v1alpha1.AdmissionSpec{Rate: 2}), true)
	r.ledger.Open(start)
	for range 5 {
		if w := r.serve(r.review(newTaskFor("a", ""), true)); !strings.Contains(w.Body.String(), `"allowed":true`) {
			t.Fatalf("%s", w.Body)
		}
	}
	if n := r.accepts(""); n != 2 {
		t.Errorf("%d were accepted after dry runs, want 2", n)
	}
}

func TestWhatTheWatchShowsIsPendingUntilItStartsOrIsGone(t *testing.T) {
	phase := func(task *v1alpha1.LeasedTask, phase v1alpha1.Phase) *v1alpha1.LeasedTask {
		task = task.DeepCopy()
		task.Status.Phase = phase
		return task
	}
	a, b := newTaskFor("a", ""), newTaskFor("b", "")
	elsewhere := b.DeepCopy()
	elsewhere.Spec.QueueName = "returns"
	tests := map[string]struct {
		shows func(taskEvents)
		want  int // accepted, of ten, where four may be pending
	}{
		"two wait":   {func(taskEvents) {}, 2},
		"accepted":   {func(e taskEvents) { e.OnUpdate(a, phase(a, v1alpha1.PhaseAvailable)) }, 2},
		"one starts": {func(e taskEvents) { e.OnUpdate(a, phase(a, v1alpha1.PhaseClaimed)) }, 3},
		"one fails and waits": {func(e taskEvents) {
			e.OnUpdate(a, phase(a, v1alpha1.PhaseRunning))
			e.OnUpdate(phase(a, v1alpha1.PhaseRunning), a)
		}, 2},
		"one ends at once":   {func(e taskEvents) { e.OnUpdate(a, phase(a, v1alpha1.PhaseCancelled)) }, 3},
		"one is deleted":     {func(e taskEvents) { e.OnDelete(a) }, 3},
		"its end was missed": {func(e taskEvents) { e.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: a}) }, 3},
		"one runs and is gone": {func(e taskEvents) {
			e.OnUpdate(a, phase(a, v1alpha1.PhaseRunning))
			e.OnDelete(phase(a, v1alpha1.PhaseRunning))
		}, 3},
		"one goes elsewhere":  {func(e taskEvents) { e.OnUpdate(b, elsewhere) }, 3},
		"one comes back":      {func(e taskEvents) { e.OnUpdate(b, elsewhere); e.OnUpdate(elsewhere, b) }, 2},
		"one is made":         {func(e taskEvents) { e.OnAdd(newTaskFor("c", ""), false) }, 1},
		"one is made running": {func(e taskEvents) { e.OnAdd(phase(newTaskFor("c", ""), v1alpha1.PhaseRunning), false) }, 2},
		"a resync":            {func(e taskEvents) { e.OnUpdate(a, a) }, 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newReplica(t)
			r.events.OnAdd(a, true)
			r.queues.OnAdd(queueWith(v1alpha1.AdmissionSpec{MaxPending: 4}), true)
			r.events.OnAdd(b, true)
			r.ledger.Open(start)
			test.shows(r.events)
			if got := r.accepts(""); got != test.want {
				t.Errorf("%d of ten were accepted, want %d", got, test.want)
			}
		})
	}
}

func TestAReplicaChargesForWhatAnotherHasAccepted(t *testing.T) {
	r := newReplica(t)
	r.queues.OnAdd(queueWith(v1alpha1.AdmissionSpec{Rate: 5, Tenant: v1alpha1.TenantAdmissionSpec{Rate: 4}}), true)
	past := newTaskFor("past", "big")
	r.events.OnAdd(past, true)
	r.ledger.Open(start)
	if got := r.ask(newTaskFor("own", "big")); !got.Allowed {
		t.Fatalf("%+v", got.Result)
	}
	r.events.OnAdd(newTaskFor("own", "big"), false) // charged already
	r.events.OnAdd(newTaskFor("other", "big"), false)
	if n := r.accepts("big"); n != 1 {
		t.Errorf("%d of the tenant were accepted, want 1: one is past, one was its own, one another replica's", n)
	}
	if n := r.accepts("small"); n != 1 {
		t.Errorf("%d of the queue were accepted, want 1", n)
	}
	r.clock.SetTime(start.Add(time.Second))
	if n := r.accepts("small"); n != 4 {
		t.Errorf("%d were accepted a second later, want 4", n)
	}
}

// TestWhatIsMadeWhileAReplicaStartsIsChargedOnce: a bucket that is charged for the past after the present would fill up for the time between
// them a second time. Nor is it of interest whether the queue or the task is seen first.
func TestWhatIsMadeWhileAReplicaStartsIsChargedOnce(t *testing.T) {
	queue := queueWith(v1alpha1.AdmissionSpec{Rate: 1, PeriodSeconds: 10, Burst: 8})
	old := newTaskFor("old", "")
	old.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
	for name, begins := range map[string][]func(*replica){
		"the queue first": {func(r *replica) { r.queues.OnAdd(queue, true) }, func(r *replica) { r.events.OnAdd(old, true) }, madeNow},
		"the queue last":  {func(r *replica) { r.events.OnAdd(old, true) }, madeNow, func(r *replica) { r.queues.OnAdd(queue, true) }},
		"the past last":   {func(r *replica) { r.queues.OnAdd(queue, true) }, madeNow, func(r *replica) { r.events.OnAdd(old, true) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplica(t)
			for _, step := range begins {
				step(r)
			}
			r.ledger.Open(start)
			if n := r.accepts(""); n != 2 {
				t.Errorf("%d were accepted, want 2: six of eight were made just now", n)
			}
		})
	}
}

// madeNow shows six new tasks.
func madeNow(r *replica) {
	for i := range 6 {
		r.events.OnAdd(newTaskFor(fmt.Sprint("new-", i), ""), false)
	}
}

// TestATenantsBurstIsNoMoreThanAllMayHave, if it is not given: as its rate would be, if that was above the queue's burst.
func TestATenantsBurstIsNoMoreThanAllMayHave(t *testing.T) {
	tests := map[string]struct {
		spec v1alpha1.AdmissionSpec
		want int
	}{
		"its rate":            {v1alpha1.AdmissionSpec{Rate: 9, Tenant: v1alpha1.TenantAdmissionSpec{Rate: 8}}, 8},
		"the queue's burst":   {v1alpha1.AdmissionSpec{Rate: 9, Burst: 3, Tenant: v1alpha1.TenantAdmissionSpec{Rate: 8}}, 3},
		"the queue's rate":    {v1alpha1.AdmissionSpec{Rate: 4, Tenant: v1alpha1.TenantAdmissionSpec{Rate: 60, PeriodSeconds: 60}}, 4},
		"its own":             {v1alpha1.AdmissionSpec{Rate: 9, Burst: 3, Tenant: v1alpha1.TenantAdmissionSpec{Rate: 8, Burst: 2}}, 2},
		"no limit of all":     {v1alpha1.AdmissionSpec{Tenant: v1alpha1.TenantAdmissionSpec{Rate: 7}}, 7},
		"no limit of its own": {v1alpha1.AdmissionSpec{Rate: 4}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := limitsOf(queueWith(test.spec)).Tenant.Rate
			if burst := cmp.Or(got.Burst, got.Count); burst != test.want {
				t.Errorf("burst %d, want %d", burst, test.want)
			}
		})
	}
}

func TestSeriesAndMemoryGoWithTheQueue(t *testing.T) {
	accepted.Reset()
	refused.Reset()
	r := newReplica(t)
	queue := queueWith(v1alpha1.AdmissionSpec{Rate: 3})
	r.queues.OnAdd(queue, true)
	r.ledger.Open(start)
	r.accepts("")
	if a, b := testutil.ToFloat64(accepted.WithLabelValues("shop", "orders")), testutil.ToFloat64(refused.WithLabelValues("shop", "orders", "Rate")); a != 3 || b != 7 {
		t.Errorf("accepted %v, refused %v, want 3 and 7", a, b)
	}
	task := newTaskFor("a", "")
	r.events.OnAdd(task, false)
	r.queues.OnDelete(queue)
	r.accepts("") // late questions
	if a, b := testutil.CollectAndCount(accepted), testutil.CollectAndCount(refused); a != 0 || b != 0 {
		t.Errorf("%d and %d series are left", a, b)
	}
	if n := len(r.ledger.queues); n != 1 {
		t.Errorf("%d queues are known, want the one that a task waits in", n)
	}
	r.events.OnDelete(task)
	for i := range 100 { // names that tasks make up
		task := newTaskFor("b", "")
		task.Spec.QueueName = fmt.Sprint("no-such-queue-", i)
		r.ask(task)
		r.events.OnAdd(task, false)
		r.events.OnDelete(task)
	}
	if n := len(r.ledger.queues); n != 0 {
		t.Errorf("%d queues are remembered", n)
	}
}

// A refusal costs no more than the decoding of the question, at any size of the task.
func BenchmarkRefuse(b *testing.B) {
	t := &testing.T{}
	r := newReplica(t)
	r.queues.OnAdd(queueWith(v1alpha1.AdmissionSpec{Rate: 1, PeriodSeconds: 3600}), true)
	r.ledger.Open(start)
	task := newTaskFor("a", "")
	task.Spec.Payload = new(strings.Repeat("x", 60_000))
	body, err := json.Marshal(r.review(task, false))
	if err != nil {
		b.Fatal(err)
	}
	h := newHandler(r.ledger, r.clock)
	b.ReportAllocs()
	for b.Loop() {
		req := httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(httptest.NewRecorder(), req)
	}
}
