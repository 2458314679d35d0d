package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/admission/gate"
)

// Path is where the webhook is served.
const Path = "/validate-leasehold-io-v1alpha1-leasedtask"

// handler answers the API server from the ledger.
type handler struct {
	ledger *Ledger
	clock  clock.PassiveClock
	next   http.Handler // decodes and encodes, and calls Handle
}

func newHandler(l *Ledger, c clock.PassiveClock) *handler {
	h := &handler{ledger: l, clock: c}
	h.next = &admission.Webhook{Handler: h}
	return h
}

// ServeHTTP leaves it to the webhook's failurePolicy what happens to a task while nothing is known.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.ledger.IsOpen() {
		http.Error(w, "this replica has not yet seen the tasks and queues that there are", http.StatusServiceUnavailable)
		return
	}
	h.next.ServeHTTP(w, r)
}

// newTask is what decides of a task. The rest of it, most of its size, is not even decoded.
type newTask struct {
	Metadata struct {
		UID string `json:"uid"`
	} `json:"metadata"`
	Spec struct {
		QueueName string `json:"queueName"`
		Tenant    string `json:"tenant"`
	} `json:"spec"`
}

// Handle answers one question.
func (h *handler) Handle(_ context.Context, req admission.Request) admission.Response {
	var t newTask
	if err := json.Unmarshal(req.Object.Raw, &t); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode LeasedTask: %w", err))
	}
	if t.Spec.QueueName == "" { // whoever has made the webhook without its matchConditions
		return admission.Allowed("")
	}
	queue := types.NamespacedName{Namespace: req.Namespace, Name: t.Spec.QueueName}
	isDryRun := req.DryRun != nil && *req.DryRun
	verdict, with := h.ledger.Ask(queue, gate.Task{UID: t.Metadata.UID, Tenant: tenantOf(req.Namespace, t.Spec.Tenant)}, isDryRun, h.clock.Now())
	if verdict.Reason == gate.Admitted {
		return admission.Allowed("")
	}
	return refusal(queue.Name, verdict, with)
}

// refusal is an answer that the API server passes on with its code, its message, and a Retry-After header from its details.
func refusal(queue string, v gate.Verdict, with v1alpha1.RefusalAnswer) admission.Response {
	seconds := int32(v.RetryAfter.Seconds())
	status := metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusTooManyRequests,
		Reason:  metav1.StatusReasonTooManyRequests,
		Message: fmt.Sprintf("TaskQueue %s takes no more tasks now: %s; try again in %d s", queue, v.Message, seconds),
		Details: &metav1.StatusDetails{RetryAfterSeconds: seconds},
	}
	if with == v1alpha1.RefuseServiceUnavailable {
		status.Code, status.Reason = http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}
