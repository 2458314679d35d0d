package plan

import (
	"context"
	"fmt"
	"strings"
	"testing"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	fieldpath "k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// TestABreakerThatNothingCouldOpenIsRefused: by the real rules, as the API server asks them.
func TestABreakerThatNothingCouldOpenIsRefused(t *testing.T) {
	type breaker = map[string]any
	tests := map[string]struct {
		breaker breaker
		accepts bool
	}{
		"a share":                 {breaker{"failurePercent": int64(50)}, true},
		"a share, by itself":      {breaker{"failurePercent": int64(50), "override": "Auto"}, true},
		"a number":                {breaker{"sameFailures": int64(5)}, true},
		"a person":                {breaker{"override": "Open"}, true},
		"a person, the other way": {breaker{"override": "Closed"}, true},
		"nobody":                  {breaker{"openSeconds": int64(5)}, false},
		"nobody, by itself":       {breaker{"override": "Auto"}, false},
		"nobody, for a while":     {breaker{"override": "Auto", "openSeconds": int64(5)}, false},
	}
	spec := schemaOf(readCRDFile(t, queueCRDFile), "spec")
	structural, err := structuralschema.NewStructural(&spec)
	if err != nil {
		t.Fatal(err)
	}
	validator := cel.NewValidator(structural, false, celconfig.PerCallLimit)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			errs, _ := validator.Validate(context.Background(), fieldpath.NewPath("spec"), structural, map[string]any{"breaker": test.breaker}, nil, celconfig.RuntimeCELCostBudget)
			said := fmt.Sprint(errs.ToAggregate())
			if (len(errs) == 0) != test.accepts || !test.accepts && !strings.Contains(said, "spec.breaker.failurePercent: ") {
				t.Errorf("accepted: %t, want %t: %s", len(errs) == 0, test.accepts, said)
			}
		})
	}
}
