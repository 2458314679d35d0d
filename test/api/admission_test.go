package api

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/test/bench/ingress"
)

func TestATaskAboveTheRateIsRefusedWith429AndRetryAfter(t *testing.T) {
	s := sideBySide(t, nil)
	s.webhookWith(1)
	s.limitedQueue("orders", v1alpha1.AdmissionSpec{Rate: 2, PeriodSeconds: 4})
	for i := range 2 {
		if a := s.post(s.task(fmt.Sprintf("burst%d-0", i), "orders"), ""); a.code != http.StatusCreated {
			t.Fatalf("task %d of the burst: %s", i, a)
		}
	}
	a := s.post(s.task("above-0", "orders"), "")
	seconds, err := strconv.Atoi(a.retryAfter)
	if a.code != http.StatusTooManyRequests || err != nil || seconds < 1 || seconds > 2 || a.status.Reason != "TooManyRequests" || int(a.status.Details.RetryAfterSeconds) != seconds {
		t.Errorf("%s, details %+v", a, a.status.Details)
	}
	if !strings.Contains(a.status.Message, "TaskQueue orders takes no more tasks now: more than 2 tasks in 4s (spec.admission.rate)") {
		t.Errorf("the message does not name the limit: %s", a.status.Message)
	}
	if a := s.post(s.task("elsewhere-0", "no-such-queue"), ""); a.code != http.StatusCreated {
		t.Errorf("another queue: %s", a)
	}

	// A client of client-go's waits as it was told, and repeats by itself.
	begun := time.Now()
	s.ok(admin.Create(t.Context(), s.task("patient1-0", "orders")))
	s.ok(admin.Create(t.Context(), s.task("patient2-0", "orders")))
	if took := time.Since(begun); took < time.Second {
		t.Errorf("two tasks above the rate were made after %s", took)
	}
}

func TestATenantAboveItsRateDoesNotHoldUpTheOthers(t *testing.T) {
	s := sideBySide(t, nil)
	s.webhookWith(1)
	s.limitedQueue("orders", v1alpha1.AdmissionSpec{Tenant: v1alpha1.TenantAdmissionSpec{Rate: 1, PeriodSeconds: 3600}})
	by := func(name, tenant string) reply {
		task := s.task(name, "orders")
		task.Spec.Tenant = tenant
		return s.post(task, "")
	}
	if a := by("a1-0", "a"); a.code != http.StatusCreated {
		t.Fatalf("%s", a)
	}
	if a := by("a2-0", "a"); a.code != http.StatusTooManyRequests || !strings.Contains(a.status.Message, `tenant "a"`) || a.retryAfter != "60" {
		t.Errorf("%s", a)
	}
	for _, tenant := range []string{"b", ""} { // without a name it is the namespace
		if a := by("other"+tenant+"1-0", tenant); a.code != http.StatusCreated {
			t.Errorf("tenant %q: %s", tenant, a)
		}
		if a := by("other"+tenant+"2-0", tenant); a.code != http.StatusTooManyRequests {
			t.Errorf("tenant %q: %s", tenant, a)
		}
	}
	if a := by("other-0", s.namespace); a.code != http.StatusTooManyRequests {
		t.Errorf("the namespace by its name: %s", a)
	}
}

func TestAFullQueueTakesTasksAgainWhenThereIsRoom(t *testing.T) {
	s := sideBySide(t, nil)
	s.webhookWith(1)
	s.limitedQueue("orders", v1alpha1.AdmissionSpec{MaxPending: 3, RefuseWith: v1alpha1.RefuseServiceUnavailable})
	for i := range 3 {
		if a := s.post(s.task(fmt.Sprintf("waits%d-0", i), "orders"), ""); a.code != http.StatusCreated {
			t.Fatalf("%s", a)
		}
	}
	a := s.post(s.task("above-0", "orders"), "")
	if a.code != http.StatusServiceUnavailable || a.status.Reason != "ServiceUnavailable" || a.retryAfter == "" || !strings.Contains(a.status.Message, "3 tasks wait, and 3 may (spec.admission.maxPending)") {
		t.Errorf("%s", a)
	}
	gone := s.task("waits1-0", "orders")
	s.ok(admin.Delete(t.Context(), gone))
	s.ok(s.Poll(t.Context(), patience, func() error {
		if a := s.post(s.task("next-0", "orders"), ""); a.code != http.StatusCreated {
			return fmt.Errorf("one has gone, and the next is refused: %s", a)
		}
		return nil
	}))
}

