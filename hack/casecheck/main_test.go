package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestWhatDidNotRunAndPassIsNamed(t *testing.T) {
	tests := named(strings.ReplaceAll("*TestGood*, *TestGood* again, *TestBad* *TestSkipped* *TestGone* *TestHalf* *TestTable/a row* *TestTable/no row* *TestMended*", "*", "`"))
	packages, err := declared(fstest.MapFS{
		"a/one_test.go": {Data: []byte("func TestGood(t *testing.T) {\nfunc TestBad(t *testing.T) {\nfunc TestHalf(t *testing.T) {\nfunc TestMended(t *testing.T) {\n")},
		"b/two_test.go": {Data: []byte("func TestSkipped(t *testing.T) {\nfunc TestHalf(t *testing.T) {\nfunc TestTable(t *testing.T) {\n")},
		"b/other.go":    {Data: []byte("func TestGone(t *testing.T) {\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	results := outcomes{}
	for name, report := range map[string]string{
		"a.json": `{"Action":"run","Package":"m/a","Test":"TestGood"}
{"Action":"pass","Package":"m/a","Test":"TestGood"}
{"Action":"fail","Package":"m/a","Test":"TestBad"}
{"Action":"pass","Package":"m/a","Test":"TestHalf"}
{"Action":"fail","Package":"m/a","Test":"TestMended"}
{"Action":"pass","Package":"m/a","Test":"TestMended"}
`,
		"b.json": `# m/b: a line of the compiler's
{"Action":"skip","Package":"m/b","Test":"TestSkipped"}
{"Action":"pass","Package":"m/b","Test":"TestTable/below/a_row"}
{"Action":"pass","Package":"m/b","Test":"TestTable/below"}
{"Action":"pass","Package":"m/b","Test":"TestTable"}
`,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(report), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := results.read(path); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"TestBad in a did not pass: fail",
		"TestGone does not exist",
		"TestHalf in b did not pass: it did not run",
		"TestSkipped in b did not pass: skip",
		"TestTable/no row did not pass",
	}
	if diff := cmp.Diff(want, missing(tests, packages, results)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if err := run("main_test.go", []string{filepath.Join(dir, "c.json")}); err == nil {
		t.Error("a report that is not there is read")
	}
}
