package plan

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	fieldpath "k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

const (
	crdFile           = "../../../config/crd/bases/leasehold.io_leasedtasks.yaml"
	deadLetterCRDFile = "../../../config/crd/bases/leasehold.io_deadletters.yaml"
	queueCRDFile      = "../../../config/crd/bases/leasehold.io_taskqueues.yaml"
)

// phases are all phases, the one before the first included.
var phases = []v1alpha1.Phase{"", v1alpha1.PhaseAvailable, v1alpha1.PhaseClaimed, v1alpha1.PhaseRunning, v1alpha1.PhaseExpired, v1alpha1.PhaseProbing,
	v1alpha1.PhaseCompleted, v1alpha1.PhaseCancelled, v1alpha1.PhaseDeadLettered}

func readCRD(t *testing.T) *apiextensions.CustomResourceDefinition {
	t.Helper()
	return readCRDFile(t, crdFile)
}

func readCRDFile(t *testing.T, file string) *apiextensions.CustomResourceDefinition {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v1 apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &v1); err != nil {
		t.Fatal(err)
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&v1)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&v1.Spec)
	v1.Status.StoredVersions = []string{v1alpha1.GroupVersion.Version}
	crd := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&v1, crd, nil); err != nil {
		t.Fatal(err)
	}
	return crd
}

func schemaOf(crd *apiextensions.CustomResourceDefinition, field string) apiextensions.JSONSchemaProps {
	schema := crd.Spec.Validation
	if schema == nil {
		schema = crd.Spec.Versions[0].Schema
	}
	return schema.OpenAPIV3Schema.Properties[field]
}

func statusSchema(crd *apiextensions.CustomResourceDefinition) apiextensions.JSONSchemaProps {
	return schemaOf(crd, "status")
}

// TestEveryLeaseDurationThatTheAPILetsThroughIsSafeAndAlive: by the bounds in the shipped CRD, not by those that the code has
// in mind; and the default is one of them.
func TestEveryLeaseDurationThatTheAPILetsThroughIsSafeAndAlive(t *testing.T) {
	field := schemaOf(readCRD(t), "spec").Properties["lease"].Properties["durationSeconds"]
	if field.Minimum == nil || field.Maximum == nil {
		t.Fatalf("the CRD does not bound lease.durationSeconds: %+v", field)
	}
	lowest, highest := int32(*field.Minimum), int32(*field.Maximum)
	if lowest > v1alpha1.DefaultLeaseDurationSeconds || highest < v1alpha1.DefaultLeaseDurationSeconds {
		t.Errorf("the default %d is outside %d to %d", v1alpha1.DefaultLeaseDurationSeconds, lowest, highest)
	}
	for seconds := lowest; seconds <= highest; seconds++ {
		spec := v1alpha1.LeasedTaskSpec{Lease: v1alpha1.LeaseSpec{DurationSeconds: seconds}}
		timing := fencing.TimingFor(spec.LeaseDuration())
		if timing.Duration != time.Duration(seconds)*time.Second || !timing.IsSafe() || !timing.IsAlive() {
			t.Fatalf("%d s: %+v: safe %t, alive %t", seconds, timing, timing.IsSafe(), timing.IsAlive())
		}
	}
}

