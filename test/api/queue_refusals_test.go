package api

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// TestABadQueueIsRefusedWithTheFieldPathAndTheReason: as a user writes it, so that a zero is one.
func TestABadQueueIsRefusedWithTheFieldPathAndTheReason(t *testing.T) {
	s := sideBySide(t, nil)
	tests := map[string]struct {
		spec string
		want []string // all of them are in the answer
	}{
		"no capacity":                          {`concurrency: 0`, []string{"spec.concurrency", "1"}},
		"a tenant above the queue":             {`{concurrency: 2, tenants: {concurrency: 3}}`, []string{"spec.tenants.concurrency", "must not be above spec.concurrency"}},
		"one tenant above the queue":           {`{concurrency: 2, tenants: {overrides: [{name: a, concurrency: 3}]}}`, []string{"spec.tenants.overrides", "above spec.concurrency"}},
		"a weight of zero":                     {`tenants: {weight: 0}`, []string{"spec.tenants.weight", "1"}},
		"a tenant's weight of zero":            {`tenants: {overrides: [{name: a, weight: 0}]}`, []string{"spec.tenants.overrides[0].weight", "1"}},
		"a tenant twice":                       {`tenants: {overrides: [{name: a, weight: 1}, {name: a, weight: 2}]}`, []string{"spec.tenants.overrides[1]", "Duplicate"}},
		"a tenant that overrides nothing":      {`tenants: {overrides: [{name: a}]}`, []string{"spec.tenants.overrides[0]", "overrides nothing"}},
		"a rate of zero":                       {`dispatch: {rate: 0}`, []string{"spec.dispatch.rate", "1"}},
		"a period of zero":                     {`dispatch: {rate: 1, periodSeconds: 0}`, []string{"spec.dispatch.periodSeconds", "1"}},
		"a period without a rate":              {`dispatch: {periodSeconds: 5}`, []string{"spec.dispatch.rate", "required"}},
		"a burst that a leaky bucket has not":  {`dispatch: {rate: 1, burst: 2, algorithm: LeakyBucket}`, []string{"spec.dispatch.burst", "TokenBucket"}},
		"an unknown pause":                     {`paused: Maybe`, []string{"spec.paused", "Hold"}},
		"a breaker that nothing opens":         {`breaker: {windowSeconds: 5}`, []string{"spec.breaker.failurePercent", "nothing would ever open"}},
		"a breaker on Auto that nothing opens": {`breaker: {override: Auto}`, []string{"spec.breaker.failurePercent", "nothing would ever open"}},
		"samples of no share":                  {`breaker: {sameFailures: 5, minSamples: 3}`, []string{"spec.breaker.minSamples", "belongs to failurePercent"}},
		"a breaker at 0 percent":               {`breaker: {failurePercent: 0}`, []string{"spec.breaker.failurePercent", "1"}},
		"a breaker above 100 percent":          {`breaker: {failurePercent: 101}`, []string{"spec.breaker.failurePercent", "100"}},
		"a breaker without probes":             {`breaker: {failurePercent: 50, probes: 0}`, []string{"spec.breaker.probes", "1"}},
		"a breaker that is never open":         {`breaker: {failurePercent: 50, openSeconds: 0}`, []string{"spec.breaker.openSeconds", "1"}},
		"a breaker that looks at no time":      {`breaker: {failurePercent: 50, windowSeconds: 0}`, []string{"spec.breaker.windowSeconds", "1"}},
		"a breaker with a word that is no one": {`breaker: {override: Half}`, []string{"spec.breaker.override", "Closed"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			tq := &unstructured.Unstructured{}
			spec := map[string]any{}
			s.ok(yaml.Unmarshal([]byte(test.spec), &spec))
			tq.Object = map[string]any{"spec": spec}
			tq.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TaskQueue"))
			tq.SetNamespace(s.namespace)
			tq.SetName("bad")
			err := admin.Create(t.Context(), tq)
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
}
