package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
	"github.com/leasehold-io/leasehold/internal/controller/plan/verify"
)

// blocks are the fenced blocks of a language in a page.
func blocks(t *testing.T, page, language string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "\n```"+language+"\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		all = append(all, block)
	}
	return all
}

// TestTheConditionsInTheGuideHold: each compiles, and holds for the result beside it.
func TestTheConditionsInTheGuideHold(t *testing.T) {
	result := blocks(t, "results.md", "json")[0]
	lines := strings.Split(blocks(t, "results.md", "cel")[0], "\n")
	if len(lines) < 10 {
		t.Fatalf("%d conditions", len(lines))
	}
	for _, line := range lines {
		checks := []v1alpha1.ResultCheck{{Expression: line}}
		if err := verify.Compile(checks); err != nil {
			t.Errorf("%s: %v", line, err)
		} else if err := verify.Check(checks, verify.Subject{Result: &result}); err != nil {
			t.Error(err)
		}
		if broken := "[]"; verify.Check(checks, verify.Subject{Result: &broken}) == nil && !strings.Contains(line, "resultRef") {
			t.Errorf("%s holds for everything", line)
		}
	}
}

// TestTheSamplesCompile: a sample whose condition does not would wait for ever.
func TestTheSamplesCompile(t *testing.T) {
	files, err := filepath.Glob("../config/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	conditions := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		task := v1alpha1.LeasedTask{}
		if err := yaml.Unmarshal(text, &task); err != nil || task.Kind != "LeasedTask" {
			continue
		}
		conditions += len(task.Spec.Verify)
		if err := verify.Compile(task.Spec.Verify); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if conditions == 0 {
		t.Error("no sample has a condition")
	}
}
