package verify

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestWhatIsCheapToMakeIsNotLookedThrough: a list of ten lists, ten deep, that are all the same one costs next to nothing, and has ten
// thousand million elements. No expression may have to see them all.
func TestWhatIsCheapToMakeIsNotLookedThrough(t *testing.T) {
	deep := "[raw]" + strings.Repeat(".map(a, [a,a,a,a,a,a,a,a,a,a])", 9) + "[0]"
	for _, expression := range []string{
		"%s == %[1]s", "dyn(%s) == result", "dyn(%s) in result", "[%s] != result", "{'a': %s} == result", "optional.of(%s) == optional.of(result)",
		"sets.contains(%s, %[1]s)", "[%s].indexOf(result) == 1", "[dyn(%s)].max() == 1", "[dyn(%s)].sum() == 1", "[dyn(%s)].min() == 1", "[dyn(%s)].isSorted()", "result.a.max() == 1", "dyn(%s).max() == 1",
	} {
		expression = strings.NewReplacer("%s", deep, "%[1]s", deep).Replace(expression)
		if len(expression) > 1024 {
			t.Fatalf("the API server refuses it: %d bytes", len(expression))
		}
		if err := Compile(checks(expression)); err == nil {
			t.Errorf("compiles: %s", expression)
		}
	}
	if err := Compile(checks("result.a.map(x, int(x)).max() > ['a'].map(x, x.size()).sum()")); err != nil {
		t.Error(err)
	}
	started := time.Now()
	for _, expression := range []string{
		"dyn(%s) == 1", "1 in dyn(%s)", "dyn(%s) in ['a']", "dyn(%s) < 3", "{dyn(%s): 1}.size() == 0", "dyn({'a': 1})[%s] == 1", "result[%s] == 1",
		"string(dyn(%s)) == ''", "dyn(%s).a == 1", "[1].all(x, dyn(%s))", "raw.startsWith(dyn(%s))", "optional.ofNonZeroValue(%s).hasValue() == false",
	} {
		all := checks(fmt.Sprintf(expression, deep))
		if err := Compile(all); err != nil {
			t.Fatal(err)
		}
		if err := Check(all, text("[1, 2, 3]")); err == nil {
			t.Errorf("%s holds", expression)
		}
	}
	if took := time.Since(started); took > 20*time.Second { // milliseconds, on a machine that has nothing else to do
		t.Errorf("took %s", took)
	}
}
