package harness

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine says what a run ran on: cores, kernel, Go, Kubernetes, PostgreSQL, and the commit.
func (h *Harness) Machine() []string {
	facts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	var kernel unix.Utsname
	if unix.Uname(&kernel) == nil {
		facts = append(facts, "Linux "+unix.ByteSliceToString(kernel.Release[:]))
	}
	facts = append(facts, runtime.Version())
	if h.Kubernetes != "" {
		facts = append(facts, "Kubernetes "+h.Kubernetes)
	}
	if h.PostgreSQL != "" {
		facts = append(facts, "PostgreSQL "+h.PostgreSQL)
	}
	if commit, err := exec.Command("git", "describe", "--always", "--dirty").Output(); err == nil {
		facts = append(facts, "commit "+strings.TrimSpace(string(commit)))
	}
	return facts
}

// Command is how this process was started, for a report.
func Command(pkg string) string {
	return strings.Join(append([]string{"go run", pkg}, os.Args[1:]...), " ")
}
