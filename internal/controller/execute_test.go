package controller

import (
	"context"
	"errors"
	"net/http"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/leasehold-io/leasehold/internal/controller/plan"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

// TestWhatEachAnswerMakesOfAStop: no holder loses its term to a policy of somebody else's that is broken.
func TestWhatEachAnswerMakesOfAStop(t *testing.T) {
	leases := coordinationv1.Resource("leases")
	failedTest := apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "testing value failed", 0, false)
	badField := apierrors.NewInvalid(coordinationv1.SchemeGroupVersion.WithKind("Lease").GroupKind(), "lh-1",
		field.ErrorList{field.Invalid(field.NewPath("spec", "leaseDurationSeconds"), 0, "must be greater than 0")})
	policy := func(code int32, reason metav1.StatusReason) error { // as the API server's policy plugin does
		err := apierrors.NewForbidden(leases, "lh-1", errors.New("ValidatingAdmissionPolicy 'theirs' denied request: no params found"))
		err.ErrStatus.Code, err.ErrStatus.Reason = code, reason
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: "no params found"}}
		return err
	}
	tests := map[string]struct {
		answer    error
		deletion  error
		isDeleted bool // it was asked for
		isLost    bool
		isError   bool
	}{
		"stopped":                           {},
		"the Lease is gone":                 {answer: apierrors.NewNotFound(leases, "lh-1"), isLost: true, isError: true},
		"a test failed, and nothing wrote":  {answer: failedTest, isDeleted: true},
		"a test failed, somebody wrote":     {answer: failedTest, deletion: apierrors.NewConflict(leases, "lh-1", errors.New("rv")), isDeleted: true, isLost: true, isError: true},
		"a field is wrong":                  {answer: badField, isDeleted: true},
		"it is too large":                   {answer: apierrors.NewRequestEntityTooLargeError("limit is 3145728"), isDeleted: true},
		"a policy denies, without a reason": {answer: policy(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid), isError: true},
		"a policy denies":                   {answer: policy(http.StatusForbidden, metav1.StatusReasonForbidden), isError: true},
		"the API server fails":              {answer: apierrors.NewInternalError(errors.New("etcdserver: request timed out")), isError: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			isDeleted := false
			r := &Reconciler{Client: interceptor.NewClient(nil, interceptor.Funcs{
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					return tc.answer
				},
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
					isDeleted = true
					return tc.deletion
				},
			})}
			term := &fencing.Term{Namespace: "default", Name: "lh-1", UID: "u", ResourceVersion: "7", Holder: "a-1-x"}
			err := r.endTerm(t.Context(), term, &plan.Plan{Stop: &fencing.Stop{Reason: fencing.ReasonCancelled}})
			if isDeleted != tc.isDeleted || isLost(err) != tc.isLost || (err != nil) != tc.isError {
				t.Errorf("deleted %t, error %v", isDeleted, err)
			}
		})
	}
}
