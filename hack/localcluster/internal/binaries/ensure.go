package binaries

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/leasehold-io/leasehold/hack/localcluster/internal/flock"
)

// Directory makes sure that one directory holds all the named binaries and returns it: KUBEBUILDER_ASSETS when that has them all,
// else the cache.
func Directory(ctx context.Context, progress io.Writer, names []string) (string, error) {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" && len(missing(assets, names)) == 0 {
		return assets, nil
	}
	dir, err := CacheDir()
	if err != nil {
		return "", err
	}
	return dir, ensure(ctx, progress, dir, names)
}

// Paths makes sure that the named binaries exist and returns the path of each, preferring KUBEBUILDER_ASSETS one by one.
func Paths(ctx context.Context, progress io.Writer, names []string) (map[string]string, error) {
	paths := map[string]string{}
	var rest []string
	for _, name := range names {
		asset := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), name)
		if filepath.IsAbs(asset) && isExecutable(asset) {
			paths[name] = asset
			continue
		}
		rest = append(rest, name)
	}
	dir, err := CacheDir()
	if err != nil {
		return nil, err
	}
	if err := ensure(ctx, progress, dir, rest); err != nil {
		return nil, err
	}
	for _, name := range rest {
		paths[name] = filepath.Join(dir, name)
	}
	return paths, nil
}

func missing(dir string, names []string) []string {
	var absent []string
	for _, name := range names {
		if !isExecutable(filepath.Join(dir, name)) {
			absent = append(absent, name)
		}
	}
	return absent
}

// ensure builds what dir lacks. It looks again under the lock, because another caller may have built it meanwhile.
func ensure(ctx context.Context, progress io.Writer, dir string, names []string) error {
	for _, name := range names {
		if _, err := find(name); err != nil {
			return err
		}
	}
	if len(missing(dir, names)) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the cache directory: %w", err)
	}
	lockPath := filepath.Join(dir, ".lock")
	lock, err := flock.Acquire(ctx, lockPath, func() {
		_, _ = fmt.Fprintf(progress, "Waiting for another build of Kubernetes binaries (lock %s)\n", lockPath)
	})
	if err != nil {
		return err
	}
	defer lock.Release()
	removeUnfinished(dir)
	return buildAll(ctx, progress, dir, missing(dir, names))
}

// removeUnfinished deletes what a build that was killed left behind. The caller has the lock.
func removeUnfinished(dir string) {
	left, err := filepath.Glob(filepath.Join(dir, unfinishedPrefix+"*"))
	if err != nil {
		return
	}
	for _, path := range left {
		_ = os.Remove(path)
	}
}

func buildAll(ctx context.Context, progress io.Writer, dir string, names []string) error {
	var wanted []tool
	var total time.Duration
	for _, t := range tools { // in the order of the list, for which the times were measured
		for _, name := range names {
			if t.name == name {
				wanted = append(wanted, t)
				total += t.cold
			}
		}
	}
	if len(wanted) > 0 {
		_, _ = fmt.Fprintf(progress, "Building %d Kubernetes %s binaries into %s: about %s on 2 cores the first time, "+
			"much less when Go has compiled parts before\n", len(wanted), Version, dir, total.Round(time.Minute))
	}
	for i, t := range wanted {
		_, _ = fmt.Fprintf(progress, "Building %s (%d of %d, up to about %s)\n", t.name, i+1, len(wanted), t.cold)
		if err := build(ctx, progress, dir, t); err != nil {
			return err
		}
	}
	return nil
}
