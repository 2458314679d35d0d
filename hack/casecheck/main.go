// Casecheck holds a page that names tests against what ran:
//
//	go run ./hack/casecheck docs/cases.md bin/tests-*.json
//
// The reports are those of `go test -json`, or of gotestsum's --jsonfile. Every test that the page names must have run and passed
// in every package that declares it. One that was skipped did not run; of several runs the last one counts.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: casecheck PAGE REPORT...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "casecheck:", err)
		os.Exit(1)
	}
}

func run(page string, reports []string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	packages, err := declared(os.DirFS("."))
	if err != nil {
		return err
	}
	results := outcomes{}
	for _, report := range reports {
		if err := results.read(report); err != nil {
			return fmt.Errorf("%s: %w", report, err)
		}
	}
	tests := named(string(text))
	problems := missing(tests, packages, results)
	if len(problems) > 0 {
		return fmt.Errorf("%s:\n%s", page, strings.Join(problems, "\n"))
	}
	fmt.Printf("All %d tests that %s names ran and passed\n", len(tests), page)
	return nil
}

var inText = regexp.MustCompile("`(Test[A-Z]\\w*(?:/[^`]+)?)`")

// named are the tests that a page names, each once: `Test`, or `Test/case of its table`.
func named(page string) (tests []string) {
	for _, match := range inText.FindAllStringSubmatch(page, -1) {
		tests = append(tests, match[1])
	}
	slices.Sort(tests)
	return slices.Compact(tests)
}

var declaration = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(t \*testing\.T\)`)

// declared has the directories of the packages that declare each test.
func declared(tree fs.FS) (map[string][]string, error) {
	packages := map[string][]string{}
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		for _, match := range declaration.FindAllStringSubmatch(string(source), -1) {
			packages[match[1]] = append(packages[match[1]], filepath.ToSlash(filepath.Dir(path)))
		}
		return nil
	})
	return packages, err
}

// outcomes are the last words on tests: pass, fail or skip, by package and test.
type outcomes map[string]map[string]string

func (o outcomes) read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct{ Action, Package, Test string }
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			continue // go prints what does not compile as it is
		}
		switch event.Action {
		case "pass", "fail", "skip":
			if o[event.Package] == nil {
				o[event.Package] = map[string]string{}
			}
			o[event.Package][event.Test] = event.Action
		}
	}
	return lines.Err()
}

// missing says which tests did not run and pass.
func missing(tests []string, packages map[string][]string, results outcomes) (problems []string) {
	for _, test := range tests {
		top, row, isRow := strings.Cut(test, "/")
		if len(packages[top]) == 0 {
			problems = append(problems, test+" does not exist")
		}
		wasFound := !isRow
		for _, dir := range packages[top] {
			ran := results.in(dir)
			if outcome := ran[top]; outcome != "pass" {
				problems = append(problems, fmt.Sprintf("%s in %s did not pass: %s", top, dir, orNever(outcome)))
			}
			wasFound = wasFound || hasPassed(ran, top, row)
		}
		if !wasFound {
			problems = append(problems, test+" did not pass")
		}
	}
	slices.Sort(problems)
	return slices.Compact(problems)
}

// in are the outcomes of the package in a directory of this module.
func (o outcomes) in(dir string) map[string]string {
	for pkg, ran := range o {
		if strings.HasSuffix(pkg, "/"+dir) {
			return ran
		}
	}
	return nil
}

// hasPassed reports whether a row of a table passed. The table may stand below others.
func hasPassed(ran map[string]string, top, row string) bool {
	row = strings.Join(strings.Fields(row), "_")
	for test, outcome := range ran {
		if outcome == "pass" && strings.HasPrefix(test, top+"/") && strings.HasSuffix(test, "/"+row) {
			return true
		}
	}
	return false
}

func orNever(outcome string) string {
	if outcome == "" {
		return "it did not run"
	}
	return outcome
}
