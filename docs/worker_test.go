package docs

import (
	"os"
	"strings"
	"testing"
)

// TestTheGoInTheGuideIsThatOfTheExamples: which are compiled and run.
func TestTheGoInTheGuideIsThatOfTheExamples(t *testing.T) {
	source, err := os.ReadFile("../worker/example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	all := blocks(t, "worker.md", "go")
	if len(all) == 0 {
		t.Error("there is none")
	}
	for _, block := range all {
		if !strings.Contains(unindented(string(source)), unindented(block)) {
			t.Errorf("this is not in worker/example_test.go:\n%s", block)
		}
	}
}

func unindented(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimLeft(line, "\t")
	}
	return strings.Join(lines, "\n")
}
