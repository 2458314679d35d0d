package binaries

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	unfinishedPrefix  = ".unfinished-"
	progressInterval  = 30 * time.Second
	versionStampScope = "k8s.io/component-base/version."
)

// build compiles one binary. Its flags are part of Go's cache key: changing them means compiling all of Kubernetes again.
func build(ctx context.Context, progress io.Writer, dir string, t tool) error {
	source, err := SourceDir()
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, fmt.Sprintf("%s%s-%d", unfinishedPrefix, t.name, os.Getpid()))
	defer func() { _ = os.Remove(tmp) }()
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", ldflags(), "-o", tmp, t.pkg)
	cmd.Dir = filepath.Join(source, "tools")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOTOOLCHAIN=local")
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	start := time.Now()
	stop := report(progress, t.name, start)
	err = cmd.Run()
	stop()
	if err != nil {
		return fmt.Errorf("build %s: %w\n%s", t.name, err, strings.TrimSpace(output.String()))
	}
	if err := os.Rename(tmp, filepath.Join(dir, t.name)); err != nil {
		return fmt.Errorf("keep %s: %w", t.name, err)
	}
	_, _ = fmt.Fprintf(progress, "Built %s in %s\n", t.name, time.Since(start).Round(time.Second))
	return nil
}

// ldflags stamp the version: clients parse it, and `kubectl version` complains without.
func ldflags() string {
	major, minor, _ := strings.Cut(strings.TrimPrefix(Version, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	stamps := []string{"gitVersion=" + Version, "gitMajor=" + major, "gitMinor=" + minor}
	flags := "-s -w"
	for _, stamp := range stamps {
		flags += " -X " + versionStampScope + stamp
	}
	return flags
}

// report says now and then that a build goes on, until stop is called.
func report(progress io.Writer, name string, start time.Time) (stop func()) {
	done := make(chan struct{})
	go func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				_, _ = fmt.Fprintf(progress, "Still building %s (%s)\n", name, time.Since(start).Round(time.Second))
			}
		}
	}()
	return func() { close(done) }
}
