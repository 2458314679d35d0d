package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPageIsCurrent: docs/lifecycle.md says what the code says.
func TestPageIsCurrent(t *testing.T) {
	want, err := render("../..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../docs/lifecycle.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("run `make generate` (-code +page):\n%s", diff)
	}
}

// TestSameCodeSamePage: the output does not depend on the run.
func TestSameCodeSamePage(t *testing.T) {
	first, err := render("../..")
	if err != nil {
		t.Fatal(err)
	}
	second, err := render("../..")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("two runs give two pages")
	}
}

func TestConstantWithoutCommentIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/a.go", []byte("package a\n\nconst ReasonX = \"X\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (list{"a.go", "Reason"}).read(dir); err == nil {
		t.Error("no error")
	}
}
