// Package python packs this machine's Python as a container image, for tests on a cluster that has no registry.
//
// The image holds the interpreter, its standard library and the shared libraries that these need, from the distribution's package python3,
// which is installed if it is missing and we are root. There is nothing else in it: no shell, no pip.
package python

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/leasehold-io/leasehold/hack/debian"
	"github.com/leasehold-io/leasehold/hack/image/archive"
)

// interpreter is the distribution's, whatever comes first in PATH.
const interpreter = "/usr/bin/python3"

// packages: pydoc3 stands for the whole library, of which python3-minimal has a part only.
var packages = []debian.Requirement{{Package: "python3", Files: []string{interpreter, "/usr/bin/pydoc3"}}}

// left are directories of the standard library that no worker imports.
var left = []string{"__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data", "dist-packages", "site-packages"}

// Spec is the image.
func Spec(ctx context.Context, progress io.Writer, tag string) (archive.Spec, error) {
	if err := debian.Ensure(ctx, progress, packages); err != nil {
		return archive.Spec{}, err
	}
	binary, err := filepath.EvalSymlinks(interpreter)
	if err != nil {
		return archive.Spec{}, err
	}
	printed, err := output(ctx, interpreter, "-I", "-S", "-c", `import sysconfig; print(sysconfig.get_path("stdlib"))`)
	if err != nil {
		return archive.Spec{}, err
	}
	files, err := library(strings.TrimSpace(printed))
	if err != nil {
		return archive.Spec{}, err
	}
	files = append(files, binary)
	needed, err := needs(ctx, files)
	if err != nil {
		return archive.Spec{}, err
	}
	entries := []archive.Entry{archive.Dir("/tmp", 0o1777)}
	if binary != interpreter {
		entries = append(entries, archive.Symlink(interpreter, binary))
	}
	for _, file := range append(files, needed...) {
		content, err := os.ReadFile(file)
		if err != nil {
			return archive.Spec{}, err
		}
		mode := int64(0o644)
		if file == binary || isShared(file) {
			mode = 0o755
		}
		entries = append(entries, archive.File(file, mode, content))
	}
	return archive.Spec{Tag: tag, Entries: entries, Cmd: []string{interpreter}, Env: []string{"PATH=/usr/bin", "PYTHONDONTWRITEBYTECODE=1"}}, nil
}

// library lists the files of the standard library.
func library(root string) (files []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (slices.Contains(left, entry.Name()) || strings.HasPrefix(entry.Name(), "config-")):
			return fs.SkipDir
		case entry.Type().IsRegular():
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

func isShared(file string) bool { return strings.Contains(filepath.Base(file), ".so") }

// loaded finds a library in what ldd prints: "libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x...)", and the loader, which has no arrow.
var loaded = regexp.MustCompile(`(?m)^\s+(?:\S+ => )?(/\S+) \(0x`)

// needs lists the shared libraries of the programs among the files, by the paths under which the loader looks for them.
func needs(ctx context.Context, files []string) ([]string, error) {
	args := slices.DeleteFunc(slices.Clone(files), func(file string) bool { return !isShared(file) && !strings.Contains(file, "/bin/") })
	printed, err := output(ctx, "ldd", args...)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, found := range loaded.FindAllStringSubmatch(printed, -1) {
		all = append(all, found[1])
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	var problems bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = &problems
	printed, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, problems.Bytes())
	}
	return string(printed), nil
}
