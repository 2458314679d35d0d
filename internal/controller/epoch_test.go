package controller

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var epochName = types.NamespacedName{Namespace: "leasehold-system", Name: "leasehold-epoch"}

func epochOf(value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: epochName.Namespace, Name: epochName.Name}, Data: map[string]string{EpochKey: value}}
}

func TestEpochIsRead(t *testing.T) {
	tests := map[string]struct {
		stored  *corev1.ConfigMap
		atLeast int64
		want    int64
		problem string
	}{
		"first":            {stored: epochOf("1"), want: 1},
		"raised":           {stored: epochOf("7"), atLeast: 3, want: 7},
		"largest":          {stored: epochOf("524287"), want: 524287},
		"missing":          {problem: "is missing"},
		"no key":           {stored: &corev1.ConfigMap{ObjectMeta: epochOf("").ObjectMeta}, problem: "must be a number from 1 to 524287"},
		"empty":            {stored: epochOf(""), problem: "must be a number"},
		"no number":        {stored: epochOf("two"), problem: "must be a number"},
		"padded":           {stored: epochOf(" 1 "), problem: "must be a number"},
		"zero":             {stored: epochOf("0"), problem: "must be a number"},
		"negative":         {stored: epochOf("-1"), problem: "must be a number"},
		"above the limit":  {stored: epochOf("524288"), problem: "must be a number"},
		"beyond int64":     {stored: epochOf("9223372036854775808"), problem: "must be a number"},
		"below the task's": {stored: epochOf("2"), atLeast: 3, problem: "epoch 2 is below 3"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder()
			if test.stored != nil {
				builder.WithObjects(test.stored)
			}
			e := &ConfigMapEpoch{Live: builder.Build(), Name: epochName}
			got, err := e.Read(context.Background(), test.atLeast)
			checkProblem(t, err, test.problem)
			if got != test.want {
				t.Errorf("epoch %d, want %d", got, test.want)
			}
		})
	}
}

func checkProblem(t *testing.T, err error, want string) {
	t.Helper()
	var problem problemError
	switch {
	case want == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case want != "" && (!errors.As(err, &problem) || !strings.Contains(err.Error(), want)):
		t.Errorf("error %v, want a problem that says %q", err, want)
	}
}

// TestEpochNeverGoesBack: what this process has seen in use it does not go below, whatever the ConfigMap says later.
func TestEpochNeverGoesBack(t *testing.T) {
	ctx := context.Background()
	c := fake.NewClientBuilder().WithObjects(epochOf("1")).Build()
	e := &ConfigMapEpoch{Live: c, Name: epochName}
	steps := []struct{ epoch, problem string }{{"5", ""}, {"4", "epoch 4 is below 5"}, {"5", ""}, {"6", ""}, {"5", "epoch 5 is below 6"}}
	for _, step := range steps {
		if err := c.Update(ctx, epochOf(step.epoch)); err != nil {
			t.Fatal(err)
		}
		_, err := e.Read(ctx, 0)
		checkProblem(t, err, step.problem)
	}
}

// TestEpochErrorIsNoProblem: an API server that does not answer is no reason to tell the user to do something.
func TestEpochErrorIsNoProblem(t *testing.T) {
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("connection refused")
		},
	}).Build()
	_, err := (&ConfigMapEpoch{Live: c, Name: epochName}).Read(context.Background(), 0)
	var problem problemError
	if err == nil || errors.As(err, &problem) {
		t.Errorf("error %v, want one that is no problem", err)
	}
}
