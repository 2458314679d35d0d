package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestEveryReasonSaysWhatHelps: each reason that the code can give for the end of an attempt has a row, and the row an action; and no
// row is about a reason that nobody gives.
func TestEveryReasonSaysWhatHelps(t *testing.T) {
	page, err := os.ReadFile("reasons.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|[^|]*\\| (.*) \\|$").FindAllStringSubmatch(string(page), -1) {
		if rows[row[1]] != "" {
			t.Errorf("%s has two rows", row[1])
		}
		rows[row[1]] = row[2]
	}
	given := map[string]bool{}
	for _, dir := range []string{"../internal/fencing", "../internal/controller/plan"} {
		for _, reason := range reasonsIn(t, dir) {
			given[reason] = true
			if len(strings.Fields(rows[reason])) < 4 {
				t.Errorf("%s: reasons.md says %q", reason, rows[reason])
			}
		}
	}
	if len(given) < 30 {
		t.Errorf("only %d reasons were found", len(given))
	}
	for reason := range rows {
		if !given[reason] {
			t.Errorf("nobody gives the reason %s", reason)
		}
	}
}

// reasonsIn are the values of a package's exported constants Reason...
func reasonsIn(t *testing.T, dir string) (reasons []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") || len(spec.Values) != 1 {
				return true
			}
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				if reason, err := strconv.Unquote(literal.Value); err == nil {
					reasons = append(reasons, reason)
				}
			}
			return true
		})
	}
	return reasons
}
