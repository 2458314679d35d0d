package docs

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const lastCase = 40

// TestEveryCaseHasItsTests checks docs/cases.md against the tests in the tree. That they ran and passed is for hack/casecheck to say.
func TestEveryCaseHasItsTests(t *testing.T) {
	page, err := os.ReadFile("cases.md")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := testsBelow("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range append(problemsOf(string(page), tree), caseProblems(string(page), tree, lastCase)...) {
		t.Error(problem)
	}
}

func TestTheCheckOfTheCasesCanFail(t *testing.T) {
	page := strings.ReplaceAll(`| Case | Situation | What is right | Tests | Note |
|---|---|---|---|---|
| 1 | a | b | U *TestCase01A* | |
| 2 | a | b | U *TestOther* | |
| 3 | a | b | | comes later |
| 3 | a | b | U *TestCase01A* | twice |
| 5 | a | b |
`, "*", "`")
	tree := map[string]string{"TestCase01A": "", "TestCase02B": "", "TestOther": ""}
	want := []string{
		"case 2 has no test that is named TestCase02..., and no note says why",
		"case 3 has two rows",
		"line 7 has 3 columns, want 5",
		"case 4 has no row",
		"case 5 has no row",
		"case 2 does not list TestCase02B",
	}
	if diff := cmp.Diff(want, caseProblems(page, tree, 5)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

var (
	caseRow  = regexp.MustCompile(`^\| (\d+) \|`)
	caseTest = regexp.MustCompile(`^TestCase(\d\d)`)
)

// caseProblems says what is wrong with a table of cases 1 to last: | Case | Situation | What is right | Tests | Note |.
func caseProblems(page string, tree map[string]string, last int) (problems []string) {
	problemf := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	listed := map[int]string{}
	for i, line := range strings.Split(page, "\n") {
		row := caseRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		columns := strings.Split(strings.Trim(line, "| "), "|")
		if strings.HasSuffix(line, "| |") { // the last one is empty
			columns = append(columns, "")
		}
		if len(columns) != 5 {
			problemf("line %d has %d columns, want 5", i+1, len(columns))
			continue
		}
		number, _ := strconv.Atoi(row[1]) // digits
		tests, note := columns[3], strings.TrimSpace(columns[4])
		if _, isThere := listed[number]; isThere {
			problemf("case %d has two rows", number)
		}
		listed[number] += tests
		if prefix := fmt.Sprintf("TestCase%02d", number); !strings.Contains(tests, "`"+prefix) && note == "" {
			problemf("case %d has no test that is named %s..., and no note says why", number, prefix)
		}
	}
	for number := 1; number <= last; number++ {
		if _, isThere := listed[number]; !isThere {
			problemf("case %d has no row", number)
		}
	}
	for _, test := range slices.Sorted(maps.Keys(tree)) {
		if of := caseTest.FindStringSubmatch(test); of != nil {
			if number, _ := strconv.Atoi(of[1]); !strings.Contains(listed[number], "`"+test+"`") {
				problemf("case %d does not list %s", number, test)
			}
		}
	}
	return problems
}
