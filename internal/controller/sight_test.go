package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestSight(t *testing.T) {
	tests := map[string]struct {
		answers []time.Duration
		now     time.Duration
		since   time.Duration // of first sight
		want    time.Duration
		isOpen  bool
	}{
		"never an answer":                          {now: 60 * time.Second, want: 60 * time.Second},
		"answers all along":                        {answers: seconds(0, 2, 4, 6, 8), now: 9 * time.Second, want: 0, isOpen: true},
		"seen after sight began":                   {answers: seconds(0, 2, 4, 6, 8), now: 9 * time.Second, since: 5 * time.Second, want: 5 * time.Second, isOpen: true},
		"two answers missing are no blindness":     {answers: seconds(0, 6, 8), now: 9 * time.Second, want: 0, isOpen: true},
		"blind now: nothing counts":                {answers: seconds(0, 2), now: 9 * time.Second, want: 9 * time.Second},
		"blind in between: counts from the return": {answers: seconds(0, 2, 20, 22), now: 23 * time.Second, want: 20 * time.Second, isOpen: true},
		"seen since the return":                    {answers: seconds(0, 2, 20, 22), now: 23 * time.Second, since: 21 * time.Second, want: 21 * time.Second, isOpen: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := NewSight()
			for _, at := range test.answers {
				s.Answered(start.Add(at))
			}
			now := start.Add(test.now)
			if got := s.Clip(start.Add(test.since), now).Sub(start); got != test.want {
				t.Errorf("counts from %s, want %s", got, test.want)
			}
			if got := s.IsOpen(now); got != test.isOpen {
				t.Errorf("open: %t, want %t", got, test.isOpen)
			}
		})
	}
}

func seconds(at ...int) (ds []time.Duration) {
	for _, n := range at {
		ds = append(ds, time.Duration(n)*time.Second)
	}
	return ds
}

// TestLookerOpensTheEyes: an answer is an answer, also that there is no such object; an error is none.
func TestLookerOpensTheEyes(t *testing.T) {
	tests := map[string]struct {
		err    error
		isOpen bool
	}{
		"no such object": {isOpen: true},
		"no answer":      {err: errors.New("connection refused")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			clock := testingclock.NewFakeClock(start)
			live := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if test.err != nil {
						return test.err
					}
					return c.Get(ctx, key, obj, opts...)
				},
			}).Build()
			l := &Looker{Sight: NewSight(), Live: live, Clock: clock, Name: types.NamespacedName{Namespace: "x", Name: "epoch"}}
			l.look(context.Background())
			if got := l.Sight.IsOpen(clock.Now()); got != test.isOpen {
				t.Errorf("open: %t, want %t", got, test.isOpen)
			}
		})
	}
}
