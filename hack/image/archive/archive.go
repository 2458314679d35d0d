package archive

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Spec says what an image holds and how it starts.
type Spec struct {
	// Tag is the reference that the image gets, for example "leasehold/manager:dev".
	Tag     string
	Entries []Entry

	Entrypoint []string
	Cmd        []string
	Env        []string
	// User is a numeric "uid" or "uid:gid"; empty means root. A name needs an /etc/passwd among the entries, and
	// a Pod with runAsNonRoot is refused when the user is not numeric.
	User       string
	WorkingDir string
}

// Write puts the image at out. The file appears whole or not at all.
func Write(out string, spec Spec) error {
	tag, err := name.NewTag(spec.Tag)
	if err != nil {
		return fmt.Errorf("tag %q: %w", spec.Tag, err)
	}
	img, err := build(spec)
	if err != nil {
		return fmt.Errorf("build image %s: %w", spec.Tag, err)
	}
	tmp := fmt.Sprintf("%s.%d.tmp", out, os.Getpid())
	if err := tarball.WriteToFile(tmp, tag, img); err != nil {
		_ = os.Remove(tmp)
		return fmt.Errorf("write image %s: %w", spec.Tag, err)
	}
	return os.Rename(tmp, out)
}

func build(spec Spec) (v1.Image, error) {
	content, err := layer(spec.Entries)
	if err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	// Images live on this machine only, so speed of packing counts and size does not.
	l, err := tarball.LayerFromOpener(opener, tarball.WithCompressionLevel(gzip.BestSpeed), tarball.WithCompressedCaching)
	if err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}
	epoch := v1.Time{Time: time.Unix(0, 0).UTC()}
	img, err := mutate.Append(empty.Image, mutate.Addendum{Layer: l, History: v1.History{Created: epoch, CreatedBy: "hack/image"}})
	if err != nil {
		return nil, fmt.Errorf("append layer: %w", err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	file = file.DeepCopy()
	file.Created, file.OS, file.Architecture = epoch, "linux", runtime.GOARCH
	file.Config = v1.Config{
		Entrypoint: spec.Entrypoint, Cmd: spec.Cmd, Env: spec.Env, User: spec.User, WorkingDir: spec.WorkingDir,
	}
	return mutate.ConfigFile(img, file)
}
