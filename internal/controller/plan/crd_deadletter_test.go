package plan

import (
	"context"
	"fmt"
	"strings"
	"testing"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// stone is a dead letter as the API server holds it, after an edit of its spec.
func stone(edit func(spec map[string]any)) map[string]any {
	spec := map[string]any{
		"task": map[string]any{"name": "task", "uid": "uid-1", "spec": map[string]any{"payload": "exact",
			"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "a"}}}}}},
		"idempotencyKey": "uid-1", "reason": "BudgetExceeded", "message": "why", "fingerprint": "0123456789abcdef", "attempts": int64(2),
		"failures": int64(1), "disruptions": int64(1), "fencingToken": int64(7),
		"history": []any{map[string]any{"attempt": int64(1), "outcome": "Failed", "reason": "OOMKilled"}},
	}
	if edit != nil {
		edit(spec)
	}
	return map[string]any{"spec": spec}
}

func replays(request int64, pairs ...string) func(map[string]any) {
	return func(spec map[string]any) {
		replay := map[string]any{"request": request}
		for i := 0; i < len(pairs); i += 2 {
			replay[pairs[i]] = pairs[i+1]
		}
		spec["replay"] = replay
	}
}

func discards(reason string) func(map[string]any) {
	return func(spec map[string]any) { spec["discard"] = map[string]any{"reason": reason} }
}

func both(one, other func(map[string]any)) func(map[string]any) {
	return func(spec map[string]any) { one(spec); other(spec) }
}

func answeredUpTo(o map[string]any, request int64) map[string]any {
	o["status"] = map[string]any{"lastRequest": request}
	return o
}

// TestTheDeadLetterCRDGuardsTheRecord asks the real rules, as the API server does.
func TestTheDeadLetterCRDGuardsTheRecord(t *testing.T) {
	crd := readCRDFile(t, deadLetterCRDFile)
	schema := crd.Spec.Validation
	if schema == nil {
		schema = crd.Spec.Versions[0].Schema
	}
	structural, err := structuralschema.NewStructural(schema.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	validator := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	taskSpec := func(edit func(map[string]any)) func(map[string]any) {
		return func(spec map[string]any) { edit(spec["task"].(map[string]any)["spec"].(map[string]any)) }
	}
	tests := map[string]struct {
		was, is map[string]any
		want    string // part of the refusal; empty: accepted
	}{
		"made":                         {nil, stone(nil), ""},
		"made with a replay":           {nil, stone(replays(1)), "spec.replay: Forbidden: a dead letter is made without a replay"},
		"nothing changes":              {stone(nil), stone(nil), ""},
		"the payload changes":          {stone(nil), stone(taskSpec(func(s map[string]any) { s["payload"] = "other" })), "spec.task: Forbidden: immutable"},
		"the payload changes its name": {stone(nil), stone(taskSpec(func(s map[string]any) { delete(s, "payload"); s["other"] = 1 })), "spec.task: Forbidden: immutable"},
		"an image changes, deep down": {stone(nil), stone(taskSpec(func(s map[string]any) {
			s["template"] = map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "b"}}}}
		})), "spec.task: Forbidden: immutable"},
		"a request":                      {stone(nil), stone(replays(1)), ""},
		"a request of zero is no number": {stone(replays(1)), stone(replays(0)), "only rises"},
		"the same request":               {stone(replays(1, "payload", "x")), stone(replays(1, "payload", "x")), ""},
		"the same request, otherwise":    {stone(replays(1)), stone(replays(1, "payload", "x")), "change with a new request number only"},
		"a request taken back":           {answeredUpTo(stone(replays(1)), 1), answeredUpTo(stone(nil), 1), "cannot be removed"},
		"a lower one":                    {answeredUpTo(stone(replays(2)), 2), answeredUpTo(stone(replays(1)), 2), "only rises"},
		"a higher one before the answer": {stone(replays(1)), stone(replays(2)), "rises once the last request was answered"},
		"a higher one after an older answer": {answeredUpTo(stone(replays(3)), 2), answeredUpTo(stone(replays(4)), 2),
			"rises once the last request was answered"},
		"a higher one after the answer": {answeredUpTo(stone(replays(1)), 1), answeredUpTo(stone(replays(9, "templatePatch", "{}")), 1), ""},
		"a payload of too many bytes":   {stone(nil), stone(replays(1, "payload", strings.Repeat("é", 33000))), "65536 bytes"},
		"made with a discard":           {nil, stone(discards("no")), "spec.discard: Forbidden: a dead letter is made without"},
		"a discard":                     {stone(nil), stone(discards("no")), ""},
		"a discard without a word":      {stone(nil), stone(discards("")), ""}, // its schema refuses that, not a rule
		"another discard":               {stone(discards("no")), stone(discards("yes")), "spec.discard: Forbidden: is final"},
		"a discard taken back":          {stone(discards("no")), stone(nil), "spec.discard: Forbidden: is final"},
		"a replay of a discarded":       {stone(discards("no")), stone(both(discards("no"), replays(1))), "spec.replay: Forbidden: the dead letter is discarded"},
		"both at once":                  {stone(nil), stone(both(discards("no"), replays(1))), "spec.discard: Forbidden: a replay was asked for"},
		"a discard before the answer":   {stone(replays(1)), stone(both(discards("no"), replays(1))), "spec.discard: Forbidden: a replay was asked for"},
		"a discard after the answer":    {answeredUpTo(stone(replays(1)), 1), answeredUpTo(stone(both(discards("no"), replays(1))), 1), ""},
		"a discard with the next request": {answeredUpTo(stone(replays(1)), 1), answeredUpTo(stone(both(discards("no"), replays(2))), 1),
			"spec.discard: Forbidden: a replay was asked for"},
		"another retention of a discarded": {stone(discards("no")), stone(both(discards("no"), func(s map[string]any) { s["retentionSeconds"] = int64(5) })), ""},
		"the status is removed":            {answeredUpTo(stone(nil), 1), stone(nil), "status cannot be removed"},
		"the last request gets lower":      {answeredUpTo(stone(nil), 2), answeredUpTo(stone(nil), 1), "never gets lower"},
	}
	for _, field := range []string{"idempotencyKey", "reason", "message", "fingerprint"} {
		tests[field+" changes"] = struct {
			was, is map[string]any
			want    string
		}{stone(nil), stone(func(s map[string]any) { s[field] = "fedcba9876543210" }), fmt.Sprintf("spec.%s: Forbidden: immutable", field)}
	}
	for _, field := range []string{"message", "attempts", "failures", "disruptions", "fencingToken", "history"} {
		tests[field+" is removed"] = struct {
			was, is map[string]any
			want    string
		}{stone(nil), stone(func(s map[string]any) { delete(s, field) }), fmt.Sprintf("spec.%s: Forbidden: immutable", field)}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var old any
			if test.was != nil {
				old = runtime.DeepCopyJSON(test.was)
			}
			errs, _ := validator.Validate(context.Background(), nil, structural, test.is, old, celconfig.RuntimeCELCostBudget)
			if got := fmt.Sprint(errs.ToAggregate()); (len(errs) == 0) != (test.want == "") || !strings.Contains(got, test.want) && test.want != "" {
				t.Errorf("refused with %q, want %q", got, test.want)
			}
		})
	}
}
