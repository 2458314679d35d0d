package debian

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Requirement is a package and the files of it that are used. An entry without a slash is searched in PATH; one with a star stands for
// any file that it matches.
type Requirement struct {
	Package string
	Files   []string
	Static  bool // the files must be static binaries, because they go into an image without a C library
}

// Ensure installs missing packages. Without root or apt-get its error names them.
func Ensure(ctx context.Context, progress io.Writer, requirements []Requirement) error {
	lacking := missing(requirements)
	if len(lacking) == 0 {
		return nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("these Debian packages (or the same software) are needed, and only root can install them with apt-get: %s",
			strings.Join(lacking, " "))
	}
	_, _ = fmt.Fprintf(progress, "Installing Debian packages: %s\n", strings.Join(lacking, " "))
	allowStart, err := forbidServiceStart()
	if err != nil {
		return err
	}
	defer allowStart()
	if err := run(ctx, apt, "update", "-qq"); err != nil {
		_, _ = fmt.Fprintf(progress, "Going on with the package lists that are here: %v\n", err)
	}
	args := append([]string{"install", "-y", "-qq", "--no-install-recommends"}, lacking...)
	if err := run(ctx, apt, args...); err != nil {
		return err
	}
	if still := missing(requirements); len(still) > 0 {
		return fmt.Errorf("packages %s were installed, but their files are not where we look for them", strings.Join(still, " "))
	}
	return nil
}

func run(ctx context.Context, name string, args ...string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, strings.TrimSpace(out.String()))
	}
	return nil
}

func missing(all []Requirement) []string {
	var lacking []string
	for _, r := range all {
		for _, file := range r.Files {
			if !r.has(file) {
				lacking = append(lacking, r.Package)
				break
			}
		}
	}
	return lacking
}

func (r Requirement) has(file string) bool {
	if matches, err := filepath.Glob(file); err == nil && len(matches) > 0 {
		file = matches[len(matches)-1]
	}
	path, err := exec.LookPath(file)
	return err == nil && (!r.Static || isStatic(path))
}

// isStatic is true for a program that asks for no dynamic loader.
func isStatic(path string) bool {
	program, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = program.Close() }()
	for _, segment := range program.Progs {
		if segment.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}

// policyFile is where Debian's package scripts ask whether they may start services.
const policyFile = "/usr/sbin/policy-rc.d"

const policy = "#!/bin/sh\n# Temporary, written by Leasehold's hack/debian while it installs packages.\nexit 101\n"

// forbidServiceStart keeps packages from starting their services: the cluster runs its own containerds, a test its own PostgreSQL.
// An administrator's own policy stays; ours is replaced when a killed run left it.
func forbidServiceStart() (undo func(), err error) {
	current, err := os.ReadFile(policyFile)
	if err == nil && string(current) != policy {
		return func() {}, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", policyFile, err)
	}
	if err := os.WriteFile(policyFile, []byte(policy), 0o755); err != nil {
		return nil, fmt.Errorf("write %s: %w", policyFile, err)
	}
	return func() { _ = os.Remove(policyFile) }, nil
}
