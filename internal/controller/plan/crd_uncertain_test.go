package plan

import (
	"strings"
	"testing"
)

// TestCRDGuardsDoubts: the API server lets no attempt be granted while an earlier one is uncertain, and no doubt go but by a probe,
// whoever writes.
func TestCRDGuardsDoubts(t *testing.T) {
	refuse := refusals(t)
	inDoubt := func(status map[string]any, attempt int64) map[string]any {
		status["uncertain"] = map[string]any{"attempt": attempt, "fencingToken": int64(100)}
		return status
	}
	tests := map[string]struct {
		was, is map[string]any
		want    string // part of the refusal; empty: accepted
	}{
		"an attempt ends in doubt":                 {statusOf("Running", 1, 100), inDoubt(statusOf("Probing", 1, 100), 1), ""},
		"the doubt stays with the release":         {inDoubt(statusOf("Expired", 1, 100), 1), inDoubt(statusOf("Probing", 1, 100), 1), ""},
		"the doubt goes with the release":          {inDoubt(statusOf("Expired", 1, 100), 1), statusOf("Available", 1, 100), "is settled by a probe only"},
		"the doubt is about another attempt":       {inDoubt(statusOf("Expired", 2, 100), 1), inDoubt(statusOf("Probing", 2, 100), 2), "is settled by a probe only"},
		"the doubt goes after the end":             {inDoubt(statusOf("DeadLettered", 1, 100), 1), statusOf("DeadLettered", 1, 100), "is settled by a probe only"},
		"a probe settles it":                       {inDoubt(statusOf("Probing", 2, 101), 1), statusOf("Available", 2, 101), ""},
		"an attempt is granted in doubt":           {inDoubt(statusOf("Available", 2, 101), 1), inDoubt(statusOf("Claimed", 3, 102), 1), "no attempt is granted while it is not known"},
		"a probe is granted":                       {inDoubt(statusOf("Probing", 1, 100), 1), inDoubt(statusOf("Probing", 2, 101), 1), ""},
		"a probe is granted under the same token":  {inDoubt(statusOf("Probing", 1, 100), 1), inDoubt(statusOf("Probing", 2, 100), 1), "rises with every probe"},
		"a probe is granted under a lower token":   {inDoubt(statusOf("Probing", 1, 100), 1), inDoubt(statusOf("Probing", 2, 99), 1), "never gets lower"},
		"the token of a probe changes":             {inDoubt(statusOf("Probing", 2, 101), 1), inDoubt(statusOf("Probing", 2, 102), 1), "rises with every probe"},
		"the token changes as the task gets there": {statusOf("Running", 1, 100), inDoubt(statusOf("Probing", 2, 101), 1), "changes with a grant only"},
		"the token changes with a probe's end":     {inDoubt(statusOf("Probing", 2, 101), 1), statusOf("Completed", 3, 102), "changes with a grant only"},
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