// TestCRDIsAccepted: the API server takes the CRDs, their CEL rules and their estimated cost included.
func TestCRDIsAccepted(t *testing.T) {
	for _, file := range []string{crdFile, deadLetterCRDFile, queueCRDFile} {
		for _, err := range validation.ValidateCustomResourceDefinition(context.Background(), readCRDFile(t, file)) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestCRDHasTheTransitions: the edges in the CRD's rule are those of the table, no more and no less. The first one, from no
// phase, is a rule of its own.
func TestCRDHasTheTransitions(t *testing.T) {
	var inTable, inCRD []string
	for _, tr := range Transitions {
		if tr.From != "" {
			inTable = append(inTable, string(tr.From+">"+tr.To))
		}
	}
	for _, rule := range statusSchema(readCRD(t)).XValidations {
		for _, edge := range regexp.MustCompile(`'(\w+>\w+)'`).FindAllStringSubmatch(rule.Rule, -1) {
			inCRD = append(inCRD, edge[1])
		}
	}
	slices.Sort(inTable)
	slices.Sort(inCRD)
	if diff := cmp.Diff(inTable, inCRD); diff != "" {
		t.Errorf("edges (-Transitions +CRD):\n%s", diff)
	}
}

// refusals asks the CRD's rules about a change of status, as the API server does. nil is no status.
func refusals(t *testing.T) func(was, is map[string]any) string {
	t.Helper()
	props := statusSchema(readCRD(t))
	structural, err := structuralschema.NewStructural(&props)
	if err != nil {
		t.Fatal(err)
	}
	validator := cel.NewValidator(structural, false, celconfig.PerCallLimit)
	return func(was, is map[string]any) string {
		var old any
		if was != nil {
			old = was
		}
		errs, _ := validator.Validate(context.Background(), fieldpath.NewPath("status"), structural, is, old, celconfig.RuntimeCELCostBudget)
		var messages []string
		for _, e := range errs {
			messages = append(messages, e.Error())
		}
		return strings.Join(messages, "; ")
	}
}

// statusOf is a status that has what its phase needs.
func statusOf(phase v1alpha1.Phase, attempt, token int64) map[string]any {
	status := map[string]any{}
	if phase != "" {
		status["phase"] = string(phase)
	}
	if attempt > 0 {
		status["attempt"], status["fencingToken"] = attempt, token
	}
	return status
}

// TestCRDRefusesOtherTransitions tries every pair of phases on the real rules.
func TestCRDRefusesOtherTransitions(t *testing.T) {
	refuse := refusals(t)
	for _, from := range phases {
		for _, to := range phases {
			attempt, tokenNow := int64(1), int64(100)
			was, is := statusOf(from, attempt, tokenNow), statusOf(to, attempt, tokenNow)
			if from == "" {
				was, is = nil, statusOf(to, 0, 0)
			}
			if to == v1alpha1.PhaseClaimed && from != to {
				is = statusOf(to, attempt+1, tokenNow+1)
			}
			refused := refuse(was, is)
			if legal := IsLegal(from, to); legal != (refused == "") {
				t.Errorf("from %q to %q: legal is %t, the CRD says %q", from, to, legal, refused)
			}
		}
	}
}

func TestCRDGuardsTheRecord(t *testing.T) {
	refuse := refusals(t)
	with := func(status map[string]any, pairs ...any) map[string]any {
		for i := 0; i < len(pairs); i += 2 {
			status[fmt.Sprint(pairs[i])] = pairs[i+1]
		}
		return status
	}
	tests := map[string]struct {
		was, is map[string]any
		want    string // part of the refusal; empty: accepted
	}{
		"first status":                       {nil, statusOf("Available", 0, 0), ""},
		"an empty status may get a phase":    {statusOf("", 0, 0), statusOf("Available", 0, 0), ""},
		"first status with a token":          {nil, statusOf("Available", 1, 100), "the first phase is Available"},
		"first status with a result":         {nil, with(statusOf("Available", 0, 0), "result", "x"), "the first phase is Available"},
		"first grant":                        {statusOf("Available", 0, 0), statusOf("Claimed", 1, 100), ""},
		"grant without a token":              {statusOf("Available", 0, 0), statusOf("Claimed", 0, 0), "rises with every grant"},
		"grant under the same token":         {statusOf("Available", 1, 100), statusOf("Claimed", 2, 100), "rises with every grant"},
		"grant under a lower token":          {statusOf("Available", 1, 100), statusOf("Claimed", 2, 99), "never gets lower"},
		"grant under a higher token":         {statusOf("Available", 1, 100), statusOf("Claimed", 2, 101), ""},
		"tokens beyond 2^53 differ":          {statusOf("Available", 1, 1<<53), statusOf("Claimed", 2, 1<<53+1), ""},
		"the token changes while Claimed":    {statusOf("Claimed", 1, 100), statusOf("Claimed", 1, 101), "changes with a grant only"},
		"the token changes while Running":    {statusOf("Running", 1, 100), statusOf("Running", 1, 101), "changes with a grant only"},
		"the token changes with the end":     {statusOf("Running", 1, 100), statusOf("Completed", 1, 101), "changes with a grant only"},
		"the token changes after the end":    {statusOf("Completed", 1, 100), statusOf("Completed", 1, 101), "changes with a grant only"},
		"the token is removed":               {statusOf("Running", 1, 100), with(statusOf("Running", 0, 0), "attempt", int64(1)), "never gets lower"},
		"the attempt gets lower":             {statusOf("Available", 2, 100), statusOf("Claimed", 1, 101), "status.attempt"},
		"the phase is removed":               {statusOf("Running", 1, 100), statusOf("", 1, 100), "illegal change from Running to (none)"},
		"a final phase is left":              {statusOf("Completed", 1, 100), statusOf("Available", 1, 100), "illegal change from Completed to Available"},
		"a result comes with the completion": {statusOf("Running", 1, 100), with(statusOf("Completed", 1, 100), "result", "x"), ""},
		"a result changes":                   {with(statusOf("Completed", 1, 100), "result", "x"), with(statusOf("Completed", 1, 100), "result", "y"), "immutable once set"},
		"a result is removed":                {with(statusOf("Completed", 1, 100), "result", "x"), statusOf("Completed", 1, 100), "immutable once set"},
		"a result stays":                     {with(statusOf("Completed", 1, 100), "result", "x"), with(statusOf("Completed", 1, 100), "result", "x"), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := refuse(test.was, test.is)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("refused with %q, want %q", got, test.want)
			}
		})
	}
}
