// Package debian finds the programs that tests start, and installs the packages that have them where we are root.
package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	// policyFile is where Debian's package scripts ask whether they may start services.
	policyFile = "/usr/sbin/policy-rc.d"
	policy     = "#!/bin/sh\n# Temporary, written by Leasehold's worker/internal/debian while it installs packages.\nexit 101\n"
)

// Program returns the path of a program, the last that matches the pattern, and installs its package if it is missing and we are root.
// hack/debian of the operator does the same for the cluster; this module stands without the operator's.
func Program(ctx context.Context, progress io.Writer, pattern, debianPackage string) (string, error) {
	if path, found := look(pattern); found {
		return path, nil
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return "", fmt.Errorf("%s is missing, and only root can install the Debian package %s", filepath.Base(pattern), debianPackage)
	}
	unlock, err := Lock("packages")
	if err != nil {
		return "", err
	}
	defer unlock()
	if path, found := look(pattern); found { // another test binary was faster
		return path, nil
	}
	if err := install(ctx, progress, apt, debianPackage); err != nil {
		return "", err
	}
	if path, found := look(pattern); found {
		return path, nil
	}
	return "", fmt.Errorf("%s was installed, but %s is not there", debianPackage, pattern)
}

func look(pattern string) (string, bool) {
	if matches, err := filepath.Glob(pattern); err == nil && len(matches) > 0 {
		pattern = matches[len(matches)-1]
	}
	path, err := exec.LookPath(pattern)
	return path, err == nil
}

func install(ctx context.Context, progress io.Writer, apt, debianPackage string) error {
	_, _ = fmt.Fprintf(progress, "Installing the Debian package %s\n", debianPackage)
	allowStart, err := forbidServiceStart()
	if err != nil {
		return err
	}
	defer allowStart()
	if err := run(ctx, apt, "update", "-qq"); err != nil {
		_, _ = fmt.Fprintf(progress, "Going on with the package lists that are here: %v\n", err)
	}
	return run(ctx, apt, "-o", "DPkg::Lock::Timeout=120", "install", "-y", "-qq", "--no-install-recommends", debianPackage)
}

func run(ctx context.Context, name string, args ...string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %q: %w\n%s", name, args, err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// forbidServiceStart keeps packages from starting their services. An administrator's own policy stays.
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
