package docs

import (
	"os"
	"strings"
	"testing"
)

// TestTheGoInTheGuideIsThatOfTheExamples: which are compiled.
func TestTheGoInTheGuideIsThatOfTheExamples(t *testing.T) {
	examples := ""
	for _, file := range []string{"../worker/example_test.go", "../worker/examples/hello/main.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		examples += string(source)
	}
	all := blocks(t, "worker.md", "go")
	if len(all) == 0 {
		t.Error("there is none")
	}
	for _, block := range all {
		if !strings.Contains(unindented(examples), unindented(block)) {
			t.Errorf("this is in none of the examples:\n%s", block)
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