func TestAWaitThatWouldBeTooLongIsRefused(t *testing.T) {
	s := sideBySide(t, nil)
	s.webhookWith(1)
	s.limitedQueue("orders", v1alpha1.AdmissionSpec{MaxWaitSeconds: 5})
	for i := range 4 { // nothing starts, so four that wait for two seconds are too many
		if a := s.post(s.task(fmt.Sprintf("waits%d-0", i), "orders"), ""); a.code != http.StatusCreated {
			t.Fatalf("%s", a)
		}
	}
	s.ok(s.Poll(t.Context(), patience, func() error {
		if a := s.post(s.task("next-0", "orders"), dryRun); a.code != http.StatusTooManyRequests || !strings.Contains(a.status.Message, "spec.admission.maxWaitSeconds") {
			return fmt.Errorf("%s", a)
		}
		return nil
	}))
}

func TestADryRunOfANewTaskIsNotCharged(t *testing.T) {
	s := sideBySide(t, nil)
	s.webhookWith(1)
	s.limitedQueue("orders", v1alpha1.AdmissionSpec{Rate: 2, PeriodSeconds: 86400, MaxPending: 2})
	for i := range 5 {
		if a := s.post(s.task(fmt.Sprintf("dry%d-0", i), "orders"), dryRun); a.code != http.StatusCreated {
			t.Fatalf("dry run %d: %s", i, a)
		}
	}
	for i := range 3 {
		want := http.StatusCreated
		if i == 2 {
			want = http.StatusTooManyRequests
		}
		if a := s.post(s.task(fmt.Sprintf("real%d-0", i), "orders"), ""); a.code != want {
			t.Errorf("task %d: %s", i, a)
		}
	}
	if a := s.post(s.task("dry-0", "orders"), dryRun); a.code != http.StatusTooManyRequests {
		t.Errorf("a dry run tells what the real one would be answered: %s", a)
	}
}

// Two replicas share a rate without talking: each sees what the other has accepted.
func TestTwoReplicasTogetherStayWithinTheStatedBound(t *testing.T) {
	s := sideBySide(t, nil)
	s.webhookWith(2)
	const rate, length = 1, 12 * time.Second
	s.limitedQueue("orders", v1alpha1.AdmissionSpec{Rate: rate})
	var accepted, refused [2]atomic.Int32
	var all sync.WaitGroup
	begun := time.Now()
	for producer := range 8 { // four for each replica
		by := producer % 2
		all.Go(func() {
			for n := 0; time.Since(begun) < length; n++ {
				a, err := s.tryPost(s.task(fmt.Sprintf("n%d-%d-%d", producer, n, by), "orders"), "")
				switch {
				case err != nil:
					t.Error(err)
					return
				case a.code == http.StatusCreated:
					accepted[by].Add(1)
				case a.code == http.StatusTooManyRequests:
					refused[by].Add(1)
				default:
					t.Errorf("%s", a)
				}
				time.Sleep(50 * time.Millisecond)
			}
		})
	}
	all.Wait()
	took := time.Since(begun).Seconds()
	const news = 2 // seconds that a watch event may take on a loaded machine
	most := rate*took + 2*(rate+rate*news)
	a, b := accepted[0].Load(), accepted[1].Load()
	t.Logf("accepted %d and %d, refused %d and %d in %.1f s", a, b, refused[0].Load(), refused[1].Load(), took)
	if sum := float64(a + b); sum > most || sum < rate*(took-2) {
		t.Errorf("%v were accepted in %.1f s, the bound is %.0f; apart they would take %.0f", sum, took, most, 2*(rate+rate*took))
	}
	if a == 0 || b == 0 || refused[0].Load() < a || refused[1].Load() < b {
		t.Error("the replicas were not offered more than their share")
	}
}

// Scenario 1, for its first five seconds, without nodes: nothing runs here.
func TestAHerdAtTheEntranceIsHeldToTheRate(t *testing.T) {
	s := sideBySide(t, nil)
	s.webhookWith(1, func(w *webhook) {
		hook := &w.config.Webhooks[0]
		hook.MatchConditions = hook.MatchConditions[:len(hook.MatchConditions)-1] // whatever its name
	})
	load := ingress.Load{Namespace: s.namespace, Rate: 2, Factor: 10, Length: 5 * time.Second}
	s.ok(admin.Create(t.Context(), load.Queue()))
	time.Sleep(500 * time.Millisecond)
	begun := time.Now()
	r, err := load.Offer(t.Context(), config)
	s.ok(err)
	accepted, refused := r.Count(ingress.Answer.IsAccepted), r.Count(ingress.Answer.IsRefused)
	if most := int(2*time.Since(begun).Seconds()) + 2 + 1; accepted < 8 || accepted > most || accepted+refused != 100 {
		t.Errorf("%d accepted, want 8 to %d, and %d refused", accepted, most, refused)
	}
	for _, a := range r.Answers {
		if seconds, err := strconv.Atoi(a.RetryAfter); a.IsRefused() && (err != nil || seconds < 1 || seconds > 60) {
			t.Errorf("%s: Retry-After %q", a.Name, a.RetryAfter)
		}
	}
	t.Logf("accepted in %s, refused in %s (p99)", r.Latency(ingress.Answer.IsAccepted, 99), r.Latency(ingress.Answer.IsRefused, 99))
}

