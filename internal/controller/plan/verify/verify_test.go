package verify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/fencing"
)

func checks(expressions ...string) (all []v1alpha1.ResultCheck) {
	for _, e := range expressions {
		all = append(all, v1alpha1.ResultCheck{Expression: e})
	}
	return all
}

func text(s string) Subject { return Subject{Result: &s} }

var kept = Subject{Ref: &fencing.ResultRef{URI: "s3://bucket/key", Digest: "sha256:00", SizeBytes: 1 << 40}}

// TestWhatExpressionsSee: each condition, and what is wrong with it; empty: it holds.
func TestWhatExpressionsSee(t *testing.T) {
	tests := map[string]struct {
		expression string
		subject    Subject
		want       string
	}{
		"a field":                          {"result.rows == 3", text(`{"rows": 3}`), ""},
		"a field that differs":             {"result.rows == 3", text(`{"rows": 4}`), "spec.verify[0]: does not hold: result.rows == 3 (the result has 11 bytes)"},
		"a field that is missing":          {"result.rows == 3", text(`{}`), "cannot be evaluated: no such key: rows (the result has 2 bytes)"},
		"a field that may be missing":      {"!has(result.rows) || result.rows == 3", text(`{}`), ""},
		"a bool of unknown type":           {"result.ok == true", text(`{"ok": true}`), ""},
		"a bool that is a string":          {"result.ok == true", text(`{"ok": "true"}`), "does not hold"},
		"the largest integer is exact":     {"result.token == 9223372036854775807", text(`{"token": 9223372036854775807}`), ""},
		"and the one before is another":    {"result.token == 9223372036854775807", text(`{"token": 9223372036854775806}`), "does not hold"},
		"an integer is an int":             {"result.n % 2 == 0", text(`{"n": 10}`), ""},
		"a fraction is a double":           {"result.n > 2.5 && result.n * 2.0 == 6.0", text(`{"n": 3.0}`), ""},
		"int and double compare":           {"result.n > 2.5", text(`{"n": 3}`), ""},
		"too large for an int is a double": {"result.n > 1e18", text(`{"n": 18446744073709551616}`), ""},
		"a set of values":                  {"result.state in ['done', 'empty'] && 'a' in result.tags && result.none == []", text(`{"state": "done", "tags": ["a"], "none": []}`), ""},
		"two fields":                       {"int(result.a) == result.b", text(`{"a": 1, "b": 1}`), ""},
		"a list":                           {"result.size() == 2 && result.all(x, x.startsWith('a'))", text(`["a", "ab"]`), ""},
		"a bare number":                    {"result == 7", text("7\n"), ""},
		"JSON null":                        {"result == null", text("null"), ""},
		"half-written JSON is null":        {"result != null", text(`{"rows": [1, 2`), "does not hold: result != null (the result has 14 bytes and is not JSON)"},
		"two JSON values are none":         {"result == null && raw.split('\\n').size() == 3", text("{}\n{}\n"), ""},
		"text":                             {"raw.trim() == 'done'", text("done\n"), ""},
		"text is no JSON":                  {"result.rows == 1", text("done"), "cannot be evaluated: no such key: rows (the result has 4 bytes and is not JSON)"},
		"text against a pattern":           {"raw.matches('^[0-9a-f]{64}$')", text(strings.Repeat("a", 64)), ""},
		"unicode counts characters":        {"raw.size() == 2 && bytes(raw).size() == 6", text("é😀"), ""},
		"no result":                        {"result == null && raw == '' && resultRef == null", Subject{}, ""},
		"no result at all":                 {"raw != ''", Subject{}, "does not hold: raw != '' (there is no result)"},
		"an empty one":                     {"raw != ''", text(""), "(the result has 0 bytes and is not JSON)"},
		"one kept elsewhere":               {"resultRef != null && resultRef.sizeBytes == 1099511627776 && resultRef.uri.startsWith('s3://') && resultRef.digest.startsWith('sha256:')", kept, ""},
		"one kept elsewhere, too small":    {"resultRef.sizeBytes > 1099511627776", kept, "(the result is kept elsewhere and has 1099511627776 bytes)"},
		"one kept elsewhere is not read":   {"result == null && raw == ''", kept, ""},
		"no reference":                     {"resultRef.sizeBytes > 0", text("{}"), "cannot be evaluated: no such key"},
		"deeply nested is no JSON":         {"result == null", text(strings.Repeat("[", 12000) + strings.Repeat("]", 12000)), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if err := Compile(checks(test.expression)); err != nil {
				t.Fatal(err)
			}
			err := Check(checks(test.expression), test.subject)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestTheFirstThatDoesNotHoldIsNamedWithItsMessage(t *testing.T) {
	all := checks("result.a == 1", "result.b == 1", "result.c == 1")
	all[1].Message = "b must be 1"
	for subject, want := range map[string]string{
		`{"a": 1, "b": 1, "c": 1}`: "<nil>",
		`{"a": 1, "b": 2, "c": 2}`: "spec.verify[1]: b must be 1 (the result has 24 bytes)",
		`{"a": 1, "c": 2}`:         "spec.verify[1]: b must be 1: cannot be evaluated: no such key: b (the result has 16 bytes)",
	} {
		if got := fmt.Sprint(Check(all, text(subject))); got != want {
			t.Errorf("%s: %s, want %s", subject, got, want)
		}
	}
	if err := Check(nil, Subject{}); err != nil {
		t.Errorf("without conditions: %v", err)
	}
}

// TestCase32AnErrorQuotesLittleOfTheResult: an expression may make an error of the result itself.
func TestCase32AnErrorQuotesLittleOfTheResult(t *testing.T) {
	canary := strings.Repeat("canary-\n", 4000)
	for _, expression := range []string{"{'a': 1}[raw] == 1", "int(raw) == 1", "timestamp(raw) != timestamp(0)", "duration(raw) != duration('1s')", "url(raw).getHost() == ''", "raw == 'a'"} {
		err := Check(checks(expression), text(canary))
		if err == nil {
			t.Fatalf("%s holds", expression)
		}
		if n := strings.Count(err.Error(), "canary"); n > maxQuote/8 || strings.Contains(err.Error(), "\n") || len(err.Error()) > 3*maxQuote {
			t.Errorf("%s quotes %d bytes of the result: %v", expression, n*8, err)
		}
	}
}

func TestWhatDoesNotCompileIsToldWithItsPlace(t *testing.T) {
	tests := map[string]struct {
		expression string
		want       []string
	}{
		"an unknown variable":          {"result.ok == true && rows > 3", []string{"spec.verify[1].expression: line 1, column 22: undeclared reference to 'rows'"}},
		"a syntax error":               {"result.rows ==", []string{"line 1, column 15", "Syntax error"}},
		"an unknown function":          {"exists(result)", []string{"undeclared reference to 'exists'"}},
		"a number":                     {"1 + 1", []string{"of type int", "must be bool"}},
		"a result as it is":            {"result.ok", []string{"of type dyn", "must be bool", "== true"}},
		"a field that resultRef lacks": {"resultRef.size > 3", []string{"undefined field 'size'"}},
		"wrong types":                  {"raw > 3", []string{"found no matching overload"}},
		"a pattern that is none":       {"raw.matches('(')", []string{"column 12", "missing closing )"}},
		"a pattern from the result":    {"raw.matches(result.pattern)", []string{"the pattern must be a literal"}},
		"a pattern from a condition":   {"raw.matches(raw == '' ? 'a' : 'b')", []string{"the pattern must be a literal"}},
		"a pattern that is too large":  {"raw.find('(abc){500}') == ''", []string{"instructions, 500 are allowed"}},
		"a replacement":                {"raw.replace('a', 'b') == ''", []string{"replace is not available here"}},
		"joined":                       {"raw.split('').join('x') == ''", []string{"join is not available here"}},
		"formatted":                    {"'%s'.format([raw]) == ''", []string{"format is not available here"}},
		"quoted":                       {"strings.quote(raw) == ''", []string{"strings.quote is not available here"}},
		"hidden in a comprehension":    {"[raw].exists(a, [a].map(b, b.replace('', b))[0] == '')", []string{"replace is not available here"}},
		"sought by its place":          {"raw.indexOf('a') == 1", []string{"indexOf is not available here"}},
		"sets":                         {"sets.contains(result, [1])", []string{"sets.contains is not available here"}},
		"two unknowns":                 {"result.a == result.b", []string{"column 10", "one side must be", "int(result.a) == result.b"}},
		"two unknowns that differ":     {"result.a != [result.b]", []string{"one side must be"}},
		"two unknown maps":             {"{'a': result.b} == result.a", []string{"one side must be"}},
		"an unknown among unknowns":    {"result.a in result.b", []string{"what is looked for must be", "string(result.a) in result.b"}},
		"a long complaint":             {strings.Repeat("x", 1000), []string{"undeclared reference to 'xxx", "..."}},
		"two lines":                    {"result.a == 1 &&\n  b == 2", []string{"line 2, column 3"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := Compile(checks("true", test.expression))
			for _, want := range test.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			if err != nil && (len(err.Error()) > 512 || strings.ContainsAny(err.Error(), "\n\x00")) {
				t.Errorf("%d bytes: %v", len(err.Error()), err)
			}
			if err := Check(checks(test.expression), text("{}")); err == nil || !strings.Contains(err.Error(), "cannot be compiled") {
				t.Errorf("and is evaluated: %v", err)
			}
		})
	}
}

// nested makes a list of lists, so many deep, of ten elements each.
func nested(depth int) string {
	list := "1"
	for i := range depth {
		list = fmt.Sprintf("[0,1,2,3,4,5,6,7,8,9].map(v%d, %s)", i, list)
	}
	return list
}

// TestCostIsLimited: what takes too long is stopped, and says so in words of its own.
func TestCostIsLimited(t *testing.T) {
	many := text("[" + strings.Repeat("1,", 10000) + "1]")
	for name, expression := range map[string]string{
		"loop in a loop":         "result.all(a, result.all(b, a + b > 0))",
		"pattern after pattern":  "result.all(a, !raw.matches('^(a|b|1|,)*$'))",
		"lists in a list":        "result.map(a, result.map(b, [a, b])).size() == 0",
		"lists that grow":        "[[[result].map(a, a+a+a+a+a)[0]].map(b, b+b+b+b+b+b+b+b)[0]].map(c, 3 in c)[0]",
		"text that grows":        "[[raw+raw+raw+raw].map(a, a+a+a+a+a+a+a+a)[0]].map(b, b+b+b+b+b+b+b+b+b+b)[0] == ''",
		"text that grows faster": "[[[raw+raw].map(a, a+a+a+a)[0]].map(b, b+b+b+b+b+b+b+b)[0]].map(c, c+c+c+c+c+c+c+c+c+c+c+c+c+c)[0] == ''",
		"bytes that grow":        "[[[bytes(raw)].map(a, a+a+a+a)[0]].map(b, b+b+b+b+b+b+b+b)[0]].map(c, c+c+c+c+c+c+c+c+c+c+c+c+c+c)[0] == b''",
	} {
		t.Run(name, func(t *testing.T) {
			all := checks(expression)
			if err := Compile(all); err != nil {
				t.Fatal(err)
			}
			err := Check(all, many)
			if err == nil || !strings.Contains(err.Error(), "stopped at the cost limit of 300000 for all conditions") || !strings.Contains(err.Error(), "20003 bytes") {
				t.Errorf("got %v", err)
			}
		})
	}
	largest := text("[" + strings.Repeat("1,", 16382) + "1]")
	for _, e := range []string{"result.all(a, a == 1)", "result.exists(a, a == 2 || a == 1)", "result.all(a, a > 0 && a < 3) && 1 in result", "raw.matches(r'^[0-9,\\[\\]]*$')", "result.filter(a, a == 1).size() == 16383"} {
		if err := Check(checks(e), largest); err != nil {
			t.Errorf("what is reasonable is not: %v", err)
		}
	}
}

// TestOneBudgetIsForAllConditions: what ten of them take together is bounded as one is, and whoever comes too late is told so.
func TestOneBudgetIsForAllConditions(t *testing.T) {
	large := text("[" + strings.Repeat("1,", 8000) + "1]")
	each := func(i int) string { return fmt.Sprintf("result.all(a, a != %d)", i+2) } // a tenth of the budget, or more
	if err := Check(checks(each(0)), large); err != nil {
		t.Fatal(err)
	}
	var many []string
	for i := range 10 {
		many = append(many, each(i))
	}
	if err := Compile(checks(many...)); err != nil {
		t.Fatal(err)
	}
	err := fmt.Sprint(Check(checks(many...), large))
	if !strings.HasPrefix(err, "spec.verify[") || strings.HasPrefix(err, "spec.verify[0]") || !strings.Contains(err, "stopped at the cost limit of 300000 for all conditions") {
		t.Errorf("got %s", err)
	}
	if again := fmt.Sprint(Check(checks(many...), large)); again != err {
		t.Errorf("%s, then %s", err, again)
	}
	if err := Check(checks(many...), text("[1,1,1]")); err != nil {
		t.Errorf("what is reasonable is not: %v", err)
	}
}

// TestWhatIsSureToCostTooMuchTogetherIsTold: before anything runs, and at the first that there is nothing left for.
func TestWhatIsSureToCostTooMuchTogetherIsTold(t *testing.T) {
	half := nested(4) + ".size() == 10"
	for want, all := range map[string][]v1alpha1.ResultCheck{
		"<nil>": checks("true", half, "true"),
		"spec.verify[2].expression: all up to this one cost at least 313306, whatever the result, and 300000 are allowed":    checks("true", half, half, half),
		"spec.verify[0].expression: all up to this one cost at least 156666653, whatever the result, and 300000 are allowed": checks(nested(7) + ".size() == 10"),
	} {
		if got := fmt.Sprint(Compile(all)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestCompilingIsBounded: an expression is refused before it is expanded, or checked, if that could take seconds.
func TestCompilingIsBounded(t *testing.T) {
	tests := map[string]struct{ expression, want string }{
		"a macro that doubles what is before it": {"optional.of(1)" + strings.Repeat(".optMap(a, a)", 10) + " == optional.of(1)", "undeclared reference to 'optMap'"},
		"another":                                {"optional.of(1)" + strings.Repeat(".optFlatMap(a, optional.of(a))", 5) + " == optional.of(1)", "undeclared reference to 'optFlatMap'"},
		"lists in lists":                         {"result == " + strings.Repeat("[", 100) + "1" + strings.Repeat("]", 100), "has 100 lists, maps, optionals and types, 64 are allowed"},
		"maps in maps":                           {"result == " + strings.Repeat("{1:", 100) + "1" + strings.Repeat("}", 100), "has 100 lists"},
		"lists of what came before":              {"[1]" + strings.Repeat(".map(a, [a])", 50) + " == []", "has 152 lists"},
		"optionals":                              {"result == " + strings.Repeat("optional.of(", 70) + "1" + strings.Repeat(")", 70), "has 70 lists"},
		"types":                                  {"result == " + strings.Repeat("type(", 70) + "1" + strings.Repeat(")", 70), "has 70 lists"},
	}
	for name, test := range tests {
		if err := Compile(checks(test.expression)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	many := make([]string, 60)
	for i := range many {
		many[i] = fmt.Sprintf("[%d]", i)
	}
	if err := Compile(checks("result.rows.map(r, int(r.id)) in [" + strings.Join(many, ", ") + "]")); err != nil {
		t.Errorf("what is reasonable is not: %v", err)
	}
}

// TestTheFunctionsAreThoseThatWereLookedAt: another version of a library may bring functions whose cost bounds nothing. Look at each
// that is new, as env.go says, before it goes on this list.
func TestTheFunctionsAreThoseThatWereLookedAt(t *testing.T) {
	known := map[string]bool{}
	for _, name := range strings.Fields(functions) {
		known[name] = true
	}
	for name := range env().Functions() {
		if !known[name] {
			t.Errorf("function %s is new", name)
		}
	}
	for _, macro := range env().Macros() {
		if !slices.Contains([]string{"has", "all", "exists", "exists_one", "map", "filter"}, macro.Function()) {
			t.Errorf("macro %s is new: what it expands to may copy what it is given", macro.Function())
		}
	}
	for name := range refused {
		if !known[name] {
			t.Errorf("%s is refused and does not exist", name)
		}
	}
}

const functions = `
!_ -_ @in @not_strictly_false _!=_ _%_ _&&_ _*_ _+_ _-_ _/_ _<=_ _<_ _==_ _>=_ _>_ _?._ _?_:_ _[?_] _[_] __not_strictly_false__ _in_ _||_ in
add allowed asApproximateFloat asInteger bool bytes charAt check cidr compareTo contains containsCIDR containsIP double duration dyn endsWith
error errored family fieldSelector find findAll first format format.byte format.date format.datetime format.dns1035Label
format.dns1035LabelPrefix format.dns1123Label format.dns1123LabelPrefix format.dns1123Subdomain format.dns1123SubdomainPrefix
format.labelValue format.named format.qualifiedName format.uri format.uuid getDate getDayOfMonth getDayOfWeek getDayOfYear getEscapedPath
getFullYear getHost getHostname getHours getMilliseconds getMinutes getMonth getPort getQuery getScheme getSeconds group hasValue indexOf
int ip ip.isCanonical isCIDR isGlobalUnicast isGreaterThan isIP isInteger isLessThan isLinkLocalMulticast isLinkLocalUnicast isLoopback
isQuantity isSorted isURL isUnspecified join labelSelector last lastIndexOf lowerAscii masked matches max min name namespace optional.none
optional.of optional.ofNonZeroValue optional.unwrap or orValue path prefixLength quantity reason replace resource serviceAccount
sets.contains sets.equivalent sets.intersects sign size split startsWith string strings.quote sub subresource substring sum timestamp trim
type uint unwrapOpt upperAscii url validate value
`

func TestTheCacheIsBoundedAndGivesTheSameAnswer(t *testing.T) {
	for range 2 {
		for i := range 2 * cached {
			if err := Check(checks(fmt.Sprintf("result == %d", i)), text(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			if err := Compile(checks(fmt.Sprintf("unknown == %d", i))); err == nil {
				t.Fatal("compiles")
			}
		}
	}
	if n := known.Len(); n > cached {
		t.Errorf("%d programs are kept", n)
	}
	if first, again := compile("raw == 'x'"), compile("raw == 'x'"); first != again {
		t.Error("compiled twice")
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("result.a == 1", `{"a": 1}`)
	f.Add("raw.matches('a*')", "aaa")
	f.Fuzz(func(t *testing.T, expression, result string) {
		if len(expression) > 1024 || len(result) > fencing.MaxResultBytes {
			t.Skip()
		}
		compiles := Compile(checks(expression))
		err := Check(checks(expression), text(result))
		if compiles != nil && err == nil || err != nil && len(err.Error()) > 512 {
			t.Errorf("compile: %v; check: %v", compiles, err)
		}
		if again := Check(checks(expression), text(result)); fmt.Sprint(again) != fmt.Sprint(err) {
			t.Errorf("%v, then %v", err, again)
		}
	})
}
