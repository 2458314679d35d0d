package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan"
)

var deadLetterResource = schema.GroupResource{Group: "leasehold.io", Resource: "deadletters"}

// graveyard is an API server that holds a namespace, and perhaps a dead letter, and answers creations with one error.
type graveyard struct {
	answer        error
	isTerminating bool
	found         *v1alpha1.DeadLetter
	creates       int
}

func (g *graveyard) client() client.Client {
	return interceptor.NewClient(nil, interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			g.creates++
			return g.answer
		},
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			switch o := o.(type) {
			case *corev1.Namespace:
				if g.isTerminating {
					o.DeletionTimestamp = new(metav1.NewTime(start))
				}
				return nil
			case *v1alpha1.DeadLetter:
				if g.found != nil {
					*o = *g.found
					return nil
				}
			}
			return apierrors.NewNotFound(deadLetterResource, key.Name)
		},
	})
}

func keeping(uid string) *v1alpha1.DeadLetter {
	return &v1alpha1.DeadLetter{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a-1", UID: "dead-1"},
		Spec: v1alpha1.DeadLetterSpec{Task: v1alpha1.DeadLetterTask{Name: "a", UID: uid}}}
}

// TestCase30WhatEachAnswerMakesOfADeadLetter: an answer about the dead letter is a refusal that the task shows; the want of one
// is an error that is tried again; a namespace that goes away is the end of it.
func TestCase30WhatEachAnswerMakesOfADeadLetter(t *testing.T) {
	terminating := apierrors.NewForbidden(deadLetterResource, "a-1", errors.New("the namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	taken := apierrors.NewAlreadyExists(deadLetterResource, "a-1")
	webhook := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 400, Message: `admission webhook "x" denied the request`}}
	tests := map[string]struct {
		at      graveyard
		refusal string // part of it; empty: none
		isGone  bool
		isLost  bool
		isError bool
	}{
		"made":                           {},
		"made before":                    {at: graveyard{answer: taken, found: keeping("uid-a")}},
		"another task's":                 {at: graveyard{answer: taken, found: keeping("uid-b")}, refusal: "keeps another task, of UID uid-b"},
		"there a moment ago":             {at: graveyard{answer: taken}, isLost: true},
		"quota":                          {at: graveyard{answer: apierrors.NewForbidden(deadLetterResource, "a-1", errors.New("exceeded quota: q"))}, refusal: "exceeded quota: q"},
		"a webhook that gives no reason": {at: graveyard{answer: webhook}, refusal: "denied the request"},
		"a webhook that fails":           {at: graveyard{answer: apierrors.NewInternalError(errors.New("failed calling webhook"))}, refusal: "failed calling webhook"},
		"too large":                      {at: graveyard{answer: apierrors.NewRequestEntityTooLargeError("limit is 3145728")}, refusal: "limit is 3145728"},
		"the kind is not installed":      {at: graveyard{answer: &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "DeadLetter"}}}, refusal: "no matches for kind"},
		"too many requests":              {at: graveyard{answer: apierrors.NewTooManyRequests("later", 1)}, isError: true},
		"a timeout":                      {at: graveyard{answer: apierrors.NewServerTimeout(deadLetterResource, "create", 1)}, isError: true},
		"no connection":                  {at: graveyard{answer: errors.New("connection refused")}, isError: true},
		"terminating as it was asked":    {at: graveyard{answer: terminating}, isGone: true},
		"terminating before":             {at: graveyard{isTerminating: true}, isGone: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := test.at.client()
			r := &Reconciler{Client: c, Live: c, Clock: clocktesting.NewFakeClock(start)}
			refusal, err := r.createDeadLetter(t.Context(), taskNamed("a", "uid-a"), keeping("uid-a"))
			if (refusal == "") != (test.refusal == "") || !strings.Contains(refusal, test.refusal) {
				t.Errorf("refusal %q, want %q", refusal, test.refusal)
			}
			if (isGone(err) && !isLost(err)) != test.isGone || isLost(err) != test.isLost || (err != nil) != (test.isGone || test.isLost || test.isError) {
				t.Errorf("error %v", err)
			}
			if test.at.isTerminating && test.at.creates > 0 {
				t.Error("a dead letter was tried in a terminating namespace")
			}
		})
	}
}

// TestCase36TheCacheHoldsNoPayloads: what is large is read live, by whoever replays.
func TestCase36TheCacheHoldsNoPayloads(t *testing.T) {
	dead := keeping("uid-a")
	dead.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}
	dead.Spec.Task.Spec.Raw = []byte(`{"payload":"p"}`)
	dead.Spec.History = []v1alpha1.AttemptRecord{{Attempt: 1}}
	dead.Spec.Replay = v1alpha1.ReplaySpec{Request: 1, Payload: new("p"), TemplatePatch: "{}"}
	want := keeping("uid-a")
	want.Spec.Replay.Request = 1
	got, err := stripDeadLetter(dead)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("cached (-want +got), %v:\n%s", err, diff)
	}
}

func TestARefusedDeadLetterIsNotTriedAgainAtOnce(t *testing.T) {
	g := &graveyard{answer: apierrors.NewForbidden(deadLetterResource, "a-1", errors.New("exceeded quota"))}
	clock := clocktesting.NewFakeClock(start)
	r := &Reconciler{Client: g.client(), Live: g.client(), Clock: clock}
	tries := func(passes int) int {
		before := g.creates
		for range passes {
			if refusal, err := r.createDeadLetter(t.Context(), taskNamed("a", "uid-a"), keeping("uid-a")); refusal == "" || err != nil {
				t.Fatalf("refusal %q, error %v", refusal, err)
			}
		}
		return g.creates - before
	}
	if n := tries(5); n != 1 {
		t.Errorf("5 passes tried %d times", n)
	}
	clock.Step(plan.RefusedRetry - time.Millisecond)
	if n := tries(1); n != 0 {
		t.Error("tried again too early")
	}
	clock.Step(time.Millisecond)
	if n := tries(1); n != 1 {
		t.Error("not tried again")
	}
	r.unburied.forget(client.ObjectKeyFromObject(taskNamed("a", "uid-a")))
	if len(r.unburied.of) > 0 {
		t.Error("a task that is gone is remembered")
	}
}