func TestANewReplicaKnowsWhatWasAcceptedBeforeIt(t *testing.T) {
	s := sideBySide(t, nil)
	w := s.webhookWith(1)
	s.limitedQueue("orders", v1alpha1.AdmissionSpec{Rate: 3, PeriodSeconds: 3600})
	for i := range 3 {
		if a := s.post(s.task(fmt.Sprintf("n%d-0", i), "orders"), ""); a.code != http.StatusCreated {
			t.Fatalf("%s", a)
		}
	}
	w.replicas[0].end()
	w.start(0)
	if a := s.post(s.task("after-0", "orders"), ""); a.code != http.StatusTooManyRequests {
		t.Errorf("a restart has given a new burst: %s", a)
	}
}

func TestWithoutTheWebhookItsFailurePolicyDecidesAndTheRulesHold(t *testing.T) {
	for _, policy := range []admissionregistrationv1.FailurePolicyType{admissionregistrationv1.Ignore, admissionregistrationv1.Fail} {
		t.Run(string(policy), func(t *testing.T) {
			s := sideBySide(t, nil)
			w := s.webhookWith(1, func(w *webhook) { w.config.Webhooks[0].FailurePolicy = &policy })
			s.limitedQueue("orders", v1alpha1.AdmissionSpec{Rate: 1, PeriodSeconds: 86400})
			w.replicas[0].end()

			a := s.post(s.task("a-0", "orders"), "")
			b := s.post(s.task("b-0", "orders"), "")
			switch policy {
			case admissionregistrationv1.Ignore:
				if a.code != http.StatusCreated || b.code != http.StatusCreated {
					t.Errorf("refused with nobody to ask: %s; %s", a, b)
				}
			case admissionregistrationv1.Fail:
				if a.code != http.StatusInternalServerError || !strings.Contains(a.status.Message, `failed calling webhook "replica-0.admission.leasehold.io"`) {
					t.Errorf("%s", a)
				}
			}
			bad := s.task("bad-0", "orders")
			bad.Spec.Lease.DurationSeconds = 1
			if a := s.post(bad, ""); a.code != http.StatusUnprocessableEntity || !strings.Contains(a.status.Message, "spec.lease.durationSeconds") {
				t.Errorf("a task that breaks the schema's rules: %s", a)
			}
			if a := s.post(s.task("none-0", ""), ""); a.code != http.StatusCreated {
				t.Errorf("a task without a queue does not need the webhook: %s", a)
			}
			replay := s.task("replay-0", "orders")
			replay.Spec.ReplayOf = v1alpha1.ReplayOf{DeadLetterName: "a", DeadLetterUID: "b", Request: 1, IdempotencyKey: "c"}
			if a := s.post(replay, ""); a.code != http.StatusCreated {
				t.Errorf("a replay does not need the webhook: %s", a)
			}
		})
	}
}

func TestTheCertificateIsRenewedWithoutARestartAndWithoutARefusal(t *testing.T) {
	s := sideBySide(t, nil)
	w := s.webhookWith(2, func(w *webhook) { w.lifetime = 24 * time.Second })
	s.limitedQueue("orders", v1alpha1.AdmissionSpec{MaxPending: 1000})
	seen := [2]map[string]bool{{}, {}}
	for begun := time.Now(); time.Since(begun) < 42*time.Second; time.Sleep(100 * time.Millisecond) {
		for i, r := range w.replicas {
			if a := s.post(s.task(fmt.Sprintf("n-%d", i), "orders"), dryRun); a.code != http.StatusCreated {
				t.Fatalf("replica %d after %s: %s", i, time.Since(begun), a)
			}
			conn, err := tls.Dial("tcp", r.address, &tls.Config{InsecureSkipVerify: true}) // the API server verifies it
			s.ok(err)
			seen[i][conn.ConnectionState().PeerCertificates[0].SerialNumber.String()] = true
			s.ok(conn.Close())
		}
	}
	for i := range seen {
		if len(seen[i]) < 3 {
			t.Errorf("replica %d has served %d certificates, want at least 3", i, len(seen[i]))
		}
	}
}

