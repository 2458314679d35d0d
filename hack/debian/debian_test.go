package debian

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMissingNamesEachPackageOnce(t *testing.T) {
	dir := t.TempDir()
	present := filepath.Join(dir, "present")
	if err := os.WriteFile(present, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(dir, "absent")
	got := missing([]Requirement{
		{Package: "complete", Files: []string{present}},
		{Package: "matched", Files: []string{filepath.Join(dir, "pre*")}},
		{Package: "absent", Files: []string{absent, absent + "2"}},
		{Package: "partly-absent", Files: []string{present, absent}},
		{Package: "not-static", Files: []string{present}, Static: true},
	})
	if diff := cmp.Diff([]string{"absent", "partly-absent", "not-static"}, got); diff != "" {
		t.Errorf("missing packages (-want +got):\n%s", diff)
	}
}

func TestIsStaticRefusesADynamicBinary(t *testing.T) {
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Skip("no shell on this machine")
	}
	if isStatic(shell) {
		t.Skip("the shell of this machine is static")
	}
	if isStatic(filepath.Join(t.TempDir(), "nothing")) {
		t.Error("a file that does not exist counts as static")
	}
}
