// Package docs has the tests of what the pages say.
package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheFailureMatrixNamesTestsThatExist reads `Test` and `Test/case of its table` wherever they stand on the page; every row
// must name one.
func TestTheFailureMatrixNamesTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("failure-matrix.md")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := testsBelow("..")
	if err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(string(page), "\n| "); rows < 40 {
		t.Errorf("only %d rows were found", rows)
	}
	for _, problem := range problemsOf(string(page), tree) {
		t.Error(problem)
	}
}

func TestTheCheckOfTheFailureMatrixCanFail(t *testing.T) {
	page := strings.ReplaceAll(`Text that names *TestD* and *TestA*.
| Fault | Tests |
|---|---|
| fine | U *TestA*, *TestB/a case* |
| open | not yet built |
| bare | – |
| gone | *TestA*, *TestC* |
| case | *TestA/a case*, *TestB/another* |

| Figure | |
| 1 | 2 |
`, "*", "`")
	tree := map[string]string{"TestA": "func TestA(", "TestB": `func TestB( "a case": {`}
	want := []string{
		"line 1 names TestD, which does not exist",
		"line 6 names no test",
		"line 7 names TestC, which does not exist",
		"line 8 names TestA/a case, and TestA has no such case",
		"line 8 names TestB/another, and TestB has no such case",
	}
	if diff := cmp.Diff(want, problemsOf(page, tree)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

var named = regexp.MustCompile("`(Test[A-Z]\\w*)(?:/([^`]+))?`")

func problemsOf(page string, tree map[string]string) (problems []string) {
	problemf := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	isMatrix := false // and not another table
	for i, line := range strings.Split(page, "\n") {
		tests := named.FindAllStringSubmatch(line, -1)
		isHead := strings.HasPrefix(line, "| Fault |")
		isMatrix = isHead || isMatrix && strings.HasPrefix(line, "|")
		isRow := isMatrix && !isHead && strings.HasPrefix(line, "| ")
		if isRow && len(tests) == 0 && !strings.Contains(line, "not yet built") {
			problemf("line %d names no test", i+1)
		}
		for _, test := range tests {
			source, exists := tree[test[1]]
			switch {
			case !exists:
				problemf("line %d names %s, which does not exist", i+1, test[1])
			case test[2] != "" && !strings.Contains(source, `"`+test[2]+`":`):
				problemf("line %d names %s/%s, and %s has no such case", i+1, test[1], test[2], test[1])
			}
		}
	}
	return problems
}

var declared = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)

// testsBelow has, for each test in the tree, the test files of its package: a table may be in another file than its test.
func testsBelow(root string) (map[string]string, error) {
	names, sources := map[string][]string{}, map[string]string{} // directories by test, files by directory
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir := filepath.Dir(path)
		sources[dir] += string(source)
		for _, test := range declared.FindAllStringSubmatch(string(source), -1) {
			names[test[1]] = append(names[test[1]], dir)
		}
		return nil
	})
	tree := map[string]string{}
	for name, dirs := range names {
		for _, dir := range dirs {
			tree[name] += sources[dir]
		}
	}
	return tree, err
}
