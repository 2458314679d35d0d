package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
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

// TestAPauseAndAnOpenBreakerAreSeenAtAGlance: the first column of `kubectl get tq` is the reason of Ready, also without -o wide; what that
// says, TestWhatATaskQueuesStatusSays has.
func TestAPauseAndAnOpenBreakerAreSeenAtAGlance(t *testing.T) {
	crd := readCRDFile(t, queueCRDFile)
	columns := slices.Concat(crd.Spec.AdditionalPrinterColumns, crd.Spec.Versions[0].AdditionalPrinterColumns)
	if len(columns) == 0 {
		t.Fatal("the CRD has no columns")
	}
	want := apiextensions.CustomResourceColumnDefinition{Name: "State", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].reason`}
	if columns[0] != want {
		t.Errorf("the first column is %+v, want %+v", columns[0], want)
	}
}
