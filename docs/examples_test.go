package docs

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	v1alpha1 "github.com/leasehold-io/leasehold/api/v1alpha1"
)

// TestTheTasksOfTheExamplesAreTasks: a field that nobody knows would be dropped without a word. That they run is for the end-to-end tests.
func TestTheTasksOfTheExamplesAreTasks(t *testing.T) {
	files, err := filepath.Glob("../worker/examples/*/task.yaml")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		task := v1alpha1.LeasedTask{}
		if err := yaml.UnmarshalStrict(text, &task); err != nil || task.Kind != "LeasedTask" || task.Spec.Template == nil {
			t.Errorf("%s: kind %q, %v", file, task.Kind, err)
		}
	}
}