func TestContradictoryAdmissionIsRefusedWithTheFieldAndTheReason(t *testing.T) {
	s := sideBySide(t, nil)
	type spec = map[string]any
	tests := map[string]struct {
		admission spec
		want      []string
	}{
		"nothing":                     {spec{}, []string{"spec.admission", "at least 1"}},
		"no limit":                    {spec{"refuseWith": "TooManyRequests"}, []string{"spec.admission", "needs a limit"}},
		"a zero rate":                 {spec{"rate": 0}, []string{"spec.admission.rate", "1"}},
		"a zero period":               {spec{"rate": 1, "periodSeconds": 0}, []string{"spec.admission.periodSeconds", "1"}},
		"a zero burst":                {spec{"rate": 1, "burst": 0}, []string{"spec.admission.burst", "1"}},
		"a rate too high":             {spec{"rate": 100001}, []string{"spec.admission.rate", "100000"}},
		"a period of more than a day": {spec{"rate": 1, "periodSeconds": 86401}, []string{"spec.admission.periodSeconds", "86400"}},
		"a period without a rate":     {spec{"maxPending": 1, "periodSeconds": 5}, []string{"spec.admission.rate", "is required with periodSeconds or burst"}},
		"a burst without a rate":      {spec{"maxPending": 1, "burst": 5}, []string{"spec.admission.rate", "is required with periodSeconds or burst"}},
		"zero pending":                {spec{"maxPending": 0}, []string{"spec.admission.maxPending", "1"}},
		"no wait":                     {spec{"maxWaitSeconds": 0}, []string{"spec.admission.maxWaitSeconds", "1"}},
		"a wait of more than a week":  {spec{"maxWaitSeconds": 604801}, []string{"spec.admission.maxWaitSeconds", "604800"}},
		"an unknown answer":           {spec{"rate": 1, "refuseWith": "Teapot"}, []string{"spec.admission.refuseWith", "ServiceUnavailable"}},
		"closed by no breaker":        {spec{"whileBreakerOpen": "Refuse"}, []string{"spec.admission.whileBreakerOpen", "needs spec.breaker"}},
		"an empty tenant":             {spec{"rate": 1, "tenant": spec{}}, []string{"spec.admission.tenant", "at least 1"}},
		"a tenant's zero rate":        {spec{"tenant": spec{"rate": 0}}, []string{"spec.admission.tenant.rate", "1"}},
		"a tenant's zero pending":     {spec{"tenant": spec{"maxPending": 0}}, []string{"spec.admission.tenant.maxPending", "1"}},
		"a tenant's period alone":     {spec{"tenant": spec{"periodSeconds": 5}}, []string{"spec.admission.tenant", "needs a limit"}},
		"a tenant's burst alone":      {spec{"tenant": spec{"maxPending": 5, "burst": 5}}, []string{"spec.admission.tenant.rate", "is required"}},
		"more pending for one":        {spec{"maxPending": 5, "tenant": spec{"maxPending": 6}}, []string{"spec.admission.tenant.maxPending", "admission.maxPending"}},
		"a higher rate for one":       {spec{"rate": 5, "tenant": spec{"rate": 6}}, []string{"spec.admission.tenant.rate", "admission.rate"}},
		"a higher rate by the period": {spec{"rate": 60, "periodSeconds": 60, "tenant": spec{"rate": 2}}, []string{"spec.admission.tenant.rate", "admission.rate"}},
		"a higher burst for one":      {spec{"rate": 5, "tenant": spec{"rate": 1, "burst": 6}}, []string{"spec.admission.tenant.burst", "admission.burst"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			queue := queueOf(s.namespace, "bad", test.admission)
			err := admin.Create(t.Context(), queue)
			if !apierrors.IsInvalid(err) {
				t.Fatalf("want 422 Invalid, got %v", err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the answer does not say %q: %v", want, err)
				}
			}
		})
	}
	for name, admission := range map[string]spec{
		"the highest":           {"rate": 100000, "periodSeconds": 86400, "burst": 100000, "maxPending": 1000000, "maxWaitSeconds": 604800, "refuseWith": "ServiceUnavailable"},
		"a tenant has as much":  {"rate": 5, "maxPending": 5, "tenant": spec{"rate": 5, "burst": 5, "maxPending": 5}},
		"a tenant's alone":      {"tenant": spec{"maxPending": 1}},
		"as much by the period": {"rate": 60, "periodSeconds": 60, "tenant": spec{"rate": 1}},
		"a higher burst of all": {"rate": 1, "burst": 10, "tenant": spec{"rate": 1, "burst": 10}},
	} {
		if err := admin.Create(t.Context(), queueOf(s.namespace, "good", admission), client.DryRunAll); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
